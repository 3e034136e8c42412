# SPDX-License-Identifier: Apache-2.0
"""The controller's decisions: who is congested, which links are suspect, where flows go."""

import pytest

from detour.control.rerouting import FlowReport, ReroutingController, Thresholds
from detour.topo import parse_failure, parse_topology

NETWORK = parse_topology("leaf-spine:leaves=3,spines=3,hosts=4")
MS = 1_000_000_000
RULES = Thresholds(hold_ps=10 * MS, penalty_ps=100 * MS)


def report(flow: str, rate: float = 10.0, ecn: float = 0.0, delay: float = 0.0) -> FlowReport:
    return FlowReport(flow, rate, 1 - rate / 10, ecn, 2 * delay, delay)


@pytest.mark.parametrize(
    ("rate", "ecn", "delay", "congested"),
    [
        (10, 1.0, 1e9, False),  # nothing is missing
        (6, 0.0, 0.0, False),  # nothing to send
        (6, 0.2, 0.0, True),
        (6, 0.0, 6e6, True),
        (9.5, 0.2, 6e6, False),
        (6, 0.05, 4e6, False),
    ],
)
def test_congested_means_less_throughput_and_marks_or_delay(rate, ecn, delay, congested):
    assert RULES.congested(report("a", rate, ecn, delay)) is congested


def test_a_congested_flow_leaves_the_link_that_only_it_uses():
    controller = ReroutingController(NETWORK, RULES)
    controller.add("ill", (0, 3, 1))
    controller.add("well", (0, 4, 1))
    # s0-s3 and s3-s1 are suspect; both other spines are free of suspicion, s5 has less to carry.
    assert controller.decide([report("ill", 6, 0.5), report("well")], 0) == {"ill": (0, 5, 1)}


def test_links_that_a_healthy_flow_uses_are_not_suspect():
    controller = ReroutingController(NETWORK, RULES)
    for name, path in {"ill": (0, 3, 1), "up": (0, 3, 2), "down": (2, 3, 1)}.items():
        controller.add(name, path)
    # Both links of its path carry healthy flows: nothing is better than where it is.
    assert controller.decide([report("ill", 6, 0.5), report("up"), report("down")], 0) == {}


def test_two_congested_flows_do_not_move_to_the_same_path():
    controller = ReroutingController(NETWORK, RULES)
    controller.add("a", (0, 3, 1))
    controller.add("b", (0, 3, 1))
    moves = controller.decide([report("a", 6, 0.5), report("b", 6, 0.5)], 0)
    assert sorted(moves.values()) == [(0, 4, 1), (0, 5, 1)]


def test_it_waits_after_a_move_and_does_not_come_back_soon():
    controller = ReroutingController(NETWORK, RULES)
    controller.add("a", (0, 3, 1))
    ill = [report("a", 6, 0.5)]
    path = controller.decide(ill, 0)["a"]
    controller.moved("a", path, 0)
    assert controller.path("a") == path
    assert controller.decide(ill, 9 * MS) == {}
    second = controller.decide(ill, 10 * MS)["a"]
    controller.moved("a", second, 10 * MS)
    assert {path, second} == {(0, 4, 1), (0, 5, 1)}
    assert controller.decide(ill, 99 * MS) == {}, "the first path was left less than 100 ms ago"
    assert controller.decide(ill, 100 * MS) == {"a": (0, 3, 1)}


def test_a_decision_that_is_not_carried_out_changes_nothing():
    controller = ReroutingController(NETWORK, RULES)
    controller.add("a", (0, 3, 1))
    ill = [report("a", 6, 0.5), report("stranger", 1, 1)]
    assert controller.decide(ill, 0) == controller.decide(ill, 1)


def test_failed_paths_are_not_taken_and_ended_flows_forgotten():
    failures = frozenset({parse_failure(NETWORK, "s4"), parse_failure(NETWORK, "s0-s5")})
    controller = ReroutingController(NETWORK, RULES, failures)
    controller.add("a", (0, 3, 1))
    assert controller.decide([report("a", 6, 0.5)], 0) == {}
    controller.remove("a")
    assert controller.decide([report("a", 6, 0.5)], 0) == {}
