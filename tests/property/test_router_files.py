# SPDX-License-Identifier: Apache-2.0
"""Networks written for other people's tools and read again are the same networks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.control.graph_files import open_topology
from detour.control.placement.jobs import flows_of
from detour.control.placement.place import place
from detour.control.routers import PLACEMENT_FORMATS
from detour.topo import Topology, parse_topology
from tests.unit.topo.test_lab_files import FABRIC, LAB

DOCUMENT = yaml.safe_load(LAB)
TOPOLOGIES = st.one_of(
    st.builds(
        "leaf-spine:leaves={},spines={},hosts={}".format, *(st.integers(2, 5), st.integers(1, 4), st.integers(1, 3))
    ),
    st.builds("dragonfly:p={},a={},h=1".format, st.integers(1, 3), st.integers(2, 4)),
    st.builds("jellyfish:n={},s=4,hosts=1".format, st.sampled_from([6, 8, 10])),
    st.sampled_from(["fat-tree:k=4", "torus:dims=3x3,hosts=1", "hyperx:dims=3x3,hosts=2"]),
)


def wiring(topology: Topology) -> set[frozenset[str]]:
    return {frozenset(link.name.split("-")) for link in topology.links}


def opened(text: str, name: str) -> Topology:
    with TemporaryDirectory() as folder:
        (Path(folder) / name).write_text(text)
        return open_topology(f"{folder}/{name}")


def lab_of(topology: Topology) -> str:
    flows = flows_of([{"collective": "ring-all-reduce", "hosts": "all"}], topology)
    return dict(PLACEMENT_FORMATS["frr"](topology, frozenset(), place(topology, flows)))["fabric.clab.yml"]


@settings(deadline=None, max_examples=25)
@given(TOPOLOGIES)
def test_a_containerlab_lab_is_read_as_the_network_that_it_was_written_from(spec):
    topology = parse_topology(spec)
    lab = lab_of(topology)
    network = opened(lab, "fabric.clab.yml")
    assert (len(network.switches), len(network.hosts)) == (len(topology.switches), len(topology.hosts))
    assert wiring(network) == wiring(topology)
    assert sorted(lab_of(network).splitlines()) == sorted(lab.splitlines())


def discovered(topology: Topology, seed: int) -> str:
    """What ibnetdiscover would print of the same network, in some order."""
    cables: dict[str, list[str]] = {}
    for link in topology.links:
        host = link.kind == "host"
        a, b = (f"S-{link.a[0]:x}", link.a[1]), (f"{'H' if host else 'S'}-{link.b[0]:x}", link.b[1] or 1)
        for here, there in ((a, b), (b, a)):
            cables.setdefault(here[0], []).append(f'[{here[1]}] \t"{there[0]}"[{there[1]}] \t\t# "x" lid 3 4xNDR')
    blocks = []
    for name, lines in cables.items():
        title = f"{'s' if name[0] == 'S' else 'h'}{int(name[2:], 16)}"
        kind = "Switch\t64" if name[0] == "S" else "Ca\t1"
        random.Random(seed).shuffle(lines)
        blocks.append("\n".join([f'{kind} "{name}"\t\t# "{title}" base port 0 lid 1 lmc 0', *lines]))
    random.Random(seed).shuffle(blocks)
    return "# Topology file\n\n" + "\n\n".join(blocks) + "\n"


@settings(deadline=None, max_examples=25)
@given(TOPOLOGIES, st.integers(0, 1000))
def test_ibnetdiscover_says_the_same_in_any_order(spec, seed):
    topology = parse_topology(spec)
    network = opened(discovered(topology, seed), "net.ibnetdiscover")
    assert network.rate_bps == 400e9
    assert wiring(network) == wiring(topology)


WRONG = st.sampled_from([None, 7, "x", "x:y", [], {}, [1], ["x"], {"a": 1}, {"a": {"b": []}}])


def places(document: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of everything in a document but itself."""
    inside = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in inside:
        yield (*here, key)
        yield from places(value, (*here, key))


def taken_or_refused(text: str, name: str) -> None:
    refusal = ""
    try:
        opened(text, name)
    except DetourError as error:
        refusal = str(error)
    assert "\n" not in refusal


@settings(deadline=None, max_examples=300)
@given(st.data(), WRONG)
def test_any_mistake_in_a_lab_is_taken_or_refused_in_one_line(data, wrong):
    document = deepcopy(DOCUMENT)
    *path, key = data.draw(st.sampled_from(list(places(document))))
    part = document
    for step in path:
        part = part[step]
    part[key] = wrong
    taken_or_refused(yaml.safe_dump(document), "x.yml")


@settings(deadline=None, max_examples=300)
@given(st.data(), st.text('[]"()#\t\nSH-149x ', max_size=4))
def test_any_mistake_in_what_ibnetdiscover_prints_is_taken_or_refused_in_one_line(data, wrong):
    begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(FABRIC))] * 2)))
    taken_or_refused(FABRIC[:begin] + wrong + FABRIC[min(end, begin + 30) :], "x.ibnet")
