# SPDX-License-Identifier: Apache-2.0
"""Claims that counting and linear programmes decide: figures that were worked out by hand or published."""

import numpy as np
import pytest

from detour.control.expander.cuts import next_hop_cuts, path_cuts
from detour.control.expander.demand import Demand
from detour.control.expander.routes import PathPolicy, all_pairs, compute
from detour.control.expander.splits import ecmp, spraypoint
from detour.experiments.flat.claims_lp import (
    SMALL,
    active_figures,
    disjoint_figures,
    neighbour_figures,
    ratio_figures,
    run,
    tree_switches,
    tree_theta,
)
from detour.experiments.flat.points import ClaimsPoint
from detour.topo.expander import xpander
from detour.topo.expander.polar import polarfly


def test_switches_of_trees():
    assert tree_switches(960 * 64, 128, 3, at_leaf=False) == 960 + 640 + 160
    assert tree_switches(960 * 64, 128, 3, at_leaf=True) == 640 + 320 + 160
    assert tree_switches(512 * 32, 64, 3, at_leaf=False) == 940
    assert tree_switches(512 * 32, 64, 3, at_leaf=True) == 599
    assert tree_switches(1024, 16, 1, at_leaf=True) == 320  # the fat-tree of 16 ports
    saving = run(ClaimsPoint(question="savings", scale="paper", draws=1)).claims[0]
    assert "45% (960 for 1760)" in saving.measured
    assert "14% (for 1120)" in saving.measured


def test_throughput_of_a_tree():
    # Six leaves of four hosts a pod, with eight links: a third of what its hosts send.
    across = Demand(np.array([[leaf, leaf + 6] for leaf in range(6)], np.int32), np.full(6, 4.0))
    assert tree_theta(across, 4) == pytest.approx(1 / 3)
    assert tree_theta(Demand(across.pairs[:2], across.amount[:2]), 4) == 1
    assert tree_theta(Demand(across.pairs % 6, across.amount), 4) == 1


def test_paths_without_a_link_in_common():
    network = xpander(4, 3, hosts=1)
    pairs = all_pairs(network)
    assert path_cuts(compute(network, PathPolicy(3, 0), pairs)).tolist() == [3] * 12
    assert next_hop_cuts(network, pairs, ecmp).tolist() == [1] * 12
    assert next_hop_cuts(network, pairs, spraypoint).tolist() == [3] * 12
    far = polarfly(4)
    linked = path_cuts(compute(far, PathPolicy(64, 0, max_hops=3), far.links))
    assert (linked <= 2).all()  # the link, and at most one path of two


def test_spraypoint_has_as_many_as_modelled_and_ksp_depends_on_ties():
    figures = disjoint_figures(SMALL, 160, 1)
    assert np.median(figures.spraypoint) == pytest.approx(18, abs=1)
    assert figures.spraypoint.min() >= 13
    assert figures.medians[8, "plain"] <= 5 < figures.medians[8, "diverse"] == 8
    assert figures.medians[64, "plain"] <= figures.medians[64, "diverse"] == 20


@pytest.mark.long
def test_ratios_of_spraypoint_and_ksp():
    figures = ratio_figures(SMALL, 1)
    assert figures.spraypoint == pytest.approx(3.17, rel=0.04)
    assert figures.links == pytest.approx(3.53, abs=0.03)
    assert figures.hashed > 2 * figures.spraypoint
    assert figures.ksp[64, "diverse"] < figures.spraypoint < figures.ksp[8, "diverse"] < figures.ksp[8, "plain"]


def test_few_active_switches_are_better_off_in_a_tree():
    rng, tree = active_figures(SMALL, "matching:0.2", 1)
    assert tree == 1
    assert 0.6 < rng < 0.8


def test_neighbours_on_polarfly():
    figures = neighbour_figures(7)
    assert figures.bare == 56
    assert figures.own == pytest.approx(1 / 8, rel=0.02)
    assert 2 * figures.own < figures.relieved <= figures.optimum * 1.02
    assert 2.6 < figures.links < 3
