# SPDX-License-Identifier: Apache-2.0
"""Traffic patterns, candidates, and the bytes of messages."""

import random
from pathlib import Path as File

import pytest

from detour.base.errors import DetourError
from detour.control.routes.hashes import pick_via
from detour.fabric.demo import demo_pairs
from detour.fabric.traffic.flows import FileSink, FileSource, PatternSink, PatternSource, pattern, probing_choice
from detour.fabric.traffic.workload import pairs_of
from detour.topo import parse_topology

D1 = parse_topology("d1")


def groups(pairs: list[tuple[int, int]]) -> set[tuple[int, int]]:
    return {(D1.hosts[a].group, D1.hosts[b].group) for a, b in pairs}


def test_all_pairs_are_those_of_table_2() -> None:
    assert len(pairs_of(D1, "adv1")) == 8 * 8
    assert len(pairs_of(D1, "adv2")) == 8 * 8 * 8
    assert len(pairs_of(D1, "unf")) == 72 * 64


def test_who_talks_to_whom() -> None:
    assert len(groups(pairs_of(D1, "adv1", 3))) == 1
    assert len({to for _, to in groups(pairs_of(D1, "adv2", 3))}) == 1
    assert len(groups(pairs_of(D1, "unf"))) == 72
    assert pairs_of(D1, "adv1", 3) == pairs_of(D1, "adv1", 3)
    assert len({next(iter(groups(pairs_of(D1, "adv1", seed)))) for seed in range(20)}) > 10


def test_a_number_of_pairs() -> None:
    some = pairs_of(D1, "unf", 1, 100)
    assert len(set(some)) == 100
    with pytest.raises(DetourError, match="1 to 64 pairs"):
        pairs_of(D1, "adv1", 1, 65)
    with pytest.raises(
        DetourError,
        match=r"no traffic pattern 'adv3'; did you mean adv1 or adv2\? allowed: adv1, adv2, unf, permutation,",
    ):
        pairs_of(D1, "adv3")
    with pytest.raises(DetourError, match="has one"):
        pairs_of(parse_topology("leaf-spine:leaves=2,spines=2,hosts=2"), "adv1")


def test_the_demo_uses_all_hosts_alike() -> None:
    for count in (8, 16, 24):
        pairs = demo_pairs(D1, count, 1)
        assert len(set(pairs)) == count
        assert {sum(a == x for x, _ in pairs) for a, _ in pairs} == {count // 8}
        assert {sum(b == y for _, y in pairs) for _, b in pairs} == {count // 8}
    assert len(demo_pairs(D1, 0, 1)) == 64


def test_candidates_cover_every_intermediate_group() -> None:
    choice = probing_choice(D1, D1.hosts[0], D1.hosts[71], random.Random(1))
    shortest, *others = (path.sport for path in choice.paths)
    assert shortest < 0x8000
    vias = {pick_via(sport & 0x7FFF, 0, 8, 9) for sport in others}
    assert vias == set(range(1, 8))
    assert len(others) == 7


def test_candidates_elsewhere_are_shortest_paths() -> None:
    tree = parse_topology("leaf-spine:leaves=2,spines=4,hosts=2")
    choice = probing_choice(tree, tree.hosts[0], tree.hosts[3], random.Random(1))
    assert len(choice.paths) > 4
    assert all(path.sport < 0x8000 for path in choice.paths)


def test_patterns_differ_and_are_checked() -> None:
    assert len({pattern(seed, message, 32) for seed in range(10) for message in range(10)}) == 100
    source, sink = PatternSource(7, 2500), PatternSink(7)
    messages = [source.take(k, 1000) for k in range(4)]
    assert [len(m) for m in messages] == [1000, 1000, 500, 0]
    assert all(sink.accept(k, m) for k, m in enumerate(messages))
    assert not sink.accept(0, messages[1])
    assert not sink.accept(2, messages[2][:-1] + bytes([messages[2][-1] ^ 1]))
    assert len(PatternSource(7).take(0, 10)) == 10


def test_files_are_compared_and_stored(tmp_path: File) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    source, sink = FileSource(tmp_path / "a"), FileSink(tmp_path / "a", tmp_path / "b")
    assert source.length == 10
    assert [sink.accept(k, source.take(k, 4)) for k in range(3)] == [True] * 3
    assert source.take(3, 4) == b""
    sink.close()
    assert (tmp_path / "b").read_bytes() == b"0123456789"
    cut = FileSink(tmp_path / "a", tmp_path / "c")
    assert cut.accept(0, b"0123")
    cut.close()
    cut.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b"]
    wrong = FileSink(tmp_path / "a")
    assert not wrong.accept(0, b"0124")
    wrong.close()


def test_files_that_cannot_be_used(tmp_path: File) -> None:
    with pytest.raises(DetourError, match="nothere: No such file"):
        FileSource(tmp_path / "nothere")
    with pytest.raises(DetourError, match=r"Is a directory"):
        FileSource(tmp_path)
    (tmp_path / "a").touch()
    with pytest.raises(DetourError, match="No such file"):
        FileSink(tmp_path / "a", tmp_path / "no" / "folder")


OWN = """
def backwards(topology, rng):
    last = len(topology.hosts) - 1
    pairs = [(host, last - host) for host in range(last // 2)]
    rng.shuffle(pairs)
    return pairs

def to_itself(topology, rng):
    return [(0, 0)]
"""


def test_a_pattern_of_ones_own(tmp_path: File) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    pairs = pairs_of(D1, f"{path}:backwards", 3)
    assert sorted(pairs) == [(host, 71 - host) for host in range(35)]
    assert pairs == pairs_of(D1, f"{path}:backwards", 3) != pairs_of(D1, f"{path}:backwards", 4)
    assert len(pairs_of(D1, f"{path}:backwards", 3, 5)) == 5
    with pytest.raises(DetourError, match=r"\(0, 0\) is not a pair of the 72 hosts"):
        pairs_of(D1, f"{path}:to_itself")
