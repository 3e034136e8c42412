# SPDX-License-Identifier: Apache-2.0
"""Routing on expanders: DF-KSP, KSP, edge-disjoint up-down paths; their deadlock freedom, their throughput."""
