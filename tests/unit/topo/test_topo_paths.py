# SPDX-License-Identifier: Apache-2.0
"""Distances, shortest and detouring paths, uSID lists for paths, failures."""

from itertools import pairwise

import pytest

from detour.base.errors import DetourError
from detour.topo import Failure, failure_name, parse_failure, parse_topology, paths
from detour.topo.graph import FAR, GLOBAL, distances, exit_distances, hops

D1 = parse_topology("d1")


def down(topology, *names):
    return frozenset(parse_failure(topology, name) for name in names)


def test_a_dragonflys_shortest_path_takes_the_direct_global_link():
    distance = distances(D1)
    for a in D1.switches:
        for b in D1.switches:
            global_hops, local_hops = divmod(int(distance[a.index, b.index]), GLOBAL)
            assert global_hops == (a.group != b.group)
            assert local_hops <= 2
            assert len(list(paths.shortest_paths(D1, a.index, b.index))) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d1", paths.Bounds(4, 6)),
        ("d3", paths.Bounds(4, 6)),
        ("fat-tree:k=8", paths.Bounds(5, 5)),
        ("leaf-spine:leaves=4,spines=2,hosts=4", paths.Bounds(3, 3)),
        ("dragonfly:p=1,a=1,h=3", paths.Bounds(2, 3)),
        ("leaf-spine:leaves=1,spines=1,hosts=2", paths.Bounds(1, 1)),
    ],
)
def test_bounds(text, expected):
    assert paths.bounds(parse_topology(text)) == expected


def test_clos_paths_go_up_and_down():
    topology = parse_topology("fat-tree:k=4")
    leaf = [host.switch for host in topology.hosts]
    ways = list(paths.shortest_paths(topology, leaf[0], leaf[15]))
    assert len(ways) == 4
    assert all([topology.switches[s].tier for s in way] == [0, 1, 2, 1, 0] for way in ways)
    assert len(list(paths.shortest_paths(topology, leaf[0], leaf[2]))) == 2
    assert list(paths.shortest_paths(topology, leaf[0], leaf[1])) == [(0,)]


def test_detours_cross_the_intermediate_group_once():
    for via in range(1, 8):
        (way,) = paths.via_paths(D1, 0, 33, via)
        groups = [D1.switches[s].group for s in way]
        assert [g for g, following in zip(groups, [*groups[1:], -1], strict=True) if g != following] == [0, via, 8]
        assert len(way) <= paths.bounds(D1).detour
        for a, b in pairwise(way):
            assert b in {peer.index for peer in D1.switches[a].ports if peer and peer.kind != "host"}


@pytest.mark.parametrize("via", [0, 8, 9, -1])
def test_no_detour_by_way_of_the_ends_or_of_nothing(via):
    with pytest.raises(DetourError, match="not an intermediate group"):
        list(paths.via_paths(D1, 0, 33, via))


def test_a_clos_has_no_detours():
    topology = parse_topology("fat-tree:k=4")
    with pytest.raises(DetourError, match="not an intermediate group"):
        list(paths.via_paths(topology, 0, 8, 1))


def test_failures_leave_longer_paths():
    (direct,) = paths.shortest_paths(D1, 0, 35)
    failures = down(D1, f"s{direct[0]}-s{direct[1]}")
    ways = list(paths.shortest_paths(D1, 0, 35, failures))
    assert direct not in ways
    assert {hop for way in ways for hop in pairwise(way)}.isdisjoint({(0, 35), (35, 0)})
    assert int(hops(distances(D1, failures))[0, 35]) == len(ways[0]) - 1
    # Two global hops by way of another group, since nothing inside the groups helps.
    assert divmod(int(distances(D1, failures)[0, 35]), GLOBAL)[0] == 2


def test_a_dead_switch_is_nowhere():
    failures = frozenset({Failure("switch", 1)})
    assert (distances(D1, failures)[1, [0, 2, 35]] == FAR).all()
    assert list(paths.shortest_paths(D1, 0, 1, failures)) == []
    assert paths.next_hops(D1, 0, 1, failures) == []
    assert exit_distances(D1, failures)[1].min() == FAR


def test_names_of_failures_come_back():
    for text in ("s3", "s0-s1", "s35:7", "h70", "s1-h2"):
        failure = parse_failure(D1, text)
        assert parse_failure(D1, failure_name(D1, failure)) == failure
    for wrong in ("", "x1", "s36", "s0-s9", "h72"):
        with pytest.raises(DetourError):
            parse_failure(D1, wrong)


def test_usids_of_a_path():
    host = D1.hosts[66]
    (way,) = paths.via_paths(D1, 0, 33, 2)
    assert way == (0, 3, 8, 9, 34, 33)
    assert paths.path_usids(D1, way, host) == (4, 9, 10, 35, 34, host.node_id)
    assert paths.path_usids(D1, (33,), host) == (host.node_id,)


def test_long_paths_are_thinned_out_where_that_changes_nothing():
    host = D1.hosts[66]
    (first,) = paths.via_paths(D1, 0, 16, 2)
    (second,) = paths.via_paths(D1, 16, 33, 6)
    way = first + second[1:]
    assert len(way) > 6
    usids = paths.path_usids(D1, way, host)
    assert len(usids) <= 6
    stops = [0, *(usid - 1 for usid in usids[:-1])]
    joined = [0]
    for a, b in pairwise(stops):
        (part,) = paths.shortest_paths(D1, a, b)
        joined += part[1:]
    assert tuple(joined) == way


def test_paths_that_are_none():
    host = D1.hosts[66]
    with pytest.raises(DetourError, match="ends at s33"):
        paths.path_usids(D1, (0, 1), host)
    with pytest.raises(DetourError, match="not neighbours"):
        paths.path_usids(D1, (0, 33), host)
    zigzag = (0, 1) * 4 + (0, 2, 0, 3)
    with pytest.raises(DetourError, match="needs 12 uSIDs, at most 6"):
        paths.path_usids(D1, zigzag, D1.hosts[6])


def test_usid_lists_as_text():
    assert paths.parse_usid_list(D1, "s1,s7, h12") == (2, 8, 0x800C)
    assert paths.parse_usid_list(D1, "2:8:p3:800c") == (2, 8, 0xE003, 0x800C)
    for wrong in ("", "s99", "0", "10000", "xyz", "1 2 3 4 5 6 7"):
        with pytest.raises(DetourError):
            paths.parse_usid_list(D1, wrong)


def test_lists_that_name_every_switch_and_those_that_do_not():
    spine = parse_topology("leaf-spine:leaves=3,spines=2,hosts=2")
    source = spine.hosts[0]

    def named(text):
        return paths.named_switches(spine, source, paths.parse_usid_list(spine, text))

    assert named("s3,s1,h2") == (0, 3, 1)
    assert named("s0,s3,s1,s4,s2,h5") == (0, 3, 1, 4, 2)
    assert named("h1") == (0,)
    up = next(n for n, peer in enumerate(spine.switches[0].ports, 1) if peer and peer.index == 4)
    assert named(f"s0,p{up},s1,h3") == (0, 4, 1)
    for loose in ("s1,h2", "s3,h2", "s3,s1", "s3,s1,h4", "s3,h2,s1", "s0,p1,h0", "s0,p99,h0", "1000,h2"):
        assert named(loose) is None, loose


@pytest.mark.parametrize("spec", ["d1", "leaf-spine:leaves=3,spines=3,hosts=1", "fcplus:n=12,s=6,v=3,hosts=1"])
def test_what_path_usids_names_is_read_back(spec):
    topology = parse_topology(spec)
    source, target = topology.hosts[0], topology.hosts[-1]
    for path in paths.shortest_paths(topology, source.switch, target.switch):
        assert paths.named_switches(topology, source, paths.path_usids(topology, path, target)) == path
