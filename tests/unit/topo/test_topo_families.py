# SPDX-License-Identifier: Apache-2.0
"""Topologies: sizes, wiring, port numbers, texts."""

from collections import Counter

import pytest

from detour.base.errors import DetourError
from detour.topo import Topology, parse_topology
from detour.topo.clos import fat_tree, leaf_spine
from detour.topo.dragonfly import dragonfly


def group_links(topology: Topology) -> Counter[frozenset[int]]:
    """Global links by the pair of groups that they join."""
    group = [switch.group for switch in topology.switches]
    return Counter(frozenset((group[k.a[0]], group[k.b[0]])) for k in topology.links if k.kind == "global")


@pytest.mark.parametrize(("name", "g", "a", "p", "h"), [("d1", 9, 4, 2, 2), ("D2", 19, 6, 3, 3), ("d3", 33, 8, 4, 4)])
def test_the_papers_dragonflies(name, g, a, p, h):
    topology = parse_topology(name)
    assert (topology.groups, len(topology.switches), len(topology.hosts)) == (g, g * a, g * a * p)
    assert topology.valiant_groups == g
    kinds = Counter(link.kind for link in topology.links)
    assert kinds == {"host": g * a * p, "local": g * a * (a - 1) // 2, "global": g * a * h // 2}
    assert topology.spec == f"dragonfly:p={p},a={a},h={h}"


@pytest.mark.parametrize("wiring", ["palmtree", "consecutive"])
def test_canonical_dragonflies_join_every_pair_of_groups_once(wiring):
    links = group_links(dragonfly(1, 3, 2, wiring=wiring))
    assert len(links) == 7 * 6 // 2
    assert set(links.values()) == {1}


def test_palmtree_leads_backwards_and_consecutive_counts_up():
    def groups_behind(wiring: str, group: int) -> list[int]:
        topology = dragonfly(1, 2, 2, wiring=wiring)
        ports = [topology.switches[s].ports[2:] for s in topology.members[group]]
        return [topology.switches[peer.index].group for switch in ports for peer in switch if peer]

    assert groups_behind("palmtree", 0) == [4, 3, 2, 1]
    assert groups_behind("palmtree", 3) == [2, 1, 0, 4]
    assert groups_behind("consecutive", 0) == [1, 2, 3, 4]
    assert groups_behind("consecutive", 3) == [0, 1, 2, 4]


@pytest.mark.parametrize("wiring", ["palmtree", "consecutive"])
def test_fewer_groups_share_the_global_ports_out_evenly(wiring):
    topology = dragonfly(2, 4, 2, g=5, wiring=wiring)
    assert set(group_links(topology).values()) == {2}
    assert topology.spec == "dragonfly:p=2,a=4,h=2,g=5" + (",wiring=consecutive" if wiring != "palmtree" else "")
    assert set(group_links(dragonfly(2, 4, 2, g=6)).values()) == {1}  # three ports a group stay free


def test_ports_are_hosts_then_local_then_global_links():
    for switch in parse_topology("d2").switches:
        kinds = [peer.kind for peer in switch.ports if peer]
        assert kinds == ["host"] * 3 + ["local"] * 5 + ["global"] * 3
        locals_ = [peer.index for peer in switch.ports if peer and peer.kind == "local"]
        assert locals_ == [s for s in range(switch.group * 6, switch.group * 6 + 6) if s != switch.index]


def test_two_groups_have_no_intermediate_one():
    assert dragonfly(1, 2, 1, g=2).valiant_groups == 0


def test_fat_tree():
    topology = fat_tree(4)
    assert (len(topology.switches), len(topology.hosts), topology.groups) == (20, 16, 4)
    assert Counter(switch.tier for switch in topology.switches) == {0: 8, 1: 8, 2: 4}
    assert [peer.kind for peer in topology.switches[0].ports if peer] == ["host"] * 2 + ["local"] * 2
    assert [peer.kind for peer in topology.switches[2].ports if peer] == ["local"] * 2 + ["global"] * 2
    for core in topology.members[4]:
        pods = [topology.switches[peer.index].group for peer in topology.switches[core].ports if peer]
        assert pods == [0, 1, 2, 3]


def test_blocking_fat_tree_has_more_hosts_at_the_edge():
    topology = fat_tree(8, blocking=4)
    assert len(topology.hosts) == 512
    edge = topology.switches[0]
    assert Counter(peer.kind for peer in edge.ports if peer) == {"host": 16, "local": 4}
    assert topology.spec == "fat-tree:k=8,blocking=4"


def test_leaf_spine():
    topology = leaf_spine(leaves=4, spines=2, hosts=3)
    assert (len(topology.switches), len(topology.hosts), topology.groups) == (6, 12, 1)
    assert [(peer.kind, peer.index) for peer in topology.switches[1].ports if peer] == [
        ("host", 3), ("host", 4), ("host", 5), ("local", 4), ("local", 5),
    ]  # fmt: skip
    assert [peer.index for peer in topology.switches[5].ports if peer] == [0, 1, 2, 3]


@pytest.mark.parametrize("text", ["d1", "dragonfly:p=2,a=3,h=2,g=4", "fat-tree:k=6,blocking=3",
                                  "leaf-spine:leaves=5,spines=3,hosts=2"])  # fmt: skip
def test_both_ends_of_a_link_agree(text):
    topology = parse_topology(text)
    for switch in topology.switches:
        for port, peer in enumerate(switch.ports, start=1):
            if peer is None:
                continue
            link = topology.links[peer.link]
            assert link.kind == peer.kind
            assert (switch.index, port) in (link.a, link.b)
            if peer.kind == "host":
                host = topology.hosts[peer.index]
                assert (host.switch, host.port) == (switch.index, port)
            else:
                back = topology.switches[peer.index].peer(peer.port)
                assert back is not None
                assert (back.index, back.port, back.link) == (switch.index, port, peer.link)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("d4", "there is no 'd4'; allowed: d1, d2, d3, dragonfly, leaf-spine, fat-tree"),
        ("", "there is no ''"),
        ("dragonfly", "p, a, h missing; wanted: p=, a=, h=, [g=], [wiring=]"),
        ("dragonfly:p=2,a=4", "h missing"),
        ("dragonfly:p=2,a=4,h=2,q=1", "there is no parameter q; allowed: p=, a=, h=, [g=], [wiring=]"),
        ("dragonfly:p=2,a=4,h=2,g=40", "g=40 exceeds a*h+1=9 groups"),
        ("dragonfly:p=2,a=4,h=2,g=1", "g=1 is less than 2"),
        ("dragonfly:p=0,a=4,h=2", "p=0 is less than 1"),
        ("dragonfly:p=two,a=4,h=2", "p=two is not a whole number"),
        ("dragonfly:p=2,a=4,h=2,wiring=random", "wiring=random is unknown; allowed: palmtree, consecutive"),
        ("dragonfly:p=2,p=3,a=4,h=2", "p is given twice"),
        ("dragonfly:p=2;a=4", "a, h missing"),
        ("dragonfly:p=99999999999,a=4,h=2", "too large"),
        ("dragonfly:p=1,a=500,h=20", "a switch needs 520 ports, at most 508"),
        ("dragonfly:p=1,a=250,h=250", "at most 32767 have a uSID"),
        ("fat-tree:k=5", "k=5 is not an even number"),
        ("fat-tree:k", "'k' is not of the form key=value"),
        ("fat-tree:k=4,blocking=0", "blocking=0 is less than 1"),
        ("fat-tree:k=64,blocking=2", "131072 hosts, at most 24576"),
        ("leaf-spine:leaves=0,spines=1,hosts=1", "leaves=0 is less than 1"),
        ("leaf-spine:leaves=2,spines=300,hosts=300", "600 ports"),
    ],
)
def test_wrong_texts_are_told_apart(text, words):
    with pytest.raises(DetourError) as caught:
        parse_topology(text)
    assert words in str(caught.value)


def test_texts_come_back():
    for text in ("dragonfly:p=2,a=3,h=2,g=4,wiring=consecutive", "fat-tree:k=4,blocking=2",
                 "leaf-spine:leaves=4,spines=2,hosts=4"):  # fmt: skip
        assert parse_topology(text).spec == text
    assert parse_topology(" dragonfly: p = 2, a=4 ,h=2") == parse_topology("d1")
    assert parse_topology("d1") != parse_topology("d2")


def test_names():
    topology = parse_topology("d1")
    assert topology.switch("s35").index == 35
    assert topology.host("h71").switch == 35
    assert topology.link("s0-s1") is topology.link("s1-s0") is topology.link("s0:3")
    assert topology.link("s1-h3").kind == "host"
    for wrong in ("s36", "h0", "s", "s-1", "S0", "s٣", "s99999999999"):
        with pytest.raises(DetourError):
            topology.switch(wrong)
    for wrong in ("s0-s9", "s0:8", "s0", "s0-s1-s2", "s0-x", "s0:"):
        with pytest.raises(DetourError, match=r"s0|link"):
            topology.link(wrong)


def test_parallel_links_have_names_of_their_own():
    topology = dragonfly(1, 1, 4, g=3)
    names = [link.name for link in topology.links if link.kind == "global"]
    assert sorted(names) == ["s0-s1", "s0-s1#2", "s0-s2", "s0-s2#2", "s1-s2", "s1-s2#2"]
    assert topology.link("s1-s0#2").name == "s0-s1#2"
