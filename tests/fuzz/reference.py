# SPDX-License-Identifier: Apache-2.0
"""What a table should do, in the plainest Python: a list that is searched from end to end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.table_program import Key, Layout


@dataclass
class Row:
    """An entry: `target` is (result, arguments), a member's or a group's id."""

    key: tuple[Any, ...]
    priority: int
    handle: int
    target: Any
    hits: int = 0


@dataclass
class Group:
    """(member, weight, watched port) in the order in which they were given."""

    members: list[tuple[int, int, int | None]]


@dataclass
class Reference:
    """The state that the control plane wrote."""

    layout: Layout
    rows: dict[int, Row] = field(default_factory=dict)
    default: Any = None
    members: dict[int, Any] = field(default_factory=dict)
    created: dict[int, int] = field(default_factory=dict)
    """member -> its handle: the lowest that was free"""
    groups: dict[int, Group] = field(default_factory=dict)
    down: set[int] = field(default_factory=set)

    # -- entries

    def same(self, key: tuple[Any, ...], priority: int) -> Row | None:
        """The entry with that key."""
        canonical = self.canonical(key)
        ranked = self.layout.kind in ("ternary", "range")
        for row in self.rows.values():
            if self.canonical(row.key) == canonical and (row.priority == priority or not ranked):
                return row
        return None

    def canonical(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        """Without what does not matter."""
        return tuple(_canonical(k, element) for k, element in zip(self.layout.keys, key, strict=True))

    def hit(self, packet: dict[str, int]) -> Row | None:
        """The entry that a packet hits."""
        best: Row | None = None
        for row in self.rows.values():
            if all(_matches(k, e, packet[k.name]) for k, e in zip(self.layout.keys, row.key, strict=True)) and (
                best is None or self._rank(row) > self._rank(best)
            ):
                best = row
        return best

    def _rank(self, row: Row) -> tuple[int, int]:
        if self.layout.kind in ("ternary", "range"):
            return row.priority, -row.handle
        lengths = [e[1] for k, e in zip(self.layout.keys, row.key, strict=True) if k.kind == "lpm"]
        return sum(lengths), -row.handle

    # -- actions

    def result(self, target: Any, choice: int) -> int:
        """What a packet's `result` becomes; `choice` is its field `member`."""
        if target is None:
            return 0
        kind, value = target
        if kind == "group":
            chosen = self._choose(self.groups[value], choice)
            return 0 if chosen is None else self.result(self.members[chosen], choice)
        if kind == "member":
            return self.result(self.members[value], choice)
        return value + 1 if kind == "mark" else 0

    def _choose(self, group: Group, choice: int) -> int | None:
        """Members by handle, each as often as its weight; those whose port is down are left out."""
        live = [(self.created[m], m, weight) for m, weight, port in group.members if port not in self.down]
        slots = [m for _, m, weight in sorted(live) for _ in range(weight)]
        return slots[choice % len(slots)] if slots else None

    def member_used(self, member: int) -> bool:
        """Whether an entry or a group needs it."""
        in_group = any(member == m for g in self.groups.values() for m, _, _ in g.members)
        return in_group or any(r.target == ("member", member) for r in self.rows.values())

    def group_used(self, group: int) -> bool:
        """Whether an entry needs it."""
        return any(r.target == ("group", group) for r in self.rows.values())


def _canonical(k: Key, element: Any) -> Any:
    full = (1 << k.bits) - 1
    static = full if k.mask is None else k.mask
    match k.kind:
        case "lpm":
            shift = k.bits - element[1]
            return element[0] >> shift << shift, element[1]
        case "ternary":
            value, mask = _ternary(element, full)
            return value & mask & static, mask
        case "range":
            return element
    return element & static


def _ternary(element: Any, full: int) -> tuple[int, int]:
    if isinstance(element, int):
        return element, full
    return element or (0, 0)


def _matches(k: Key, element: Any, value: int) -> bool:
    full = (1 << k.bits) - 1
    masked = value if k.mask is None else value & k.mask
    match k.kind:
        case "lpm":
            shift = k.bits - element[1]
            return value >> shift == element[0] >> shift
        case "ternary":
            wanted_value, mask = _canonical(k, element)
            return masked & mask == wanted_value
        case "range":
            return element[0] <= value <= element[1]
    return masked == element & (full if k.mask is None else k.mask)
