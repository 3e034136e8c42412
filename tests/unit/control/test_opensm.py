# SPDX-License-Identifier: Apache-2.0
"""Ftree and Min-Hop as tables, and what they make of a linear shift."""

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.control.fors import FatTree, baselines, paths
from detour.control.fors.baselines import linear_shift
from detour.control.fors.paths import TreePaths

FABRIC = FatTree(4, 4)


def crowd(fabric: FatTree, name: str) -> np.ndarray:
    shift = linear_shift(fabric)
    spine = baselines.spines_of(fabric, baselines.ROUTING_ENGINES[name](fabric), shift.src, shift.dst)
    away = spine != baselines.INSIDE
    alive = fabric.alive
    assert alive[shift.src[away] // fabric.spines, spine[away]].all()
    assert alive[shift.dst[away] // fabric.spines, spine[away]].all()
    leaves = shift.src // fabric.hosts, shift.dst // fabric.hosts
    return paths.crowd(TreePaths(fabric), shift.phase, *leaves, spine)[1]


@pytest.mark.parametrize("name", ["ftree", "minhop"])
def test_without_failures_nobody_shares_a_link(name):
    assert crowd(FABRIC, name).max() == 1


@pytest.mark.parametrize("name", ["ftree", "minhop"])
def test_one_failed_link_makes_flows_share_links_in_most_phases(name):
    loads = crowd(FABRIC.with_failed({(0, 0)}), name)
    assert loads.max() == 2
    assert loads.mean() > 1.5


def test_min_hop_spreads_servers_evenly_over_the_links_that_are_left():
    table = baselines.min_hop(FABRIC.with_failed({(0, 0)}))
    used = np.bincount(table[0][table[0] >= 0], minlength=4)
    assert used.tolist() == [0, 4, 4, 4]
    assert (table[1, 0:4] != 0).all()  # spine 0 does not lead to leaf 0


def test_ftree_goes_round_the_spines_that_are_left():
    table = baselines.ftree_table(FABRIC.with_failed({(leaf, 1) for leaf in range(4)}))
    assert table[0, 4:10].tolist() == [2, 3, 0, 2, 3, 0]


def test_opensm_leaves_ftree_when_a_single_link_fails():
    assert baselines.by_default(FABRIC) == "ftree"
    assert baselines.by_default(FABRIC.with_failed({(leaf, 1) for leaf in range(4)})) == "ftree"
    assert baselines.by_default(FABRIC.with_failed({(2, 1)})) == "minhop"


def test_a_pair_of_leaves_without_common_spine_is_named():
    fabric = FatTree(2, 2, frozenset({(0, 0), (1, 1)}))
    with pytest.raises(DetourError, match="leaves 0 and 1"):
        baselines.spines_of(fabric, baselines.min_hop(fabric), np.array([0]), np.array([2]))
