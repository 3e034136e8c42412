# SPDX-License-Identifier: Apache-2.0
"""Schemes of rivals, which `pyproject.toml` registers as entry points (group `detour.schemes`)."""

from __future__ import annotations

from dataclasses import replace

from detour.base.times import US
from detour.fabric.backends.virtual.scheme import (
    NSCC_MARKING,
    OBLIVIOUS,
    SHORTEST_LERP,
    SPRAY_LERP,
    TELEMETRY_LERP_EVIDENCE,
    UGAL_G,
    UGAL_L,
    VALIANT,
)

REPS = replace(SPRAY_LERP, name="REPS", paths="reps")
"""arXiv 2407.21625, with LERP and DCTCP below it"""
REPS_NSCC = replace(REPS, name="REPS-NSCC", control="nscc", ecn=NSCC_MARKING)
MRC_LIKE = replace(SPRAY_LERP, name="MRC-like", paths="mrc-like")
"""arXiv 2605.04333, its choice of paths, with LERP and DCTCP below it"""
MRC_LIKE_32 = replace(
    MRC_LIKE, name="MRC-like-32", hosts=(*MRC_LIKE.hosts, ("swap_paths", 32), ("spray_dead_ps", 20 * US))
)
"""with sets of 32 paths, as many of each plane. Size (7, 8, 16, 32) and the time for which a loss bars a path (10, 20,
35, 50, 100, 300 us, 1, 10 ms) were chosen on the first topology of `reproduce planes`"""
MRC_LIKE_32_TRIM = replace(MRC_LIKE_32, name="MRC-like-32-trim", trims=True)
MRC_LIKE_NSCC = replace(MRC_LIKE, name="MRC-like-NSCC", control="nscc", ecn=NSCC_MARKING)
"""under the congestion control of Ultra Ethernet (`hosts.cc.nscc`)"""
FLOWBENDER = replace(SPRAY_LERP, name="FlowBender", paths="flowbender")
"""Kabbani et al., CoNEXT 2014: T = 5 %, N = 1"""
PLB = replace(FLOWBENDER, name="PLB", hosts=(*FLOWBENDER.hosts, ("bend_share", 0.5), ("bend_rounds", 12)))
"""Qureshi et al., SIGCOMM 2022; Linux' defaults"""
SPRITZ_SCOUT = replace(SPRAY_LERP, name="Spritz-Scout", paths="spritz-scout")
SPRITZ_SPRAY = replace(SPRAY_LERP, name="Spritz-Spray", paths="spritz-spray")
"""arXiv 2602.19567 (`rivals.paths.spritz_spray`), which has DCTCP as well"""

RIVAL_SCHEMES = (
    TELEMETRY_LERP_EVIDENCE, SHORTEST_LERP, OBLIVIOUS, VALIANT, REPS, MRC_LIKE, MRC_LIKE_NSCC, SPRITZ_SCOUT,
    SPRITZ_SPRAY, UGAL_L, UGAL_G, FLOWBENDER, PLB,
)  # fmt: skip
"""all that `reproduce rivals` compares with SprayLERP"""
