# SPDX-License-Identifier: Apache-2.0
"""Routing on expanders: DF-KSP, KSP, edge-disjoint up-down paths; their deadlock freedom, their throughput."""

__all__ = [
    "carried", "comparison", "counts", "cuts", "demand", "families", "optimum", "proof", "routes", "splits", "tagger",
    "throughput",
]  # fmt: skip

DEMAND_PATTERNS = (
    "all-to-all", "uniform", "near-worst", "longest-matching", "random-matching", "neighbour-matching", "ring",
    "ring-random", "clique:F", "hubs:F", "matching:F", "moe:S",
)  # fmt: skip
"""F: a fraction of the switches; S: skew, 0 to 1"""
COMPARED_ROUTINGS = ("df-ksp", "ksp-lash", "lash", "dfsssp", "nue")
"""Names that the command line offers: it loads this package without its modules."""
