# SPDX-License-Identifier: Apache-2.0
"""`detour bench tables`: what a lookup costs in exact, LPM and ternary tables of 10 to 100,000 entries."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from detour.base.p4build import BUILD
from detour.base.progress import Progress, silent
from detour.engine.clock import Virtual
from detour.engine.compiler.program import Program
from detour.engine.network import Network
from detour.engine.state import SwitchState
from detour.experiments.bench import inprocess
from detour.experiments.bench.report import BenchReport, Goal, rate

ENTRIES = (10, 100, 1_000, 10_000, 100_000)
PORTS = {"exact": 1, "lpm": 2, "ternary": 3}
NO_TABLE = 4
"""Ingress port of packets that meet no table."""
GOAL_NS = 1000.0
"""Ours: lookups take a constant number of memory accesses, each of which misses the caches in a large table."""
PREFIXES = (24, 32, 40, 48, 56, 64, 128)
MASKS = 32
_OUT = 8
_FORWARD = "BenchIngress.forward"
_FULL = (1 << 128) - 1

BenchKey = Any
BenchEntry = tuple[BenchKey, int]
"""key as tables take it, priority"""


@dataclass(frozen=True)
class LookupRate:
    """One table size: packets a second with the table in their way, and nanoseconds of that for the lookup."""

    kind: str
    entries: int
    pps: float
    lookup_ns: float


def table_name(kind: str) -> str:
    """The table in bench_tables.p4."""
    return f"BenchIngress.by_{kind}"


def random_entries(kind: str, count: int, seed: int = 1) -> dict[int, BenchEntry]:
    """Random entries: a packet's key that hits -> the entry.

    Prefixes have the usual lengths; ternary entries have one of 32 masks, each a prefix of one half of the key and
    a prefix of the other, and random priorities.
    """
    numbers = random.Random(seed)
    masks = [_two_prefixes(numbers.randrange(16, 65), numbers.randrange(0, 65)) for _ in range(MASKS)]
    entries: dict[int, BenchEntry] = {}
    seen: set[Any] = set()
    while len(entries) < count:
        value = numbers.getrandbits(64 if kind == "exact" else 128)
        entry = _entry(kind, value, numbers, masks)
        if entry[0] not in seen:
            seen.add(entry[0])
            entries[value] = entry
    return entries


def _two_prefixes(high: int, low: int) -> int:
    ones = (1 << 64) - 1
    return (ones >> (64 - high) << (64 - high)) << 64 | (ones << (64 - low) & ones)


def _entry(kind: str, value: int, numbers: random.Random, masks: Sequence[int]) -> BenchEntry:
    if kind == "exact":
        return (value,), 0
    if kind == "lpm":
        length = numbers.choice(PREFIXES)
        return ((value >> (128 - length) << (128 - length), length),), 0
    mask = numbers.choice(masks)
    return ((value & mask, mask),), numbers.randrange(1, 1 << 20)


def frame(kind: str, key: int) -> bytes:
    """A packet whose key in the table of `kind` is `key`."""
    exact = key if kind == "exact" else 0
    lpm, ternary = (key if kind == "lpm" else 0), (key if kind == "ternary" else 0)
    return struct.pack("!Q", exact) + lpm.to_bytes(16, "big") + ternary.to_bytes(16, "big") + bytes(24)


def _measure(program: Program, kind: str, entries: dict[int, BenchEntry], port: int, seconds: float) -> float:
    state = SwitchState(program, 1, Virtual.tick_ps)
    for key, priority in entries.values():
        state.tables[table_name(kind)].insert(key, _FORWARD, (_OUT,), priority)
    numbers = random.Random(2)
    keys = list(entries)

    def batch() -> list[bytes]:
        return [frame(kind, key) for key in numbers.choices(keys, k=inprocess.INJECT_BATCH)]

    with Network(Virtual(), packets=8 * inprocess.INJECT_BATCH) as network:
        network.add_switch(1)
        network.add_switch(inprocess.NOWHERE)
        for number in (*PORTS.values(), NO_TABLE, _OUT):
            network.connect((1, number), (inprocess.NOWHERE, number))
        network.set_pipeline(1, program, state)
        return inprocess.packets_per_second(network, (1, port), batch, seconds)


def run(entries: Sequence[int] = ENTRIES, seconds: float = 0.5, progress: Progress = silent) -> BenchReport:
    """Measures. `seconds`: for each table size."""
    program = Program.from_json((BUILD / "bench_tables.json").read_text())
    bare = _measure(program, "exact", random_entries("exact", 1), NO_TABLE, seconds)
    points = []
    for kind, port in PORTS.items():
        for size in entries:
            pps = _measure(program, kind, random_entries(kind, size), port, seconds)
            points.append(LookupRate(kind, size, pps, 1e9 / pps - 1e9 / bare))
            progress(f"{kind}: {size:,} entries, {pps:,.0f} packets/s")
    return report(bare, points)


def report(bare: float, points: list[LookupRate]) -> BenchReport:
    """The curve of each kind."""
    largest = {point.kind: point for point in points}

    def cell(kind: str, size: int) -> str:
        point = next(p for p in points if (p.kind, p.entries) == (kind, size))
        return f"{rate(point.pps)} ({point.lookup_ns:.0f} ns)"

    sizes = sorted({point.entries for point in points})
    return BenchReport(
        name="tables",
        numbers={"no_table_pps": bare, "points": [vars(point) for point in points]},
        columns=("entries", *(f"{kind}, packets/s (lookup)" for kind in PORTS)),
        rows=tuple((f"{size:,}", *(cell(kind, size) for kind in PORTS)) for size in sizes),
        goals=tuple(
            Goal(f"{kind} lookup among {point.entries:,} entries: ns,", point.lookup_ns, GOAL_NS, most=True)
            for kind, point in largest.items()
        ),
        notes=(f"without a table: {rate(bare)} packets/s",),
    )
