# SPDX-License-Identifier: Apache-2.0
"""SciPy comes with the extra `plan`: only plans by assignments need it, and they say so."""

import sys

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.control.linear import heaviest_assignment
from detour.topo import parse_topology
from detour.topo.expander.flat import breadth_first


@pytest.fixture
def without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "scipy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "scipy", None)


def test_assignments_say_what_is_missing(without_scipy):
    with pytest.raises(DetourError, match=r"needs SciPy: pip install 'detour-fabric\[plan\]'"):
        heaviest_assignment(np.eye(3))


def test_topologies_need_none(without_scipy):
    assert parse_topology("jellyfish:n=12,s=4,hosts=2").switches


def test_breadth_first_order():
    """Neighbours by a switch's own links come first: 2 has links of its own to 4 and 3, and one from 1."""
    links = np.array([[2, 4], [1, 2], [2, 3], [3, 5], [4, 1]], np.int32)
    assert breadth_first(7, links, 2).tolist() == [2, 3, 4, 1, 5]


def test_heaviest_assignment():
    rows, columns = heaviest_assignment(np.array([[1, 5], [2, 9]]))
    assert list(zip(rows, columns, strict=True)) == [(0, 0), (1, 1)]
