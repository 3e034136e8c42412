# SPDX-License-Identifier: Apache-2.0
"""What others bring is found by name, entry point and file, and what is wrong with it is one line that says where."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from detour.base import plugins
from detour.base.errors import DetourError
from detour.topo.spec import TOPOLOGY_REGISTRY, parse_topology


def _adopt(name: str, value: Any) -> int:
    if not isinstance(value, int):
        raise DetourError(f"{name.rpartition(':')[2]} is a {type(value).__name__}, and not a number")
    return value


@pytest.fixture
def numbers() -> plugins.Registry[int]:
    return plugins.Registry("numbers", "number", {"one": 1, "most": "sys:maxsize"}, _adopt)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    points: list[EntryPoint] = []
    monkeypatch.setattr(plugins, "_entry_points", lambda group, _: EntryPoints(points).select(group=group))
    return points


def file(folder: Path, text: str) -> str:
    (folder / "own.py").write_text(text)
    return str(folder / "own.py")


def test_what_is_built_in_is_a_value_or_imported_by_its_name(numbers: plugins.Registry[int]) -> None:
    assert (numbers.find("one"), numbers.find("most")) == (1, sys.maxsize)


def test_packages_bring_entry_points(numbers: plugins.Registry[int], installed: list[EntryPoint]) -> None:
    installed += [EntryPoint("tau", "math:tau", "detour.numbers"), EntryPoint("limit", "sys:maxunicode", "other")]
    assert numbers.names() == ("one", "most", "tau")
    with pytest.raises(DetourError, match="tau is a float, and not a number"):
        numbers.find("tau")
    installed.append(EntryPoint("unicode", "sys:maxunicode", "detour.numbers"))
    assert numbers.find("unicode") == sys.maxunicode
    installed.append(EntryPoint("unicode", "sys:maxsize", "detour.numbers"))
    with pytest.raises(DetourError, match="sys:maxsize and sys:maxunicode of installed packages both claim it"):
        numbers.find("unicode")
    installed.append(EntryPoint("broken", "no_such_module:x", "detour.numbers"))
    with pytest.raises(DetourError, match="No module named 'no_such_module'"):
        numbers.find("broken")


def test_a_package_that_is_installed_meanwhile_is_found(
    numbers: plugins.Registry[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is installed is read once, and again only after something has changed."""

    def install(name: str) -> None:
        (tmp_path / f"{name}-1.dist-info").mkdir()
        (tmp_path / f"{name}-1.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
        (tmp_path / f"{name}-1.dist-info" / "entry_points.txt").write_text(f"[detour.numbers]\n{name} = sys:maxsize\n")
        os.utime(tmp_path, ns=(reads.call_count + 1, reads.call_count + 1))  # clocks of file systems are coarse

    reads = Mock(side_effect=importlib.metadata.entry_points)
    monkeypatch.setattr(importlib.metadata, "entry_points", reads)
    monkeypatch.syspath_prepend(str(tmp_path))
    install("first")
    assert numbers.names() == numbers.names() == ("one", "most", "first")
    install("second")
    assert [numbers.find(name) for name in ("first", "second", "second")] == [sys.maxsize] * 3
    assert reads.call_count == 2


def test_names_nobody_has_are_told_with_those_that_are_near(numbers: plugins.Registry[int]) -> None:
    with pytest.raises(DetourError, match=r"no number 'mots'; did you mean most\? allowed: one, most, and FILE"):
        numbers.find("mots")


def test_a_file_is_executed_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    path = file(tmp_path, "VALUE = [1]\n")
    first = plugins.load(f"{path}:VALUE")
    assert plugins.load(f"{path}:VALUE") is first
    file(tmp_path, "VALUE = [2]\n")
    assert plugins.load(f"{path}:VALUE") == [2]


def test_a_file_may_import_its_neighbours_and_hold_dataclasses(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_own.py").write_text("NUMBER = 7\n")
    path = file(
        tmp_path,
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom neighbour_of_own import NUMBER\n"
        "@dataclass\nclass Pair:\n    left: int = NUMBER\n",
    )
    assert plugins.load(f"{path}:Pair")().left == 7
    assert str(tmp_path) not in sys.path


BROKEN = [
    ("VALUE = 1\n", ":VALEU", "own.py has no 'VALEU'; did you mean VALUE\\? allowed: VALUE"),
    ("VALUE = 1\n", "", "which number of it\\? Say .*own.py:NAME; allowed: VALUE"),
    ("VALUE = 'x'\n", ":VALUE", "own.py:1: VALUE is a str, and not a number"),
    ("VALUE = 1\nOTHER = VALEU\n", ":VALUE", "own.py:2: NameError: name 'VALEU' is not defined"),
    ("VALUE = 1\nif VALUE\n", ":VALUE", "own.py:2: expected ':'"),
    ("import no_such_module\n", ":VALUE", "own.py:1: ModuleNotFoundError"),
    ("import sys\nsys.exit(3)\n", ":VALUE", "own.py:2: it ended the program"),
]


@pytest.mark.parametrize(("text", "name", "reason"), BROKEN)
def test_a_wrong_file_is_one_line(
    tmp_path: Path, numbers: plugins.Registry[int], text: str, name: str, reason: str
) -> None:
    path = file(tmp_path, text)
    with pytest.raises(DetourError, match=reason) as caught:
        numbers.find(path + name)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path, numbers: plugins.Registry[int]) -> None:
    with pytest.raises(DetourError, match=r"none\.py: No such file"):
        numbers.find(f"{tmp_path}/none.py:VALUE")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("d1", ("d1", "")),
        ("dragonfly:p=2,a=4", ("dragonfly", "p=2,a=4")),
        ("own.py:ring", ("own.py:ring", "")),
        ("a:b/own.py:ring:n=4,m=5", ("a:b/own.py:ring", "n=4,m=5")),
        ("own.py", ("own.py", "")),
    ],
)
def test_a_text_is_a_name_and_what_follows(text: str, parts: tuple[str, str]) -> None:
    assert plugins.split(text) == parts


RING = """
import networkx as nx
from detour.topo import parse_topology

def ring(n: int, hosts: int = 1):
    graph = nx.cycle_graph(n)
    for switch in range(n):
        for i in range(hosts):
            graph.add_edge(switch, f"h{switch}.{i}", gbps=10)
    return graph

six = ring(6)
tree = parse_topology("fat-tree:k=4")

def wrong():
    return 3

def fails(n):
    return [][n]
"""


def test_topologies_of_a_file(tmp_path: Path) -> None:
    path = file(tmp_path, RING)
    ring = parse_topology(f"{path}:ring:n=5,hosts=2")
    assert (len(ring.switches), len(ring.hosts), len(ring.links), ring.rate_bps) == (5, 10, 15, 10_000_000_000)
    assert [link.speed for link in ring.links[-5:]] == [10.0] * 5
    assert parse_topology(ring.spec) == ring
    assert len(parse_topology(f"{path}:six").hosts) == 6
    assert parse_topology(f"{path}:tree") == parse_topology("fat-tree:k=4")
    file(tmp_path, RING.replace("gbps=10", "gbps=40"))
    with pytest.raises(DetourError, match="is another network than it was"):
        parse_topology(ring.spec)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ring", "n missing; wanted: n=, \\[hosts=\\]"),
        ("ring:n=4,k=3", "there is no parameter k; allowed: n=, \\[hosts=\\]"),
        ("ring:n=4,hosts=0", "there are no hosts"),
        ("ring:n=four", "own.py:7: TypeError: 'str' object"),
        ("rong", "has no 'rong'; did you mean ring"),
        ("wrong", "own.py:15: it is a int, and not a Topology, a networkx graph or a function that returns one"),
        ("fails:n=3", "own.py:19: IndexError: list index out of range"),
    ],
)
def test_a_wrong_topology_of_a_file_is_one_line(tmp_path: Path, text: str, reason: str) -> None:
    path = file(tmp_path, RING)
    with pytest.raises(DetourError, match=reason) as caught:
        parse_topology(f"{path}:{text}")
    assert "\n" not in str(caught.value)


def test_topologies_of_a_package(installed: list[EntryPoint]) -> None:
    installed.append(EntryPoint("wheel", "networkx:wheel_graph", TOPOLOGY_REGISTRY.group))
    with pytest.raises(DetourError, match="wheel: there are no hosts"):
        parse_topology("wheel:n=5")
    with pytest.raises(DetourError, match="there is no 'whel'; did you mean wheel"):
        parse_topology("whel:n=5")
