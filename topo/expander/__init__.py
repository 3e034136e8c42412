# SPDX-License-Identifier: Apache-2.0
"""Expanders: FC+ and FC (layered), Jellyfish and Xpander (flat), and the Clos that costs as much. All seeded."""

from detour.topo.expander.flat import jellyfish, xpander
from detour.topo.expander.folded import equal_cost_clos
from detour.topo.expander.layered import fc, fcplus
from detour.topo.expander.network import Expander

__all__ = ["Expander", "equal_cost_clos", "fc", "fcplus", "jellyfish", "xpander"]
