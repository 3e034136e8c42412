# SPDX-License-Identifier: Apache-2.0
"""Exchanges on three levels, over parallel cables and with oversubscription: links, breaks in their midst."""

from fractions import Fraction

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.fors import FatTree
from detour.control.fors.fabric import TreeLink
from detour.control.fors.files import drawn_sizes
from detour.control.fors.paths import TreePaths, crowd, islands
from detour.control.fors.texts import parse_fabric
from detour.experiments.fors.exchange import ExchangeRun, execute, planned
from detour.fabric.traffic.outage import Break, Delays
from detour.fabric.traffic.phased import Pace, PhasedExchange
from detour.fabric.traffic.pinned import PinnedFabric

PACE = Pace(message=150_000)
QUICKLY = Delays(plan_ps=20 * US)
THREE = FatTree.three_levels(3, 2, 2, 2, 2, failed=frozenset({(1, 0, 1)}))
CABLES = FatTree(2, 3, frozenset({(0, 1)}), hosts=4, cables=2)


@pytest.mark.parametrize("tree", [THREE, CABLES], ids=lambda tree: tree.name)
def test_links_carry_what_the_plan_says(tree: FatTree) -> None:
    messages, _ = planned(tree, "fors")
    paths = TreePaths(tree)
    leaves = messages.src // tree.hosts, messages.dst // tree.hosts
    crossed = paths.crossed(*leaves, messages.path)
    assert crowd(paths, messages.phase, *leaves, messages.path)[1].max() == 1
    with PinnedFabric(tree, connections=PhasedExchange.connections(messages)) as fabric:
        exchange = PhasedExchange(fabric, messages, PACE)
        exchange.run()
        assert exchange.check().delivered == len(messages)
        stats = fabric.network.port_stats()
        ports = zip(stats["device_id"].tolist(), stats["port"].tolist(), strict=True)
        rows = {
            end: (int(tx), int(rx)) for end, tx, rx in zip(ports, stats["tx_bytes"], stats["rx_bytes"], strict=True)
        }
        half = crossed.shape[1] // 2
        for number, link in enumerate(paths.links):
            counts = rows[fabric.port(link)]
            for side, seen in zip((crossed[:, :half], crossed[:, half:]), counts, strict=True):
                payload = int((side == number).sum()) * PACE.message
                assert payload <= seen <= payload * 1.12 + 100_000  # headers, answers, barrier


BREAKS: list[tuple[FatTree, TreeLink]] = [
    (THREE, (0, 1)),
    (THREE, (2, 1, 0)),
    (CABLES, (1, 2)),
    (FatTree(2, 3, hosts=4, speed=Fraction(1, 2)), (0, 0)),
    (FatTree(2, 4, hosts=4, speed=Fraction(2), population=(4, 2, 0, 3), group=(0, 1, 3, 4, 5, 12, 14)), (3, 1)),
]


@pytest.mark.parametrize(("tree", "link"), BREAKS, ids=lambda one: getattr(one, "name", str(one)))
@pytest.mark.parametrize("silent", [False, True])
def test_a_break_costs_no_message_and_the_new_plan_no_link_twice(tree: FatTree, link: TreeLink, silent: bool) -> None:
    broken = Break(31 * US, frozenset({link}), silent=silent)
    result = execute(ExchangeRun(tree, "fors", (broken,), pace=PACE, delays=QUICKLY))
    counts, story = result.exchange, result.detections[0]
    assert counts.delivered == counts.messages
    assert (counts.missing, counts.repeated, counts.given_up) == (0, 0, 0)
    assert [one.links for one in result.detections] == [[tree.link_name(link)]]
    assert story.detected_by == ("probe" if silent else "port")
    first = story.in_force_from_phase
    if first is not None and len(result.phase_lengths_us) > first + 1:
        slow = tree.at_once * PACE.message * 8 / 200e3
        assert max(result.phase_lengths_us[first + 1 :]) < slow + 10
        assert story.in_force_us is not None


def test_messages_of_unlike_size_over_parallel_cables_while_one_breaks() -> None:
    tree = FatTree(2, 3, hosts=3, cables=2, population=(3, 2, 3), group=(0, 1, 2, 3, 4, 7, 8))
    sizes = drawn_sizes(7, "zipf:1", 200_000, 1)
    broken = Break(40 * US, frozenset({(0, 3), (1, 0)}))
    result = execute(ExchangeRun(tree, "fors", (broken,), pace=PACE, delays=QUICKLY, sizes=sizes))
    assert result.exchange.delivered == result.exchange.messages
    assert result.detections[0].links == ["0:1:1", "1:0:0"]


@pytest.mark.parametrize(
    "tree", [parse_fabric("fat-tree:k=4"), FatTree(2, 3, hosts=4, cables=2), FatTree(4, 3)], ids=str
)
def test_a_leaf_that_dies_is_left_out_and_the_others_go_on(tree: FatTree) -> None:
    broken = Break(31 * US, leaves=frozenset({0}))  # the root of the barrier is on it
    result = execute(ExchangeRun(tree, "fors", (broken,), pace=PACE, delays=QUICKLY))
    counts = result.exchange
    assert result.detections[0].hosts_lost == list(range(tree.hosts))
    assert counts.missing == counts.repeated == 0
    left = tree.servers - tree.hosts
    assert 0 < counts.given_up <= counts.messages - left * (left - 1)
    assert counts.delivered + counts.given_up == counts.messages


def test_a_pod_that_is_cut_off_is_left_out_and_one_that_is_from_the_beginning_refused() -> None:
    tree = FatTree.three_levels(3, 2, 2, 1, 2)
    cut = frozenset({(1, 0, 0), (1, 1, 0)})
    result = execute(ExchangeRun(tree, "fors", (Break(31 * US, cut),), pace=PACE, delays=QUICKLY))
    assert result.detections[0].hosts_lost == [4, 5, 6, 7]
    assert result.exchange.missing == result.exchange.repeated == 0
    parted = tree.with_failed(cut)
    assert islands(parted, TreePaths(parted).working()).tolist() == [0, 0, 1, 1, 0, 0]
    with pytest.raises(DetourError, match="leaf 2 is cut off from the others"):
        execute(ExchangeRun(parted, "fors", pace=PACE, skip_unreachable=True))
    with pytest.raises(DetourError, match="no way up and down is left for leaves 0 and 2"):
        execute(ExchangeRun(parted, "fors", pace=PACE))


@pytest.mark.parametrize("tree", [THREE, CABLES], ids=lambda tree: tree.name)
def test_probes_go_up_a_link_and_down_the_same(tree: FatTree) -> None:
    paths = TreePaths(tree)
    probes = paths.probes()
    assert {probe.links[-1] for probe in probes} == set(paths.links)
    for probe in probes:
        leaf = np.array([probe.leaf])
        crossed = paths.crossed(leaf, leaf, np.array([probe.path]))[0]
        half = len(crossed) // 2
        up, down = ([paths.links[k] for k in side.tolist() if k >= 0] for side in (crossed[:half], crossed[half:]))
        assert up == probe.links == down[::-1]


def test_a_leaf_with_one_server_is_seen_by_its_ports_only() -> None:
    tree = parse_fabric("fat-tree:k=2")
    heard = execute(ExchangeRun(tree, "fors", (Break(5 * US, frozenset({(0, 0)})),), pace=PACE, delays=QUICKLY))
    assert heard.exchange.given_up + heard.exchange.delivered == 2
    with pytest.raises(DetourError, match="link 0:0 cannot break silently"):
        execute(ExchangeRun(tree, "fors", (Break(5 * US, frozenset({(0, 0)}), silent=True),), pace=PACE))
    with pytest.raises(DetourError, match="no server sends"):
        execute(ExchangeRun(FatTree(3, 2, group=(4,)), "fors", pace=PACE))


def test_min_hop_on_three_levels_shares_links() -> None:
    fors, minhop = (execute(ExchangeRun(THREE, name, pace=PACE)) for name in ("fors", "minhop"))
    assert minhop.phases == 11
    assert {one.exchange.delivered for one in (fors, minhop)} == {132}
    assert fors.most_flows_on_a_link.max == 1 < minhop.most_flows_on_a_link.max
    parted = THREE.with_failed([(0, 0, 0), (0, 0, 1), (1, 1, 0), (1, 1, 1)])
    left = execute(ExchangeRun(parted, "minhop", pace=PACE, skip_unreachable=True))
    assert left.exchange.delivered == 132 - 2 * 16


def test_what_three_levels_cannot_do_yet_is_said() -> None:
    with pytest.raises(DetourError, match="routing ftree is for two levels"):
        ExchangeRun(THREE, "ftree")
    with pytest.raises(DetourError, match="when links fail in the midst"):
        ExchangeRun(THREE, "minhop", (Break(US, frozenset({(0, 1)})),))
    with pytest.raises(DetourError, match="unequal message sizes are for two levels"):
        ExchangeRun(THREE, sizes=drawn_sizes(12, "zipf:1", 1000, 1))
