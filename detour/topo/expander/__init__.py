# SPDX-License-Identifier: Apache-2.0
"""Expanders: FC+ and FC (wired in layers), Jellyfish, Xpander and Slim Fly (layered afterwards), and the Clos that
costs as much. All but the last two are seeded."""

from detour.topo.expander.flat import jellyfish, slimfly, xpander
from detour.topo.expander.folded import equal_cost_clos
from detour.topo.expander.layered import fc, fcplus
from detour.topo.expander.network import Expander

__all__ = [
    "Expander", "booted", "equal_cost_clos", "fc", "fcplus", "flat", "folded", "given", "growth", "jellyfish",
    "network", "slimfly", "xpander",
]  # fmt: skip
