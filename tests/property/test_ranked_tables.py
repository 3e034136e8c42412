# SPDX-License-Identifier: Apache-2.0
"""Ternary and range tables as they are defined: of the entries that match, the one with the highest priority counts,
and among equals the one with the lowest handle. Access lists and random masks come and go, packets in between."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from detour.base.places import BUILD
from detour.engine.compiler.program import Program
from detour.experiments.bench import acl, tables
from tests.packet_runner import PacketRunner

FORWARD, MISS = "BenchIngress.forward", 8
Key = tuple[Any, ...]


@cache
def program() -> Program:
    return Program.from_json((BUILD / "bench_tables.json").read_text())


@dataclass
class Compared:
    """A table, and a list that is searched from end to end. `frame`: of a packet with these values of the fields."""

    name: str
    port: int
    frame: Callable[[tuple[int, ...]], bytes]
    rows: dict[int, tuple[int, Key, int]] = field(default_factory=dict)
    """handle -> priority, key, port"""

    def __post_init__(self) -> None:
        self.switch = PacketRunner(program())
        self.table = self.switch.state.tables[tables.table_name(self.name)]
        self.ranges = [key.match_type == "range" for key in self.table.spec.key]
        self.keys: set[tuple[int, Key]] = set()

    def insert(self, key: Key, priority: int, port: int) -> None:
        if (priority, key) not in self.keys:
            self.keys.add((priority, key))
            self.rows[self.table.insert(key, FORWARD, (port,), priority)] = (priority, key, port)

    def modify(self, handle: int, port: int) -> None:
        self.table.modify(handle, FORWARD, (port,))
        self.rows[handle] = (*self.rows[handle][:2], port)

    def delete(self, handle: int) -> None:
        self.table.delete(handle)
        self.keys.remove(self.rows.pop(handle)[:2])

    def clear(self) -> None:
        self.table.clear()
        self.rows.clear()
        self.keys.clear()

    def matches(self, key: Key, values: tuple[int, ...]) -> bool:
        return all(
            low <= value <= high if ranged else value & high == low
            for (low, high), value, ranged in zip(key, values, self.ranges, strict=True)
        )

    def check(self, values: tuple[int, ...]) -> None:
        """A packet goes where the list says."""
        hits = [(priority, -handle, port) for handle, (priority, key, port) in self.rows.items()
                if self.matches(key, values)]  # fmt: skip
        run = self.switch.run(self.frame(values), self.port)
        assert run.egress_spec == (max(hits)[2] if hits else MISS)


Entries = list[tuple[Key, tuple[int, ...]]]
"""keys, pairs of a value and a mask or of bounds, each with the values of a packet that matches"""


def access_list(count: int, seed: int) -> tuple[Compared, Entries]:
    rules = acl.rules(count, seed)
    headers = [acl.headers([rule], 1, True)[0] for rule in rules]
    compared = Compared("acl", 5, lambda header: tables.acl_frame(header, "range"))
    return compared, list(zip([tuple(rule) for rule in rules], headers, strict=True))


def as_prefixes(count: int, seed: int) -> tuple[Compared, Entries]:
    rng = random.Random(seed)
    keys = [((value, mask),) for value, mask in acl.expanded(acl.rules(count, seed))]
    rng.shuffle(keys)
    return _ternary([(key, key[0][0] | rng.getrandbits(112) & ~key[0][1]) for key in keys[:count]])


def unrelated(count: int, seed: int) -> tuple[Compared, Entries]:
    rng = random.Random(seed)
    pairs = [(rng.getrandbits(128) & rng.getrandbits(128), rng.getrandbits(128)) for _ in range(count)]
    return _ternary([(((value & mask, mask),), value) for mask, value in pairs])


def related_at_first(count: int, seed: int) -> tuple[Compared, Entries]:
    """Entries of few masks, then unrelated ones."""
    entries = tables.random_entries("ternary", count // 3, seed)
    first = [(key, (value,)) for value, (key, _) in entries.items()]
    compared, rest = unrelated(count - len(first), seed)
    return compared, first + rest


def _ternary(pairs: list[tuple[Key, int]]) -> tuple[Compared, Entries]:
    return Compared("ternary", 3, lambda values: tables.frame("ternary", *values)), [(k, (v,)) for k, v in pairs]


def mixed(rng: random.Random, entries: Entries) -> tuple[int, ...]:
    """Values that match an entry, or field by field or bit by bit some entry."""
    (first, second) = (rng.choice(entries)[1] for _ in range(2))
    if rng.random() < 0.5:
        return first
    if len(first) > 1:
        return tuple(rng.choice(pair) for pair in zip(first, second, strict=True))
    mask = (1 << rng.randrange(129)) - 1
    return tuple(one & mask | other & ~mask for one, other in zip(first, second, strict=True))


@settings(max_examples=16, deadline=None)
@given(
    make=st.sampled_from([access_list, as_prefixes, unrelated, related_at_first]),
    seed=st.integers(0, 1 << 16),
    ties=st.booleans(),
    order=st.sampled_from(["any", "rising", "falling"]),
)
def test_the_highest_priority_wins(
    make: Callable[[int, int], tuple[Compared, Entries]], seed: int, ties: bool, order: str
) -> None:
    """Priorities come in some order: blocks split where they are."""
    rng = random.Random(seed)
    compared, entries = make(600, seed)
    priorities = lambda: rng.randrange(1, 4 if ties else 1 << 31)  # noqa: E731
    first = [priorities() for _ in entries]
    if order != "any":
        first.sort(reverse=order == "falling")
    for number, ((key, _), priority) in enumerate(zip(entries, first, strict=True)):
        compared.insert(key, priority, number % 500 + 10)
        if number % 9 == 0:
            compared.check(mixed(rng, entries))
    handles = list(compared.rows)
    rng.shuffle(handles)
    kept = rng.choice((0, 5, 100))
    for number, handle in enumerate(handles):
        if number % 3 == 0:
            compared.modify(handle, rng.randrange(10, 500))
        if number < len(handles) - kept:
            compared.delete(handle)
        if number % 5 == 0:
            compared.insert(rng.choice(entries)[0], priorities(), rng.randrange(10, 500))
        if number % 4 == 0:
            compared.check(mixed(rng, entries))
    assert len(compared.table) == len(compared.rows)
    compared.clear()
    compared.check(entries[0][1])
    for key, _ in entries[:100]:
        compared.insert(key, priorities(), rng.randrange(10, 500))
        compared.check(mixed(rng, entries))


def test_summaries_of_many_leaves() -> None:
    """More leaves than a summary takes, and fewer again."""
    rng = random.Random(7)
    compared, entries = unrelated(24_000, 7)
    for number, (key, _) in enumerate(entries):
        compared.insert(key, rng.randrange(1, 1 << 20), number % 500 + 10)
    for handle in rng.sample(list(compared.rows), 23_600):
        compared.delete(handle)
    for _ in range(300):
        compared.check(mixed(rng, entries))
    for key, _ in entries[:400]:
        compared.insert(key, rng.randrange(1, 1 << 20), rng.randrange(10, 500))
    for _ in range(300):
        compared.check(mixed(rng, entries))
