# SPDX-License-Identifier: Apache-2.0
"""Routings by name: who chooses between a shortest path and a detour, sender or switch (`policy.Routing`)."""

from __future__ import annotations

from detour.base.plugins import PluginRegistry
from detour.control.policy import VALIANT, Routing

ROUTING_REGISTRY = PluginRegistry(
    "routings",
    "routing",
    Routing,
    {
        "valiant": VALIANT,
        "adaptive": "detour.control.routes.adaptive:ADAPTIVE",
        "minimal": "detour.control.routes.adaptive:MINIMAL",
        "random": "detour.control.routes.adaptive:RANDOM",
        "ugal-local": "detour.control.routes.adaptive:UGAL_LOCAL",
        "ugal-global": "detour.control.routes.adaptive:UGAL_GLOBAL",
        "spraypoint": "detour.control.routes.spraypoint:SPRAYPOINT",
        "ugal-graph": "detour.control.routes.adaptive:UGAL_GRAPH",
    },
)
routing = ROUTING_REGISTRY.chosen
