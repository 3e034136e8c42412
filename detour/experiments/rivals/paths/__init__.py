# SPDX-License-Identifier: Apache-2.0
"""Path schemes of rivals, as plugins of hosts and a part of native code."""

from __future__ import annotations

from detour.base.native import Part
from detour.experiments.rivals.paths.bend import BENDING_PATHS
from detour.experiments.rivals.paths.reps import REPS_PATHS
from detour.experiments.rivals.paths.scout import SCOUTING_PATHS
from detour.experiments.rivals.paths.spritz import RECYCLING_PATHS
from detour.experiments.rivals.paths.swap import SWAPPING_PATHS
from detour.hosts.paths.built_in import build

RIVAL_SCHEMES_PART = Part("rivals", __name__)
build(RIVAL_SCHEMES_PART, BENDING_PATHS, REPS_PATHS, SCOUTING_PATHS, RECYCLING_PATHS, SWAPPING_PATHS)
