# SPDX-License-Identifier: Apache-2.0
"""Traces: what a program did to a packet, step by step, as a tree.

`recorder` switches tracing on for switches of a network and collects records, `records` reads them, `build` makes trees
(`tree`) of them, `filters` says which packets are wanted. docs/trace.md shows it in use.
"""

__all__ = ["build", "choices", "filters", "matching", "network", "recorder", "tree"]

LOG_TRACE = 5
"""the level of BMv2's log below DEBUG"""
