# SPDX-License-Identifier: Apache-2.0
"""Packets followed through a fabric or a single switch, and what is shown of them (docs/trace.md)."""
