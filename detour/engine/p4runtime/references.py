# SPDX-License-Identifier: Apache-2.0
"""`@refers_to(table, field)` of match fields and action parameters: what is named must be there, and stays.

As in sonic-pins (p4_pdpi/ir.proto, IrTableReference): all references of one entry to one table are of one entry there;
`builtin::multicast_group_table` (`multicast_group_id`) is a table too, and `@referenced_by(builtin::
multicast_group_table, replica.port)` at a match field is the same from the other end. A value that the program itself
maps to a number (`@p4runtime_translation_mappings`, like SAI's default VRF) is always there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from finsy.proto import p4i, p4r

from detour.engine.p4runtime import annotations
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.match import numbers
from detour.engine.p4runtime.translation import TranslatedType, TranslationPlan

_GROUPS, _GROUP_ID = "builtin::multicast_group_table", "multicast_group_id"
_REPLICA = ("replica.port", "replica.instance")

_Operation = Callable[[], object]
Place = int | str
"""a table's id, or what is built in"""


class _Field(NamedTuple):
    """A field that something refers to. `kind`: its translated type."""

    place: Place
    id: Any
    name: str
    kind: TranslatedType | None


_Pairs = list[tuple[Any, _Field]]
"""what refers (id of a match field or parameter, or what a replica has), and to what"""


class _Target(NamedTuple):
    """The target of a reference: an entry with these values."""

    place: Place
    fields: tuple[_Field, ...]
    values: tuple[int, ...]


class ReferencePlan:
    """The references of a program."""

    def __init__(self, info: p4i.P4Info, translation: TranslationPlan) -> None:
        self._kind_of = translation.of
        self._tables = {name: t for t in info.tables for name in (t.preamble.alias, t.preamble.name)}
        self.names: dict[Place, str] = {t.preamble.id: t.preamble.name for t in info.tables}
        self._of_keys = {t.preamble.id: self._pairs(t.match_fields) for t in info.tables}
        self._of_actions = {a.preamble.id: self._pairs(a.params) for a in info.actions}
        self._of_replicas: _Pairs = [
            (source, _Field(t.preamble.id, f.id, f.name, translation.of(f)))
            for t in info.tables
            for f in t.match_fields
            for place, source in map(_two, annotations.arguments(f.annotations, "referenced_by"))
            if place == _GROUPS and source in _REPLICA
        ]
        every = [*self._of_keys.values(), *self._of_actions.values(), self._of_replicas]
        self.places = {field.place for pairs in every for _, field in pairs}
        self.concerned = {
            t.preamble.id for t in info.tables
            if t.preamble.id in self.places or self._of_keys[t.preamble.id]
            or any(self._of_actions.get(ref.id) for ref in t.action_refs)
        }  # fmt: skip

    def _pairs(self, described: Iterable[Any]) -> _Pairs:
        texts = ((each, text) for each in described for text in annotations.arguments(each.annotations, "refers_to"))
        return [(each.id, field) for each, text in texts if (field := self._field(each, *_two(text))) is not None]

    def _field(self, source: Any, place: str, name: str) -> _Field | None:
        if place == _GROUPS and name == _GROUP_ID:
            return _Field(_GROUPS, name, name, None)
        table = self._tables.get(place)
        if table is None:
            return None  # p4c leaves out tables that are never applied
        for f in table.match_fields:
            if f.name == name and f.match_type in (p4i.MatchField.EXACT, p4i.MatchField.OPTIONAL):
                return _Field(table.preamble.id, f.id, name, self._kind_of(f))
        raise invalid(f"P4Info: '{source.name}' refers to {place}, which has no exact or optional field '{name}'")

    def targets(self, entity: p4r.Entity) -> set[_Target]:
        """Return the targets that an entity with numbers refers to."""
        entry, actions = entity.table_entry, [entity.action_profile_member.action]
        if entity.HasField("table_entry"):
            one_shot = entry.action.action_profile_action_set.action_profile_actions
            actions = [each.action for each in one_shot] or [entry.action.action]
        key = _values(self._of_keys.get(entry.table_id, []), key_of(entry))
        every = [
            key + _values(self._of_actions.get(a.action_id, []), {p.param_id: _number(p.value) for p in a.params})
            for a in actions
        ]
        for replica in entity.packet_replication_engine_entry.multicast_group_entry.replicas:
            given = dict(zip(_REPLICA, (_number(replica.port), replica.instance), strict=True))
            every.append(_values(self._of_replicas, given))
        return {target for pairs in every for target in _targets(pairs)}


def _two(text: str) -> tuple[str, str]:
    parts = annotations.names(text)
    if len(parts) != 2:
        raise invalid(f"P4Info: a reference takes a table and a field, not '{text}'")
    return parts[0], parts[1]


def _number(value: bytes) -> int:
    return int.from_bytes(value, "big")


def key_of(entry: p4r.TableEntry) -> dict[Any, int]:
    """Values of match fields by id."""
    return {m.field_id: numbers(m)[0] for m in entry.match}


def _values(pairs: _Pairs, values: dict[Any, int]) -> list[tuple[_Field, int]]:
    """The values that refer; those of fields that are left out do not, nor what the program itself maps."""
    chosen = [(field, values[source]) for source, field in pairs if source in values]
    return [(f, value) for f, value in chosen if f.kind is None or value not in f.kind.explicit.values()]


def _targets(values: list[tuple[_Field, int]]) -> Iterator[_Target]:
    """Yield the targets of references: those to one table mean one entry there; a field that is referred to twice means
    two."""
    while values:
        mine: dict[_Field, int] = {}
        for field, value in values:
            if field.place == values[0][0].place:
                mine.setdefault(field, value)
        values = [(field, value) for field, value in values if mine.get(field) != value]
        fields = tuple(sorted(mine, key=lambda field: str(field.id)))
        yield _Target(fields[0].place, fields, tuple(mine[field] for field in fields))


class References:
    """References among the entities of a store, counted as updates are carried out."""

    def __init__(self, plan: ReferencePlan, show: Callable[[TranslatedType | None, int], str]) -> None:
        """`show`: a value for errors."""
        self._plan, self._show = plan, show
        self.strict = True
        """whether updates are refused; else `verify` says whether all is there"""
        self._there: dict[Place, dict[Any, dict[Any, int]]] = {place: {} for place in plan.places}
        self._views: dict[Place, set[tuple[_Field, ...]]] = {place: set() for place in plan.places}
        self._provided: Counter[_Target] = Counter()
        self._used: Counter[_Target] = Counter()
        self._held: dict[Any, set[_Target]] = {}

    def guard(self, kind: int, entity: p4r.Entity, operation: _Operation) -> _Operation:
        """Let an operation happen only if no reference leads nowhere then. `entity`: with numbers."""
        if not self._there:
            return operation
        entry, member = entity.table_entry, entity.action_profile_member
        group = entity.packet_replication_engine_entry.multicast_group_entry
        place: Place = ""
        if entry.table_id in self._plan.concerned:
            owner = (entry.table_id, entry.is_default_action, entry.priority, _identity(entry))
            place, fields = "" if entry.is_default_action else entry.table_id, key_of(entry)
        elif member.member_id:
            owner, fields = ("action profile", member.action_profile_id, member.member_id), {}
        elif group.multicast_group_id:
            owner, place, fields = (_GROUPS, group.multicast_group_id), _GROUPS, {_GROUP_ID: group.multicast_group_id}
        else:
            return operation
        if kind == p4r.Update.DELETE:
            return partial(self._delete, owner, place, operation)
        keeps = kind == p4r.Update.MODIFY and place == entry.table_id and not entry.HasField("action")
        return partial(self._write, owner, place, fields, None if keeps else self._plan.targets(entity), operation)

    def add(self, entry: p4r.TableEntry) -> None:
        """An entry of the program itself."""
        self.guard(p4r.Update.MODIFY, p4r.Entity(table_entry=entry), lambda: None)()

    def _write(
        self, owner: Any, place: Place, fields: dict[Any, int], targets: set[_Target] | None, operation: _Operation
    ) -> None:
        for target in targets or ():
            if self.strict and not self._is_there(target):
                raise invalid(self._nowhere(owner, target))
        operation()
        if place in self._there and owner not in self._there[place]:
            self._there[place][owner] = fields
            self._provided.update(_as_targets(fields, self._views[place]))
        if targets is not None:
            _take(self._used, self._held.pop(owner, ()))
            if targets:
                self._held[owner] = targets
                self._used.update(targets)

    def _delete(self, owner: Any, place: Place, operation: _Operation) -> None:
        fields, mine = self._there.get(place, {}).get(owner), self._held.get(owner, set())
        lost = [*_as_targets(fields, self._views[place])] if fields is not None else []
        for target in lost:
            users = self._used[target] - (target in mine)
            if self.strict and users > 0 and self._provided[target] == 1:
                text = f"{self._name(target)} is referred to by {users} other entries"
                raise Refused(Code.FAILED_PRECONDITION, text)
        operation()
        _take(self._provided, lost)
        _take(self._used, self._held.pop(owner, ()))
        self._there.get(place, {}).pop(owner, None)

    def _is_there(self, target: _Target) -> bool:
        views = self._views[target.place]
        if target.fields not in views:  # nothing has referred to these fields together before
            views.add(target.fields)
            for fields in self._there[target.place].values():
                self._provided.update(_as_targets(fields, (target.fields,)))
        return self._provided[target] > 0

    def verify(self) -> None:
        """INVALID_ARGUMENT if a reference leads nowhere; from now on updates that would make one are refused."""
        self.strict = True
        for owner, targets in self._held.items():
            for target in targets:
                if not self._is_there(target):
                    raise invalid(self._nowhere(owner, target))

    def _nowhere(self, owner: Any, target: _Target) -> str:
        return f"{self._plan.names.get(owner[0], owner[0])}: @refers_to: there is no {self._name(target)}"

    def _name(self, target: _Target) -> str:
        pairs = zip(target.fields, target.values, strict=True)
        values = " and ".join(f"{field.name} {self._show(field.kind, value)}" for field, value in pairs)
        return f"entry of {self._plan.names.get(target.place, target.place)} with {values}"


def _identity(entry: p4r.TableEntry) -> tuple[tuple[int, ...], ...]:
    return tuple(sorted((m.field_id, *numbers(m)) for m in entry.match))


def _as_targets(fields: dict[Any, int], views: Iterable[tuple[_Field, ...]]) -> Iterator[_Target]:
    """Yield the targets that an entry can be referred to as."""
    for view in views:
        if all(field.id in fields for field in view):
            yield _Target(view[0].place, view, tuple(fields[field.id] for field in view))


def _take(counter: Counter[_Target], targets: Iterable[_Target]) -> None:
    for target in targets:
        counter[target] -= 1
        if not counter[target]:
            del counter[target]
