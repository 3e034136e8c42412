# SPDX-License-Identifier: Apache-2.0
"""Topologies as text: `dragonfly:p=2,a=4,h=2`, `leaf-spine:leaves=4,spines=2,hosts=4`, `fat-tree:k=4`, `d1`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from detour.base.errors import DetourError
from detour.topo.clos import fat_tree, leaf_spine
from detour.topo.dragonfly import dragonfly
from detour.topo.expander import booted
from detour.topo.keyvalues import check_keys, split_spec, whole_number
from detour.topo.topology import Topology

# The Dragonflies of Mizrahi et al., Table II.
SHORT_NAMES = {
    "d1": "dragonfly:p=2,a=4,h=2",
    "d2": "dragonfly:p=3,a=6,h=3",
    "d3": "dragonfly:p=4,a=8,h=4",
}


@dataclass(frozen=True)
class _Family:
    build: Callable[..., Topology]
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    words: tuple[str, ...] = ()  # keys whose value is not a number


FAMILIES = {
    "dragonfly": _Family(dragonfly, ("p", "a", "h"), ("g", "wiring"), ("wiring",)),
    "leaf-spine": _Family(leaf_spine, ("leaves", "spines", "hosts")),
    "fat-tree": _Family(fat_tree, ("k",), ("blocking",)),
    "fcplus": _Family(booted.fcplus, ("n", "s"), ("v", "hosts", "p", "seed", "grown")),
    "fc": _Family(booted.fc, ("n", "s", "k"), ("hosts", "p", "seed", "grown")),
    "jellyfish": _Family(booted.jellyfish, ("n", "s"), ("hosts", "p", "seed", "grown")),
    "xpander": _Family(booted.xpander, ("n", "s"), ("hosts", "p", "seed", "grown")),
    "slimfly": _Family(booted.slimfly, ("n", "s"), ("hosts", "p", "grown")),
    "equal-cost-clos": _Family(booted.equal_cost_clos, ("servers", "switches"), ("p",)),
}


def parse_topology(text: str) -> Topology:
    """The topology that a text describes.

    Raises:
        DetourError: what is wrong with the text and what is allowed, or the rule that its numbers break.
    """
    name, values = split_spec(SHORT_NAMES.get(text.strip().lower(), text))
    family = FAMILIES.get(name.lower())
    if family is None:
        raise DetourError(
            f"topology {text!r}: there is no {name!r}; allowed: {', '.join(SHORT_NAMES)}, {', '.join(FAMILIES)}:..."
        )
    check_keys(text, values, family.required, family.optional)
    arguments = {key: value if key in family.words else whole_number(text, key, value) for key, value in values.items()}
    return family.build(**arguments)
