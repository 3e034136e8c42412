# SPDX-License-Identifier: Apache-2.0
"""The entries of a test: those that packets match, wide where they can be, and others that a program which is almost
the same would take."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from detour.engine.compiler.model import KeyField, TableIr
from detour.testgen.testcase import Entry, Match

_SPREAD = 16
"""how far a range reaches beyond what it is made for"""


@dataclass(frozen=True)
class Searched:
    """A table that is searched for a key; `entry`: of exactly that key, `hit`: the test needs it."""

    table: TableIr
    entry: Entry
    hit: bool


def exact_match(table: TableIr, number: int, value: int) -> Match:
    """A match of one value of a component of the key."""
    field: KeyField = table.key[number]
    full = {"lpm": field.bits, "ternary": (1 << field.bits) - 1}.get(field.match_type, value)
    return Match(field.name, field.match_type, value, field.bits, full)


def chosen_entries(
    searched: list[Searched],
    others: Iterable[Entry],
    choose: random.Random | None,
    allow: Callable[[Entry], bool] = lambda entry: True,
    tight: bool = False,
) -> list[Entry]:
    """Entries that hit. `choose`: random numbers for more; with it, also some that no packet matches: those that differ
    in a single field from what is searched for, and those of tables that are not searched (`others`). Where a table is
    searched for one key, its entry then matches more than that, and lies above one that matches everything; but not if
    they are `tight`. `allow`: whether an entry may be."""
    if choose is None:
        return list(dict.fromkeys(each.entry for each in searched if each.hit))
    times = [each.table.name for each in searched]
    chosen: dict[tuple[str, tuple[Match, ...]], Entry] = {}
    below: list[Entry] = []
    keys = {(each.entry.table, each.entry.key) for each in searched}
    near: list[Entry] = []
    for each in searched:
        entry = each.entry
        if each.hit and not tight and times.count(each.table.name) == 1:
            wider = replace(entry, key=tuple(_wider(each.table, n, m, choose) for n, m in enumerate(entry.key)))
            entry = wider if allow(wider) else entry
            below += _below(entry)
        if each.hit:
            chosen[entry.table, entry.key] = entry
        near += _near(entry)
    sizes = {each.table.name: each.table.max_size for each in searched}
    apart = [each for each in (*near, *others) if not any(_may_match(each, s.entry) for s in searched)]
    for entry in (*below, *apart):
        place = entry.table, entry.key
        have = sum(table == entry.table for table, _ in chosen)
        if place not in keys and allow(entry) and have < sizes.get(entry.table, 1):
            chosen.setdefault(place, entry)
    return list(chosen.values())


def _may_match(entry: Entry, searched: Entry) -> bool:
    """Whether an entry matches what another one is of exactly, or may, as that one matches everything."""
    parts = zip(entry.key, searched.key, strict=False)
    return entry.table == searched.table and all(_is_in(key.value, match) or _is_wide(key) for match, key in parts)


def _is_in(value: int, match: Match) -> bool:
    match match.kind:
        case "exact":
            return value == match.value
        case "range":
            return match.value <= value <= match.extent
        case "lpm":
            return not (value ^ match.value) >> match.bits - match.extent
    return not (value ^ match.value) & match.extent


def _is_wide(match: Match) -> bool:
    return match.kind != "exact" and match == anything_of(match)


def _wider(table: TableIr, number: int, match: Match, choose: random.Random) -> Match:
    """A match of more than one value, this one too."""
    bits, value = match.bits, match.value
    most = (1 << bits) - 1
    match match.kind:
        case "lpm":
            length = choose.randint(1, bits)
            return replace(match, value=value & most << bits - length & most, extent=length)
        case "range":
            first, last = (choose.randrange(_SPREAD) for _ in range(2))
            return replace(match, value=max(value - first, 0), extent=min(value + last, most))
        case "ternary":
            digits = range(0, bits, 4)
            mask = sum(0xF << at for at in digits if choose.getrandbits(1)) & most or most
            if table.json["key"][number]["match_type"] == "optional":
                mask = most
            return replace(match, value=value & mask, extent=mask)
    return match


def _near(entry: Entry) -> Iterator[Entry]:
    """Entries that differ in one field, which then does not match."""
    for at, match in enumerate(entry.key):
        extent = match.extent
        match match.kind:
            case "exact":
                value = extent = match.value ^ 1
            case "lpm":
                value = match.value ^ 1 << match.bits - extent
            case "ternary":
                value = match.value ^ extent & -extent
            case _:
                value = extent = match.extent + 1 if match.extent + 1 < 1 << match.bits else match.value - 1
        if 0 <= value < 1 << match.bits:  # or this part matches everything
            near = replace(match, value=value, extent=extent)
            yield replace(entry, key=(*entry.key[:at], near, *entry.key[at + 1 :]))


def _below(entry: Entry) -> Iterator[Entry]:
    """The entry that matches all that this one does and more, and must not be taken."""
    kinds = {match.kind for match in entry.key}
    if "lpm" in kinds or "range" in kinds or "ternary" in kinds:
        arguments = tuple((name, value ^ 1) for name, value in entry.arguments)
        priority = None if entry.priority is None else entry.priority - 1
        yield replace(entry, key=tuple(map(anything_of, entry.key)), arguments=arguments, priority=priority)


def anything_of(match: Match) -> Match:
    """The component that matches everything, where there is one."""
    match match.kind:
        case "lpm" | "ternary":
            return replace(match, value=0, extent=0)
        case "range":
            return replace(match, value=0, extent=(1 << match.bits) - 1)
    return match
