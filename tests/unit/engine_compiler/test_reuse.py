# SPDX-License-Identifier: Apache-2.0
"""PHVs that other packets and programs have used, filters in front of hash groups, and hints for the cache."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.base.places import BUILD
from detour.engine.compiler.program import Program
from detour.engine.compiler.slots import FILTER_BIT_SHIFT, FILTER_LEAST, FILTER_SLOTS_SHIFT, FILTER_WORD_SHIFT
from detour.engine.tables.hashing import HashGroup, hash_key
from tests.fuzz.populate import populated
from tests.packet_runner import PacketRunner, bind

_CORPUS = Path("tests/programs/corpus/compiled")
_PROGRAMS = (
    BUILD / "fabric.json",
    BUILD / "adaptive.json",
    *sorted(p for p in _CORPUS.glob("*.json") if any(word in p.name for word in ("stack", "union", "header"))),
)


class _Pair:
    """A program on a switch whose PHV goes from hand to hand, and on one whose PHV is fresh for every packet."""

    def __init__(self, path: Path) -> None:
        self.program = Program.from_json(path)
        self.used, self.fresh = (PacketRunner(self.program, populated(self.program, path, 7)) for _ in range(2))

    def compare(self, shared: np.ndarray, packet: bytes, port: int) -> None:
        """Sends a packet through both."""
        size, layout = self.program.phv_size, self.program.layout
        self.used.phv[:size] = shared[:size]
        self.fresh.phv[:size] = 0
        for runner in (self.used, self.fresh):
            runner.start(packet, port)
        parsed = slice(layout.flags, layout.scratch)
        assert (self.used.phv[parsed] == self.fresh.phv[parsed]).all()
        assert self.used.run(packet, port) == self.fresh.run(packet, port)
        shared[:size] = self.used.phv[:size]


def test_packets_do_not_see_what_others_left_in_a_phv():
    assert len(_PROGRAMS) > 4
    pairs = [_Pair(path) for path in _PROGRAMS]
    rng = random.Random(5)
    shared = np.frombuffer(rng.randbytes(1 << 14), np.uint8).copy()
    for _ in range(400):
        size = rng.choice([rng.randrange(40), rng.randrange(400)])
        packet = bytes(rng.choice([0, 1, 2, 3, 8, 255, rng.getrandbits(8)]) for _ in range(size))
        rng.choice(pairs).compare(shared, packet, rng.randrange(8))


def test_hints_change_nothing():
    for path in _PROGRAMS:
        program = Program.from_json(path)
        state = populated(program, path, 3)
        block = np.ctypeslib.as_array((ctypes.c_uint8 * (8 * program.slots.size)).from_address(state.sw))
        before = block.copy()
        assert bind(program.prefetch_addr, 2)(state.sw, 256) == 0
        assert (block == before).all()


def _passes(group: HashGroup, key: tuple[int, ...]) -> bool:
    """As `lookup._sift` computes it, from the hash mask and the slots' address."""
    h = hash_key(key)
    last = (group.mask >> FILTER_SLOTS_SHIFT) | FILTER_LEAST
    word = (h >> FILTER_WORD_SHIFT) & last
    stored = ctypes.c_uint64.from_address(group.address - 8 * (word + 1)).value
    return bool(stored >> (h >> FILTER_BIT_SHIFT) & 1)


def _value(group: HashGroup, key: tuple[int, ...]) -> int:
    return group.flat[group._slot(key, hash_key(key))]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 300)), max_size=600))
def test_a_filter_passes_every_key_of_its_group(changes: list[tuple[bool, int]]):
    group, keys = HashGroup(2), set[tuple[int, int]]()
    for insert, number in changes:
        key = (number << 48, number * 0x9E3779B9)
        if insert:
            group.put(key, number + 1)
            keys.add(key)
        elif key in keys:
            group.remove(key)
            keys.remove(key)
    assert all(_passes(group, key) for key in keys)
    assert all(_value(group, key) for key in keys)


def test_an_exact_table_has_no_filter():
    group = HashGroup(2, filtered=False)
    for number in range(600):
        group.put((number, 7), number + 1)
    for number in range(0, 600, 2):
        group.remove((number, 7))
    assert not len(group.filter)
    assert [_value(group, (number, 7)) for number in range(600)] == [n + 1 if n % 2 else 0 for n in range(600)]


def test_a_filter_stops_most_other_keys():
    for count in (1, 30, 500, 20_000):
        group = HashGroup(1)
        for number in range(count):
            group.put((number << 16,), 1)
        strangers = [((number << 16) | 1,) for number in range(2_000)]
        assert sum(_passes(group, key) for key in strangers) < 0.15 * len(strangers)


def test_a_filter_forgets_keys_that_are_gone():
    group = HashGroup(1)
    for number in range(300):
        group.put((number,), 1)
    for number in range(299):
        group.remove((number,))
    assert sum(_passes(group, (number,)) for number in range(299)) < 100
    assert _passes(group, (299,))
