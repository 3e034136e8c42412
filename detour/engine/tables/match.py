# SPDX-License-Identifier: Apache-2.0
"""Match-action tables as the control plane sees them."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from detour.engine.compiler import model, slots
from detour.engine.compiler.slots import key_layout, record_head, record_words, spaced
from detour.engine.tables.arguments import Arguments
from detour.engine.tables.arrays import MeterArray, MeterRates
from detour.engine.tables.errors import EntryExists, NoSuchEntry, TableError, TableFull
from detour.engine.tables.index import ExactIndex, PrefixIndex, RankedIndex
from detour.engine.tables.keys import KeyCodec, Match
from detour.engine.tables.profile import ActionProfile
from detour.engine.tables.rows import Handles, Rows

_MAX_RANK_PRIORITY = (1 << 31) - 1
_ENTRY_BYTES = 512  # what a snapshot takes for an entry beside its row: places in dictionaries, and what may be gone


@dataclass(frozen=True, slots=True)
class MemberRef:
    """In an indirect table: the entry runs this member of the action profile."""

    member: int


@dataclass(frozen=True, slots=True)
class GroupRef:
    """In a table with a selector: the entry runs one member of this group."""

    group: int


EntryTarget = str | int | MemberRef | GroupRef


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as read back. `action` is None in indirect tables, where `target` says what it points to."""

    handle: int
    key: tuple[Any, ...]
    priority: int
    action: model.ActionIr | None
    params: tuple[int, ...]
    target: MemberRef | GroupRef | None = None


class _Packing:
    """Packing of a table's keys and actions, the same on all switches that run the program."""

    def __init__(self, spec: model.TableIr, actions: list[model.ActionIr]) -> None:
        self.head, self.words = record_head(spec), record_words(spec)
        self.arguments = Arguments(spec.name, spec.actions, actions)
        self.layout = key_layout(spec.key)
        self.codec = KeyCodec(spec.name, spec.key, self.layout)


_PACKINGS: WeakKeyDictionary[model.TableIr, _Packing] = WeakKeyDictionary()


class MatchTable:
    """One table of one switch.

    Keys are tuples with an element for each key field: exact `int`; lpm `(value, prefix_len)`; ternary
    `(value, mask)`; range `(low, high)`; in ternary fields also `int` (all bits) and `None` (any), which is
    how optional fields are given. Priorities are P4Runtime's: the higher number wins, among equals the lower
    handle; exact and LPM tables ignore them.
    """

    def __init__(
        self,
        spec: model.TableIr,
        sw: NDArray[np.int64],
        slot: int,
        actions: list[model.ActionIr],
        profile: ActionProfile | None,
        meter: model.Array | None,
        tick_ps: int,
    ) -> None:
        self.name, self.spec, self.size, self.profile = spec.name, spec, spec.max_size, profile
        self.immutable = False
        self.changes = 0
        """how often entries or the default were written; what was read of them is true as long as it stays"""
        self._sw, self._slot = sw, slot
        packing = _PACKINGS.get(spec)
        if packing is None:
            packing = _PACKINGS[spec] = _Packing(spec, actions)
        self._head, self._words, self._arguments = packing.head, packing.words, packing.arguments
        self._layout, self._codec = packing.layout, packing.codec
        self._rows = Rows(sw, slot + slots.RECORDS, spaced(packing.words), rows=4 if spec.key else 1)
        self._prioritised = spec.match_type in ("ternary", "range")
        self._meter: MeterArray | None = None
        self._new_meter: MeterRates | None = None
        if meter is not None:
            self._meter = MeterArray(meter.name, 4, meter.unit, tick_ps)
            self._publish_meter()
        self._reset_entries()
        self._rows.flat[slots.ACTION] = slots.NO_ACTION_ID
        self.default_changed = False
        self._install(spec)

    def _install(self, spec: model.TableIr) -> None:
        if spec.default is not None:
            self._write_default(spec.default.action.id, spec.default.args)
        for e in spec.entries or ():
            self.insert(e.key, e.call.action.id, e.call.args, e.priority)
        self.immutable = spec.entries is not None

    def _reset_entries(self) -> None:
        if self.spec.key:  # most tables have none: p4c makes them of statements
            kinds = {"exact": ExactIndex, "lpm": PrefixIndex, "ternary": RankedIndex, "range": RankedIndex}
            self._index = kinds[self.spec.match_type](self._sw, self._slot, self._layout, self.spec.key)
        self._handles = Handles()
        self._matches: dict[int, tuple[Match, int]] = {}  # handle -> match, rank
        self._by_key: dict[Any, int] = {}  # identity of the match -> handle
        self._given: dict[int, tuple[Any, ...]] = {}  # handle -> the key as it was written, where that is kept

    def __len__(self) -> int:
        return len(self._matches)

    # -- entries

    def insert(self, key: tuple[Any, ...], action: EntryTarget, params: tuple[int, ...] = (), priority: int = 0) -> int:
        """Add an entry and return its handle. Raises EntryExists, TableFull or, for what does not fit the table,
        TableError."""
        self._check_mutable()
        if not self._prioritised:
            priority = 0
        match = self._new_match(key, priority)
        words = self._encode(action, params)
        self.changes += 1
        handle = self._handles.take()
        if self._prioritised:
            rank = priority << 32 | (0xFFFFFFFF - handle)
        else:
            rank = match.prefix + 1
        self._by_key[match.identity] = handle
        self._matches[handle] = (match, rank)
        self._write_new(handle + 1, words)
        self._index.add(match, rank, handle + 1)
        return handle

    def check_new(self, key: tuple[Any, ...], priority: int = 0) -> None:
        """Raise what `insert` would raise because of the key."""
        self._check_mutable()
        self._new_match(key, priority if self._prioritised else 0)

    def _new_match(self, key: tuple[Any, ...], priority: int) -> Match:
        match = self._codec.encode(key, priority)
        if not 0 <= priority <= _MAX_RANK_PRIORITY:
            raise TableError(f"{self.name}: priority {priority} is not in 0..{_MAX_RANK_PRIORITY}")
        if match.identity in self._by_key:
            raise EntryExists(f"{self.name}: the entry {key} exists")
        if len(self._matches) >= self.size:
            raise TableFull(f"{self.name}: it takes {self.size} entries")
        return match

    def modify(self, handle: int, action: EntryTarget, params: tuple[int, ...] = ()) -> None:
        """Give an entry another action; counters and meters stay."""
        self._check_mutable()
        self._match(handle)
        words = self._encode(action, params)
        self.changes += 1
        self._refer(self._rows.flat[(handle + 1) * self._rows.stride + slots.ACTION], -1)
        self._write(handle + 1, words)

    def delete(self, handle: int) -> None:
        self._check_mutable()
        match, rank = self._match(handle)
        self.changes += 1
        row = handle + 1
        self._index.remove(match, rank, row)
        self._refer(self._rows.flat[row * self._rows.stride + slots.ACTION], -1)
        del self._matches[handle], self._by_key[match.identity]
        self._given.pop(handle, None)
        self._handles.release(handle)

    def find(self, key: tuple[Any, ...], priority: int = 0) -> int:
        """The handle of the entry with this key (and, in ternary and range tables, this priority)."""
        handle = self._by_key.get(self._codec.encode(key, priority if self._prioritised else 0).identity)
        if handle is None:
            raise NoSuchEntry(f"{self.name}: there is no entry {key}")
        return handle

    def get(self, handle: int) -> Entry:
        match, rank = self._match(handle)
        action, params, target = self._decode(handle + 1)
        return Entry(handle, self._codec.decode(match), self._priority(rank), action, params, target)

    def keep_key(self, handle: int, key: tuple[Any, ...]) -> None:
        """Keep the key of an entry as it was written, with bits beyond an LPM prefix: BMv2 shows them."""
        if key != self._codec.decode(self._match(handle)[0]):
            self._given[handle] = key

    def written_key(self, handle: int) -> tuple[Any, ...]:
        """The key of an entry as it was written, if that was kept; else in canonical form."""
        match, _ = self._match(handle)
        return self._given.get(handle) or self._codec.decode(match)

    def __contains__(self, handle: int) -> bool:
        return handle in self._matches

    def entries(self) -> Iterator[Entry]:
        return (self.get(handle) for handle in sorted(self._matches))

    def version(self, handle: int) -> int:
        """Number of earlier entries with that handle (BMv2's handles begin with it)."""
        return self._handles.released(handle)

    def clear(self) -> None:
        """Remove all entries; const entries stay."""
        if self.immutable:
            return
        self.changes += 1
        for handle in self._matches:
            self._refer(self._rows.flat[(handle + 1) * self._rows.stride + slots.ACTION], -1)
        self._reset_entries()

    def snapshot(self, profile: ActionProfile | None) -> MatchTable:
        """A copy to be read: writes go on in the original. `profile`: a snapshot of the action profile. Counters are
        copied as they are; whoever wants those of one moment lets no packet run meanwhile."""
        other = copy(self)
        other.profile = profile
        other._rows = self._rows.snapshot(self._handles.end + 1)
        other._matches, other._by_key = self._matches.copy(), self._by_key.copy()
        if self._meter is not None:
            other._meter = self._meter.snapshot()
        return other

    @property
    def snapshot_bytes(self) -> int:
        """About the memory that a snapshot takes."""
        meters = 0 if self._meter is None else self._meter.rows.nbytes
        return (self._handles.end + 1) * self._rows.stride * 8 + len(self._matches) * _ENTRY_BYTES + meters

    # -- default entry

    def set_default(self, action: EntryTarget, params: tuple[int, ...] = ()) -> None:
        """Set the default action, unless the program says that it is const."""
        if self.spec.default_const:
            raise TableError(f"{self.name}: its default entry is const")
        self._write_default(action, params)
        self.default_changed = True

    def _write_default(self, action: EntryTarget, params: tuple[int, ...]) -> None:
        default = self.spec.default
        if default and self.spec.default_action_const:
            chosen = action if isinstance(action, str | int) else ""
            if self._arguments.action(chosen) is not default.action:
                raise TableError(f"{self.name}: its default action {default.action.name} is const")
        self._set_default_words(self._encode(action, params))

    def _set_default_words(self, words: list[int]) -> None:
        self.changes += 1
        self._refer(self._rows.flat[slots.ACTION], -1)
        self._write(0, words)

    def reset_default(self) -> None:
        """Back to the default entry that the program gives (none in indirect tables)."""
        default = self.spec.default
        words = self._encode(default.action.id, default.args) if default else [slots.NO_ACTION_ID]
        self._set_default_words(words)
        self.default_changed = False

    @property
    def default(self) -> Entry | None:
        """The default entry (handle -1), None if there is none."""
        if self._rows.flat[slots.ACTION] == slots.NO_ACTION_ID:
            return None
        action, params, target = self._decode(0)
        return Entry(-1, (), 0, action, params, target)

    # -- counters, meters, ageing

    def counter(self, handle: int) -> tuple[int, int]:
        """(packets, bytes) of an entry."""
        at = self._counted(handle)
        return self._rows.flat[at], self._rows.flat[at + 1]

    def set_counter(self, handle: int, packets: int, octets: int) -> None:
        at = self._counted(handle)
        self._rows.flat[at], self._rows.flat[at + 1] = packets, octets

    def _counted(self, handle: int) -> int:
        if not self.spec.with_counters:
            raise TableError(f"{self.name}: it has no direct counter")
        self._match(handle)
        return (handle + 1) * self._rows.stride + slots.entry_counter(self.spec)

    def meter(self, handle: int) -> MeterRates | None:
        """The direct meter's rates, None if they were never set."""
        return self._metered(handle).config(handle + 1)

    def set_meter(self, handle: int, config: MeterRates | None) -> None:
        self._metered(handle).configure(handle + 1, config)

    def set_all_meters(self, config: MeterRates | None) -> None:
        """Set the rates of all direct meters, those of entries yet to come as well."""
        meter = self._direct_meter()
        for handle in self._matches:
            meter.configure(handle + 1, config)
        self._new_meter = config

    def _metered(self, handle: int) -> MeterArray:
        meter = self._direct_meter()
        self._match(handle)
        return meter

    def _direct_meter(self) -> MeterArray:
        if self._meter is None:
            raise TableError(f"{self.name}: it has no direct meter")
        return self._meter

    def _publish_meter(self) -> None:
        assert self._meter is not None
        self._sw[self._slot + slots.METERS] = self._meter.rows.ctypes.data

    def last_hit(self, handle: int) -> int:
        """Tick of the last hit or, if there was none, of the insertion. The table must support time-outs."""
        self._match(handle)
        return self._rows.flat[(handle + 1) * self._rows.stride + slots.TOUCHED]

    # -- records

    def _match(self, handle: int) -> tuple[Match, int]:
        if handle not in self._matches:
            raise NoSuchEntry(f"{self.name}: there is no entry with handle {handle}")
        return self._matches[handle]

    def _priority(self, rank: int) -> int:
        return rank >> 32 if self._prioritised else 0

    def _check_mutable(self) -> None:
        if self.immutable:
            raise TableError(f"{self.name}: its entries are const")
        if not self.spec.key:
            raise TableError(f"{self.name}: a table without key has only a default entry")

    def _encode(self, action: EntryTarget, params: tuple[int, ...]) -> list[int]:
        if self.profile is None:
            if isinstance(action, MemberRef | GroupRef):
                raise TableError(f"{self.name}: it has no action profile")
            return self._arguments.encode(action, params)
        if isinstance(action, MemberRef):
            return [self.profile.member_row(action.member)]
        if isinstance(action, GroupRef):
            return [slots.GROUP_FLAG | self.profile.group_row(action.group)]
        raise TableError(f"{self.name}: its entries point to members of {self.profile.name}")

    def _decode(self, row: int) -> tuple[model.ActionIr | None, tuple[int, ...], MemberRef | GroupRef | None]:
        at = row * self._rows.stride
        flat = self._rows.flat
        if self.profile is None:
            action, params = self._arguments.decode([flat[at], *flat[at + self._head : at + self._words]])
            return action, params, None
        word = flat[at + slots.ACTION]
        if word & slots.GROUP_FLAG:
            return None, (), GroupRef(self.profile.group_id(word & 0xFFFFFFFF))
        return None, (), MemberRef(self.profile.member_id(word))

    def _refer(self, word: int, count: int) -> None:
        """Keep the action profile's use counts."""
        if self.profile is None or word == slots.NO_ACTION_ID:
            return
        if word & slots.GROUP_FLAG:
            self.profile.use_group(word & 0xFFFFFFFF, count)
        else:
            self.profile.use_member(word, count)

    def _write_new(self, row: int, words: list[int]) -> None:
        self._rows.reserve(row + 1)
        if self._meter is not None:
            if row >= self._meter.size:
                self._meter.resize(2 * row)
                self._publish_meter()
            self._meter.configure(row, self._new_meter)
        if self.profile is not None:
            self._refer(words[0], 1)
        if self._head > 1:
            words[1:1] = [self._sw.item(slots.NOW)] * self.spec.support_timeout + [0, 0] * self.spec.with_counters
        self._rows.write(row * self._rows.stride, words)

    def _write(self, row: int, words: list[int]) -> None:
        self._refer(words[0], 1)
        at = row * self._rows.stride
        self._rows.flat[at + slots.ACTION] = words[0]
        if len(words) > 1:
            self._rows.write(at + self._head, words[1:])
