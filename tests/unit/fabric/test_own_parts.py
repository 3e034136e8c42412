# SPDX-License-Identifier: Apache-2.0
"""Schemes and planners of a file: found, used, and told apart from the next version of the same file."""

from __future__ import annotations

from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.control.planner import plan, planner
from detour.control.policy import Policy
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import SPRAY_LERP, scheme
from detour.topo import Failure, parse_topology
from detour.topo.failures import NONE

LEAVES = parse_topology("leaf-spine:leaves=2,spines=2,hosts=1")

OWN = """
from dataclasses import replace
from detour.control.planner import plan
from detour.fabric.backends.virtual.scheme import SHORTEST_LERP

calls = []

def counted(topology, policy, failures):
    calls.append(len(failures))
    return plan(topology, policy, failures)

def broken(topology, policy, failures):
    return topology.no_such_thing

mine = replace(SHORTEST_LERP, name="whatever", planner=__file__ + ":counted")
number = 7

def made():
    return mine
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(OWN)
    return str(tmp_path / "own.py")


def test_a_scheme_of_ones_own_is_called_as_it_was_found(own: str) -> None:
    mine = scheme(f"{own}:mine")
    assert mine.name.startswith(f"{own}:mine#")
    assert (mine.transport, mine.paths) == ("lerp", "shortest")
    assert scheme(mine.name) == mine
    assert scheme(f"{own}:made").transport == "lerp"
    Path(own).write_text(OWN + "\n# another version\n")
    with pytest.raises(DetourError, match="has changed since"):
        scheme(mine.name)


def test_names_of_schemes_that_there_are(own: str) -> None:
    assert scheme("spraylerp") is SPRAY_LERP
    with pytest.raises(DetourError, match=r"there is no scheme 'SprayLRP'; did you mean SprayLERP"):
        scheme("SprayLRP")
    with pytest.raises(DetourError, match=r"own\.py:number is a int, and not a Scheme"):
        scheme(f"{own}:number")


def test_a_planner_of_ones_own_makes_the_entries(own: str) -> None:
    with VirtualFabric(LEAVES, scheme(f"{own}:mine"), queue_pairs=2) as fabric:
        assert fabric.replan(frozenset({Failure("link", 0)})) > 0
        assert fabric.installed().keys() == plan(LEAVES).keys()
    from detour.base.plugins import load

    assert load(f"{own}:calls") == [0, 0, 1]


def test_planners_that_are_wrong(own: str) -> None:
    with pytest.raises(DetourError, match=r"own\.py:broken: line 13: AttributeError"):
        planner(f"{own}:broken")(LEAVES, Policy(), NONE)
    with pytest.raises(DetourError, match=r"is a int, and not a function of topology, policy and failures"):
        planner(f"{own}:number")
    with pytest.raises(DetourError, match=r"no planner 'shortest'; did you mean shortest-paths"):
        planner("shortest")
