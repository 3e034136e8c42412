# SPDX-License-Identifier: Apache-2.0
"""Path schemes of rivals, as plugins of hosts and a part of native code."""

from __future__ import annotations

from detour.base.native import Part
from detour.experiments.rivals.paths.flowbender import FLOWBENDER
from detour.experiments.rivals.paths.mrc_like import MRC_LIKE
from detour.experiments.rivals.paths.reps import REPS
from detour.experiments.rivals.paths.spritz_scout import SPRITZ_SCOUT
from detour.experiments.rivals.paths.spritz_spray import SPRITZ_SPRAY
from detour.hosts.paths.built_in import build

RIVAL_SCHEMES_PART = Part("rivals", __name__)
build(RIVAL_SCHEMES_PART, FLOWBENDER, REPS, SPRITZ_SCOUT, SPRITZ_SPRAY, MRC_LIKE)
