# SPDX-License-Identifier: Apache-2.0
"""Tables: lookups against a search through all entries, the control plane's calls, const entries, ageing."""

from __future__ import annotations

import random
from collections import defaultdict
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from detour.engine.compiler.model import MAX_PRIORITY
from detour.engine.compiler.slots import (
    HASH_BASE,
    HASH_HEAD,
    HASH_MASK,
    RECORDS,
    TRAIL,
    key_layout,
    record_words,
    spaced,
)
from detour.engine.tables import EntryExists, MatchTable, MeterRates, NoSuchEntry, TableError, TableFull, sliced
from tests.fuzz.reference import Reference, Row
from tests.fuzz.table_program import Key, Layout

from .bitstring import Spec, join, split
from .conftest import MiniSwitch, program

KEY: Spec = [("addr", 128), ("word", 32), ("port", 16), ("port2", 16), ("odd", 9), ("tiny", 7), ("which", 8)]
OUT: Spec = [("result", 32), ("hit", 8)]
MISS = 0xFFFFFFFF
WHICH = {"exact_table": 0, "lpm_table": 1, "ternary_table": 2, "range_table": 3, "const_table": 4, "small": 5}


@pytest.fixture
def matching() -> MiniSwitch:
    return MiniSwitch(program("matching"))


def look(switch: MiniSwitch, table: str, key: dict[str, int]) -> dict[str, int]:
    data = join(KEY, key | {"which": WHICH[table]})
    ((_, out),) = switch.send(0, data)
    return split(OUT, out[len(data) :])


def table(switch: MiniSwitch, name: str) -> MatchTable:
    return switch.state.tables[f"TheIngress.{name}"]


def reference(t: MatchTable) -> Reference:
    """A list that is searched from end to end; keys of packets by the names of the header's fields."""
    keys = tuple(Key(f.field, f.bits, f.match_type) for f in t.spec.key)
    return Reference(Layout(keys, "", t.size, False, 8, 1))


def winner(expected: Reference, key: dict[str, int]) -> int:
    """The result of the entry that should be hit."""
    row = expected.hit(defaultdict(int, key))
    return MISS if row is None else row.target


def few(rng: random.Random, bits: int) -> int:
    """Values that meet often."""
    top = (1 << bits) - 1
    return rng.choice([0, 1, 2, 3, top, top - 1, top >> 1, rng.getrandbits(bits) & top & 0x0F0F])


def random_key(rng: random.Random, t: MatchTable) -> tuple[Any, ...]:
    key: list[Any] = []
    for f in t.spec.key:
        value, top = few(rng, f.bits), (1 << f.bits) - 1
        match f.match_type:
            case "exact":
                key.append(value if f.field != "tiny" else rng.randrange(2))
            case "lpm":
                key.append((value, rng.choice([0, 1, f.bits // 2, f.bits - 1, f.bits])))
            case "ternary":
                key.append(rng.choice([None, value, (value, few(rng, f.bits)), (value, top >> 3)]))
            case _:
                key.append(rng.choice([(0, top), (value, value), tuple(sorted((value, few(rng, f.bits))))]))
    return tuple(key)


def random_packet(rng: random.Random) -> dict[str, int]:
    return {name: few(rng, bits) for name, bits in KEY if name not in ("which", "tiny")} | {"tiny": rng.randrange(2)}


ACTIONS = {"exact_table": "mark_exact", "lpm_table": "mark_lpm", "ternary_table": "mark", "range_table": "mark"}


_RANKED = ("ternary_table", "range_table")
Limits = dict[tuple[ModuleType, str], int]


@pytest.mark.parametrize(
    ("names", "seeds", "limits"),
    [
        (tuple(ACTIONS), 6, {}),
        # summaries of two leaves, and leaves that are given up early
        (_RANKED, 2, {(sliced, "_FEW_LEAVES"): 1, (sliced, "_SMALL"): 30}),
    ],
)
def test_lookups_find_what_a_search_finds(
    names: tuple[str, ...], seeds: int, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Insertions, changes and deletions in random order; between them random packets."""
    for limit, value in limits.items():
        monkeypatch.setattr(*limit, value)
    for name in names:
        for seed in range(seeds):
            _compare(name, seed)


def _compare(name: str, seed: int) -> None:
    rng = random.Random(f"{name}{seed}")
    switch = MiniSwitch(program("matching"))
    t = table(switch, name)
    action = f"TheIngress.{ACTIONS[name]}"
    expected = reference(t)
    entries = expected.rows
    for step in range(600):
        choice = rng.random()
        if choice < 0.6:
            key, priority, value = random_key(rng, t), rng.randrange(1, 5), step
            try:
                handle = t.insert(key, action, (value,), priority)
            except EntryExists:
                continue
            assert handle not in entries
            entries[handle] = Row(key, priority, handle, value)
        elif choice < 0.8 and entries:
            handle = rng.choice(list(entries))
            t.delete(handle)
            del entries[handle]
        elif entries:
            handle = rng.choice(list(entries))
            t.modify(handle, action, (step,))
            entries[handle].target = step
        packet = random_packet(rng)
        assert look(switch, name, packet)["result"] == winner(expected, packet)
    assert len(t) == len(entries)
    assert {e.handle: e.params for e in t.entries()} == {h: (row.target,) for h, row in entries.items()}
    for handle in list(entries):
        t.delete(handle)
    assert look(switch, name, random_packet(rng))["result"] == MISS


def test_many_entries_through_growth() -> None:
    rng = random.Random(5)
    switch = MiniSwitch(program("matching"))
    t = table(switch, "exact_table")
    keys = [(rng.getrandbits(128), rng.getrandbits(9), rng.getrandbits(16)) for _ in range(5000)]
    for i, key in enumerate(keys):
        t.insert(key, "TheIngress.mark_exact", (i,))
    for i in rng.sample(range(5000), 300):
        addr, odd, port = keys[i]
        assert look(switch, "exact_table", {"addr": addr, "odd": odd, "port": port}) == {"result": i, "hit": 0}
    for key in keys[::2]:
        t.delete(t.find(key))
    for i in rng.sample(range(5000), 300):
        addr, odd, port = keys[i]
        result = look(switch, "exact_table", {"addr": addr, "odd": odd, "port": port})
        assert result == ({"result": i, "hit": 0} if i % 2 else {"result": MISS, "hit": 200})


def test_what_an_entry_can_be_asked(matching: MiniSwitch) -> None:
    t = table(matching, "exact_table")
    wide = 0xAABBCCDD_00000000_11223344
    handle = t.insert((5, 6, 7), "TheIngress.other", (wide, 9))
    reply = look(matching, "exact_table", {"addr": 5, "odd": 6, "port": 7})
    assert reply == {"result": 0xAABBCCDD ^ 0x11223344, "hit": 9}
    entry = t.get(handle)
    assert entry.action is not None
    assert (entry.key, entry.action.name, entry.params) == ((5, 6, 7), "TheIngress.other", (wide, 9))
    assert t.find((5, 6, 7)) == handle
    assert t.counter(handle) == (1, 27)
    t.set_counter(handle, 100, 200)
    look(matching, "exact_table", {"addr": 5, "odd": 6, "port": 7})
    assert t.counter(handle) == (101, 227)
    t.modify(handle, "TheIngress.mark_exact", (1,))
    assert t.counter(handle) == (101, 227), "a change keeps the counter"
    t.delete(handle)
    assert t.counter(t.insert((5, 6, 7), "TheIngress.mark_exact", (1,))) == (0, 0)


def test_keys_come_back_in_canonical_form(matching: MiniSwitch) -> None:
    t = table(matching, "ternary_table")
    handle = t.insert(((0xFF, 0xF0), None, 3, 1), "TheIngress.mark", (1,), 10)
    assert t.get(handle).key == ((0xF0, 0xF0), (0, 0), (3, 511), 1)
    assert t.get(handle).priority == 10
    assert t.find(((0xF5, 0xF0), (7, 0), (3, 511), 1), 10) == handle
    with pytest.raises(EntryExists):
        t.insert(((0xF5, 0xF0), (7, 0), (3, 511), 1), "TheIngress.mark", (2,), 10)
    t.insert(((0xF5, 0xF0), (7, 0), (3, 511), 1), "TheIngress.mark", (2,), 11)
    lpm = table(matching, "lpm_table")
    assert lpm.get(lpm.insert((1, (0xFF, 120)), "TheIngress.miss")).key == (1, (0, 120))


def test_what_does_not_fit_is_refused(matching: MiniSwitch) -> None:
    exact, lpm, ranges = (table(matching, n) for n in ("exact_table", "lpm_table", "range_table"))
    for bad, message in (
        (lambda: exact.insert((1, 2), "TheIngress.miss"), "3 fields"),
        (lambda: exact.insert((1, 512, 3), "TheIngress.miss"), "too wide"),
        (lambda: exact.insert((-1, 2, 3), "TheIngress.miss"), "too wide"),
        (lambda: exact.insert((1, (2, 3), 3), "TheIngress.miss"), "not a key"),
        (lambda: exact.insert((1, 2, 3), "TheIngress.mark", (1,)), "TheIngress.mark'"),
        (lambda: exact.insert((1, 2, 3), "TheIngress.mark_exact", ()), "takes 1 arguments"),
        (lambda: exact.insert((1, 2, 3), "TheIngress.mark_exact", (1 << 32,)), "exceeds 32 bits"),
        (lambda: exact.insert((1, 2, 3), "TheIngress.mark_exact", (-1,)), "exceeds 32 bits"),
        (lambda: lpm.insert((1, (0, 129)), "TheIngress.miss"), "128 bits"),
        (lambda: ranges.insert(((5, 4), None, (0, 1), (0, 1)), "TheIngress.miss"), "not a range"),
        (lambda: ranges.insert(((0, 1 << 16), None, (0, 1), (0, 1)), "TheIngress.miss"), "not a range"),
        (lambda: ranges.insert(((0, 1), None, (0, 1), (0, 1)), "TheIngress.miss", (), -1), "priority"),
    ):
        with pytest.raises(TableError, match=message):
            bad()
    for missing in (lambda: exact.find((1, 2, 3)), lambda: exact.delete(0), lambda: exact.get(7)):
        with pytest.raises(NoSuchEntry):
            missing()
    assert len(exact) == len(lpm) == len(ranges) == 0


def test_a_full_table(matching: MiniSwitch) -> None:
    t = table(matching, "small")
    for i in range(4):
        t.insert((i,), "TheIngress.mark", (i,))
    with pytest.raises(TableFull, match="takes 4"):
        t.insert((4,), "TheIngress.mark", (4,))
    with pytest.raises(EntryExists):
        t.insert((3,), "TheIngress.mark", (4,))
    t.delete(t.find((2,)))
    t.insert((4,), "TheIngress.mark", (4,))
    assert look(matching, "small", {"tiny": 4})["result"] == 4
    assert look(matching, "small", {"tiny": 2})["result"] == 77
    t.clear()
    assert len(t) == 0
    assert look(matching, "small", {"tiny": 4})["result"] == 77


def test_default_entries(matching: MiniSwitch) -> None:
    t = table(matching, "small")
    default = t.default
    assert default is not None
    assert default.action is not None
    assert (default.action.name, default.params, t.default_changed) == ("TheIngress.mark", (77,), False)
    t.set_default("TheIngress.mark", (78,))
    assert look(matching, "small", {})["result"] == 78
    assert t.default_changed
    t.set_default("TheIngress.miss")
    assert look(matching, "small", {})["result"] == MISS
    t.reset_default()
    assert look(matching, "small", {})["result"] == 77
    with pytest.raises(TableError, match="const"):
        table(matching, "const_table").set_default("TheIngress.mark", (1,))


def test_const_entries(matching: MiniSwitch) -> None:
    t = table(matching, "const_table")
    for word, result in ((0xABCD0001, 1), (0xABCDEF01, 1), (0xABCDEF02, 2), (0x12345678, 3), (0x99999999, 4)):
        assert look(matching, "const_table", {"word": word})["result"] == result
    assert [e.params[0] for e in t.entries()] == [1, 2, 3, 4]
    assert [MAX_PRIORITY - e.priority for e in t.entries()] == [1, 2, 3, 4]
    for change in (
        lambda: t.insert((5,), "TheIngress.mark", (9,), 1),
        lambda: t.delete(0),
        lambda: t.modify(0, "TheIngress.mark", (1,)),
    ):
        with pytest.raises(TableError, match="const"):
            change()
    t.clear()
    assert len(t) == 4


def test_equal_priorities_go_to_the_lower_handle(matching: MiniSwitch) -> None:
    t = table(matching, "ternary_table")
    first = t.insert((None, (1, 1), None, 0), "TheIngress.mark", (1,), 5)
    t.insert((None, (2, 2), None, 0), "TheIngress.mark", (2,), 5)
    assert look(matching, "ternary_table", {"word": 3})["result"] == 1
    t.delete(first)
    assert look(matching, "ternary_table", {"word": 3})["result"] == 2
    t.insert((None, (3, 3), None, 0), "TheIngress.mark", (3,), 5)  # takes the free handle 0
    assert look(matching, "ternary_table", {"word": 3})["result"] == 3


def test_switch_on_the_action_that_ran(matching: MiniSwitch) -> None:
    t = table(matching, "ternary_table")
    assert look(matching, "ternary_table", {}) == {"result": MISS, "hit": 3}
    t.insert((None, (1, 1), None, 0), "TheIngress.mark", (5,), 1)
    t.insert((None, (2, 2), None, 0), "TheIngress.other", (7, 40), 1)
    assert look(matching, "ternary_table", {"word": 1}) == {"result": 5, "hit": 1}
    assert look(matching, "ternary_table", {"word": 2}) == {"result": 7, "hit": 40}


def test_last_hits_for_idle_timeouts(matching: MiniSwitch) -> None:
    t = table(matching, "small")
    matching.now = 99
    look(matching, "small", {"tiny": 1})
    handle = t.insert((1,), "TheIngress.mark", (1,))
    assert t.last_hit(handle) == 100, "an entry's time begins with its insertion"
    matching.now = 499
    look(matching, "small", {"tiny": 1})
    assert t.last_hit(handle) == 500
    matching.now = 799
    look(matching, "small", {"tiny": 2})
    assert t.last_hit(handle) == 500


def test_direct_meters(matching: MiniSwitch) -> None:
    t = table(matching, "lpm_table")
    handles = [t.insert((0, (i << 64, 64)), "TheIngress.mark_lpm", (i,)) for i in range(40)]
    t.set_meter(handles[33], MeterRates(cir=1, cburst=1, pir=1, pburst=2))
    colours = [look(matching, "lpm_table", {"addr": 33 << 64})["hit"] for _ in range(4)]
    assert colours == [0, 1, 2, 2]
    assert look(matching, "lpm_table", {"addr": 32 << 64})["hit"] == 0
    assert t.meter(handles[33]) == MeterRates(1, 1, 1, 2)
    assert t.meter(handles[1]) is None
    t.delete(handles[33])
    assert t.meter(t.insert((0, (33 << 64, 64)), "TheIngress.mark_lpm", (1,))) is None
    with pytest.raises(TableError, match="no direct meter"):
        table(matching, "small").meter(table(matching, "small").insert((1,), "TheIngress.miss"))


def test_packets_leave_a_trail_of_what_they_touch_in_tables():
    switch = MiniSwitch(program("matching"))
    t, own = table(switch, "exact_table"), switch.state.program.slots
    key = random_key(random.Random(1), t)
    handle = t.insert(key, "TheIngress.mark_exact", (7,))
    first = own.tables[t.spec.name]
    record = int(switch.state.block[first + RECORDS]) + 8 * spaced(record_words(t.spec)) * (handle + 1)
    trail = switch.state.block[own.trail :].view(np.uint32).reshape(-1, 2)
    pairs = len(trail)
    assert trail.size == TRAIL
    assert not trail.any()
    look(switch, "lpm_table", random_packet(random.Random(2)))
    assert not trail.any()  # an empty table is not searched
    look(switch, "exact_table", dict(zip((f.field for f in t.spec.key), key, strict=True)))
    assert trail[record // 64 % pairs][0] == record // 64 // pairs % 2**32
    base, size = int(switch.state.block[first + HASH_BASE]), 8 * (int(switch.state.block[first + HASH_MASK]) + 1)
    lines = range(base // 64, (base + size * spaced(HASH_HEAD + key_layout(t.spec.key).words)) // 64)
    assert any(trail[line % pairs][0] == line // pairs % 2**32 for line in lines)
