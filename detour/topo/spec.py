# SPDX-License-Identifier: Apache-2.0
"""Topologies as text: `dragonfly:p=2,a=4,h=2`, `leaf-spine:leaves=4,spines=2,hosts=4`, `fat-tree:k=4`, `d1`.

A family of one's own is a function of its parameters that returns a `Topology` or a networkx graph
(`topo.listed.topology_of_graph`), by entry point (group `detour.topologies`) or as `FILE.py:NAME`; that may be a
topology or a graph itself as well (`base.plugins`).
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from detour.base import plugins
from detour.base.errors import DetourError
from detour.topo.clos import clos, fat_tree, leaf_spine, rail_clos
from detour.topo.dragonfly import dragonfly
from detour.topo.expander.booted import booted
from detour.topo.grids import hyperx, torus
from detour.topo.keyvalues import check_keys, split_spec, whole_number
from detour.topo.listed import topology_of_graph
from detour.topo.names import link_name
from detour.topo.topology import Topology

# The Dragonflies of Mizrahi et al., Table II.
SHORT_NAMES = {"d1": "dragonfly:p=2,a=4,h=2", "d2": "dragonfly:p=3,a=6,h=3", "d3": "dragonfly:p=4,a=8,h=4"}


@dataclass(frozen=True)
class Family:
    """A function that builds topologies, and the names of what it takes."""

    build: Callable[..., Topology]
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    words: tuple[str, ...] = ()  # keys whose value is not a number


FAMILIES: dict[str, Family | str] = {
    "dragonfly": Family(dragonfly, ("p", "a", "h"), ("g", "wiring"), ("wiring",)),
    "leaf-spine": Family(leaf_spine, ("leaves", "spines", "hosts")),
    "fat-tree": Family(fat_tree, ("k",), ("blocking",)),
    "rail-clos": Family(rail_clos, ("pods", "rails", "servers", "spines"), ("cores",)),
    "clos": Family(clos, ("planes", "leaves", "spines", "hosts"), ("rails",)),
    "torus": Family(torus, ("dims",), ("hosts",), ("dims",)),
    "hyperx": Family(hyperx, ("dims",), ("hosts",), ("dims",)),
    "fcplus": Family(booted("fcplus"), ("n", "s"), ("v", "hosts", "p", "seed", "grown")),
    "fc": Family(booted("fc"), ("n", "s", "k"), ("hosts", "p", "seed", "grown")),
    "jellyfish": Family(booted("jellyfish"), ("n", "s"), ("hosts", "p", "seed", "grown")),
    "xpander": Family(booted("xpander"), ("n", "s"), ("hosts", "p", "seed", "grown")),
    "slimfly": Family(booted("slimfly"), ("n", "s"), ("hosts", "p", "grown")),
    "rng": Family(booted("rng"), ("n", "d", "hosts"), ("seed", "boxes", "grown")),
    "polarfly": Family(booted("polarfly"), ("q",), ("hosts",)),
    "polarstar": Family(booted("polarstar"), ("q", "s"), ("hosts",)),
    "equal-cost-clos": Family(booted("equal-cost-clos"), ("servers", "switches"), ("p",)),
}


def _adopt(name: str, given: Any) -> Family:
    """Another's topology, graph, or function that returns one of them, as a family."""
    if isinstance(given, Family):
        return replace(given, build=partial(_built, name, given.build))
    if not callable(given):
        topology = topology_of(name, given)
        return Family(lambda: topology, ())
    takes = inspect.signature(given).parameters.values()
    required = tuple(p.name for p in takes if p.default is p.empty and p.kind is not p.VAR_KEYWORD)
    optional = tuple(p.name for p in takes if p.default is not p.empty)
    return Family(partial(_built, name, given), required, optional)


def _built(name: str, function: Callable[..., Any], **values: Any) -> Topology:
    with plugins.blaming(name):
        return topology_of(name, plugins.call(name, function, **values))


def topology_of(name: str, given: Any) -> Topology:
    """A topology, or a networkx graph as one (`topo.graphs`), that code of others has made. Raises `DetourError`: it is
    neither, or the graph describes no topology."""
    if isinstance(given, Topology):
        return given
    if not (hasattr(given, "nodes") and hasattr(given, "edges") and hasattr(given, "adj")):
        raise DetourError(
            f"it is a {type(given).__name__}, and not a Topology, a networkx graph or a function that returns one"
        )
    return topology_of_graph(name, given)


TOPOLOGY_REGISTRY: plugins.Registry[Family] = plugins.Registry(
    "topologies", "topology", FAMILIES, _adopt, any_case=True
)
_DIGEST = re.compile(r"(?P<text>.*)#(?P<digest>[0-9a-f]{16})", re.DOTALL)


def parse_topology(text: str) -> Topology:
    """The topology that a text describes; `FILE.py:NAME` and families of installed packages among them. Raises
    `DetourError`: what is wrong with the text and what is allowed, or the rule that its numbers break."""
    text = SHORT_NAMES.get(text.strip().lower(), text)
    name, _ = plugins.split(text)
    if name.lower() not in FAMILIES:
        return _of_others(text)
    family = TOPOLOGY_REGISTRY.find(name)
    _, values = split_spec(text)
    check_keys(text, values, family.required, family.optional)
    arguments = {key: value if key in family.words else whole_number(text, key, value) for key, value in values.items()}
    return family.build(**arguments)


def _of_others(text: str) -> Topology:
    """Build the topology of a plug-in. Its `spec` is the text and, behind a `#`, a digest of the network; a network
    that differs is refused."""
    match = _DIGEST.fullmatch(text.strip())
    plain = text.strip() if match is None else match["text"]
    name, rest = plugins.split(plain)
    if not TOPOLOGY_REGISTRY.knows(name):
        names = (*SHORT_NAMES, *TOPOLOGY_REGISTRY.names())
        raise DetourError(f"topology {text!r}: there is no {name!r}; {plugins.near(name, names)}, FILE.py:NAME")
    family = TOPOLOGY_REGISTRY.find(name)
    values = plugins.values_of(text, rest)
    check_keys(text, values, family.required, family.optional)
    topology = family.build(**values)
    if topology.family in FAMILIES:
        return topology
    digest = digest_of(topology)
    if match is not None and match["digest"] != digest:
        raise DetourError(f"{plain} is another network than it was: {text!r} was its text")
    return replace(topology, spec=f"{plain}#{digest}")


def digest_of(topology: Topology) -> str:
    """Sixteen hexadecimal digits of all that makes up a network but names."""
    links, copies = [], Counter[frozenset[int]]()
    for link in topology.links:
        ends = frozenset((link.a[0], link.b[0]))
        copies[ends] += link.kind != "host"
        far = f"{'h' if link.kind == 'host' else 's'}{link.b[0]}"
        links.append(replace(link, name=link_name(f"s{link.a[0]}", far, copies[ends] if link.kind != "host" else 1)))
    parts = (topology.groups, topology.valiant_groups, topology.rate_bps, topology.switches, tuple(links))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
