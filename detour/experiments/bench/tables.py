# SPDX-License-Identifier: Apache-2.0
"""`detour bench tables`: what a lookup costs in exact, LPM and ternary tables of 10 to 100,000 entries, and in access
control lists (`acl`) of up to 10,000."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from detour.base.places import BUILD
from detour.base.progress import Progress, silent
from detour.engine.clock import Virtual
from detour.engine.compiler.program import Program
from detour.engine.network import Network
from detour.engine.state import SwitchState
from detour.experiments.bench import acl, inprocess
from detour.experiments.bench.report import BenchReport, Goal, rate

ENTRIES = (10, 100, 1_000, 10_000, 100_000)
PORTS = {"exact": 1, "lpm": 2, "ternary": 3}
NO_TABLE = 4
"""Ingress port of packets that meet no table."""
GOAL_NS = 1000.0
"""Ours: lookups take a constant number of memory accesses, each of which misses the caches in a large table."""
ACL_ENTRIES = 10_000
ACL_TABLES = {"range": ("acl", 5), "prefix": ("ternary", 3)}
"""What ports of rules are in the table -> table and ingress port. As prefixes, a rule is several entries, and its
fields are one key."""
_HEADERS = {"hit": 4096, "miss": 1024}
"""how many different ones"""
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


@dataclass(frozen=True)
class AclRate:
    """As `LookupRate`, of an access list. `ports`: a key of `ACL_TABLES`. `packets`: of `_HEADERS`."""

    entries: int
    ports: str
    packets: str
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


def acl_frame(header: tuple[int, ...], ports: str) -> bytes:
    """A packet for an access list."""
    packed = acl.packed(header)
    return packed.to_bytes(14, "big") + bytes(50) if ports == "range" else frame("ternary", packed)


def acl_rules(size: int, ports: str) -> list[acl.Rule]:
    """A list that makes so many entries, or a few less; as prefixes it has fewer rules."""
    listed, left = acl.rules(size), size
    if ports == "range":
        return listed
    chosen = []
    for rule in random.Random(1).sample(listed, len(listed)):
        entries = sum(1 for _ in acl.expanded([rule]))
        if entries <= left:
            left -= entries
            chosen.append(rule)
    return sorted(chosen or listed[:1], key=lambda rule: rule.scope)


def acl_entries(listed: list[acl.Rule], ports: str) -> list[BenchEntry]:
    """The entries of a list, the first of them with the highest priority."""
    rules = list(listed) if ports == "range" else list(dict.fromkeys((each,) for each in acl.expanded(listed)))
    return [(tuple(rule), priority) for rule, priority in zip(rules, range(len(rules), 0, -1), strict=True)]


def _measure(
    program: Program, kind: str, entries: Iterable[BenchEntry], port: int, frames: list[bytes], seconds: float
) -> float:
    state = SwitchState(program, 1, Virtual.tick_ps)
    for key, priority in entries:
        state.tables[table_name(kind)].insert(key, _FORWARD, (_OUT,), priority)
    numbers = random.Random(2)

    def batch() -> list[bytes]:
        return numbers.choices(frames, k=inprocess.INJECT_BATCH)

    with Network(Virtual(), packets=8 * inprocess.INJECT_BATCH) as network:
        network.add_switch(1)
        network.add_switch(inprocess.NOWHERE)
        for number in sorted({*PORTS.values(), NO_TABLE, ACL_TABLES["range"][1], _OUT}):
            network.connect((1, number), (inprocess.NOWHERE, number))
        network.set_pipeline(1, program, state)
        return inprocess.packets_per_second(network, (1, port), batch, seconds)


def _measure_random(program: Program, kind: str, size: int, port: int, seconds: float) -> float:
    entries = random_entries(kind, size)
    return _measure(program, kind, entries.values(), port, [frame(kind, key) for key in entries], seconds)


def _measure_acl(program: Program, size: int, bare: float, seconds: float) -> Iterator[AclRate]:
    for ports, (kind, port) in ACL_TABLES.items():
        listed = acl_rules(size, ports)
        for packets, count in _HEADERS.items():
            frames = [acl_frame(header, ports) for header in acl.headers(listed, count, packets == "hit")]
            pps = _measure(program, kind, acl_entries(listed, ports), port, frames, seconds)
            yield AclRate(size, ports, packets, pps, 1e9 / pps - 1e9 / bare)


def run(entries: Sequence[int] = ENTRIES, seconds: float = 0.5, progress: Progress = silent) -> BenchReport:
    """Measures. `seconds`: for each table size."""
    program = Program.from_json((BUILD / "bench_tables.json").read_text())
    bare = _measure_random(program, "exact", 1, NO_TABLE, seconds)
    points = []
    for kind, port in PORTS.items():
        for size in entries:
            pps = _measure_random(program, kind, size, port, seconds)
            points.append(LookupRate(kind, size, pps, 1e9 / pps - 1e9 / bare))
            progress(f"{kind}: {size:,} entries, {pps:,.0f} packets/s")
    lists = []
    for size in entries:
        if size <= ACL_ENTRIES:
            lists += _measure_acl(program, size, bare, seconds)
            progress(f"access list: {size:,} entries, {min(point.pps for point in lists[-4:]):,.0f} packets/s")
    return report(bare, points, lists)


def report(bare: float, points: list[LookupRate], lists: list[AclRate]) -> BenchReport:
    """The curve of each kind."""
    largest = {point.kind: point for point in points}

    def cell(kind: str, size: int) -> str:
        point = next(p for p in points if (p.kind, p.entries) == (kind, size))
        return f"{rate(point.pps)} ({point.lookup_ns:.0f} ns)"

    def acl_cell(ports: str, size: int) -> str:
        return " / ".join(f"{p.lookup_ns:.0f}" for p in lists if (p.ports, p.entries) == (ports, size))

    sizes = sorted({point.entries for point in points})
    goals = [
        Goal(f"{kind} lookup among {point.entries:,} entries: ns,", point.lookup_ns, GOAL_NS, most=True)
        for kind, point in largest.items()
    ]
    most = max((point.entries for point in lists), default=0)
    goals += [
        Goal(f"ACL lookup among {most:,} entries, ports as {ports}: ns,", max(slowest), GOAL_NS, most=True)
        for ports in ACL_TABLES
        if (slowest := [p.lookup_ns for p in lists if (p.ports, p.entries) == (ports, most)])
    ]
    return BenchReport(
        name="tables",
        numbers={
            "no_table_pps": bare,
            "points": [vars(point) for point in points],
            "acl": [vars(point) for point in lists],
        },
        columns=(
            "entries",
            *(f"{kind}, packets/s (lookup)" for kind in PORTS),
            *(f"ACL, ports as {ports}: ns (hit / miss)" for ports in ACL_TABLES),
        ),
        rows=tuple(
            (f"{size:,}", *(cell(kind, size) for kind in PORTS), *(acl_cell(ports, size) for ports in ACL_TABLES))
            for size in sizes
        ),
        goals=tuple(goals),
        notes=(f"without a table: {rate(bare)} packets/s",),
    )
