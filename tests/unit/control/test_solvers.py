# SPDX-License-Identifier: Apache-2.0
"""Solvers: SciPy comes with the extra `plan`, and what needs it says so; HiGHS is quiet; random numbers are NumPy's."""

import subprocess
import sys

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.control.fors import ejection
from detour.control.linear import heaviest_assignment
from detour.topo import parse_topology
from detour.topo.expander.flat import breadth_first
from tests.native import from_python


@pytest.fixture
def without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "scipy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "scipy", None)


def test_assignments_say_what_is_missing(without_scipy):
    with pytest.raises(DetourError, match=r"this plan needs SciPy: .*pip install -e '.*\[plan\]', or `make tools`"):
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


_PROGRAM = "from detour.control.fors import parse_fabric, solve; print(solve(parse_fabric('ft:m0=2,m1=2')).phases)"


def test_a_solver_leaves_standard_output_alone() -> None:
    """The release 1.16.0 prints two lines in every process, whatever its options are."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"


seeded, below = from_python(ejection.seeded), from_python(ejection.below)


@pytest.mark.parametrize("seed", [0, 1, 4357, 2**32 - 1])
@pytest.mark.parametrize("limit", [2, 3, 7, 64, 1000])
def test_random_numbers_of_native_code_are_those_of_random_state(seed, limit):
    state, expected = seeded(seed), np.random.RandomState(seed)
    assert [below(state, limit) for _ in range(2000)] == [expected.randint(limit) for _ in range(2000)]
