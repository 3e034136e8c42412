# SPDX-License-Identifier: Apache-2.0
"""`@refers_to(table, field)` of match fields and action parameters: what is named must be there, and stays.

As in sonic-pins (p4_pdpi/ir.proto, IrTableReference): all references of one entry to one table are of one entry there;
`builtin::multicast_group_table` (`multicast_group_id`) is a table too, and `@referenced_by(builtin::
multicast_group_table, replica.port)` at a match field is the same from the other end. A value that the program itself
maps to a number (`@p4runtime_translation_mappings`, like SAI's default VRF) is always there.

Entries are counted as they are carried out: `provided` what can be referred to, `used` what is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from finsy.proto import p4i, p4r

from detour.engine.p4runtime import annotations
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.translation import TranslatedType, TranslationPlan

_GROUPS = "builtin::multicast_group_table"
_GROUP_ID = "multicast_group_id"
_REPLICA = {"replica.port": lambda replica: replica.port, "replica.instance": lambda replica: replica.instance}
_MODIFY, _DELETE = p4r.Update.MODIFY, p4r.Update.DELETE

PendingUpdate = Callable[[], object]
Place = int | str
"""a table's id, or what is built in"""


class _Pair(NamedTuple):
    """`source`: id of the match field or parameter, or what a replica has; `field`: id (or name) of a field there."""

    source: Any
    place: Place
    field: Any
    name: str
    kind: TranslatedType | None


class _Target(NamedTuple):
    """What must be there: an entry with these values."""

    place: Place
    fields: tuple[Any, ...]
    values: tuple[int, ...]


class ReferencePlan:
    """The references of a program."""

    def __init__(self, info: p4i.P4Info, translation: TranslationPlan) -> None:
        self._translation = translation
        self._tables = {name: t for t in info.tables for name in (t.preamble.alias, t.preamble.name)}
        self.names: dict[Place, str] = {t.preamble.id: t.preamble.name for t in info.tables} | {_GROUPS: _GROUPS}
        self.of_keys = {t.preamble.id: self._pairs(t.match_fields) for t in info.tables}
        self.of_actions = {a.preamble.id: self._pairs(a.params) for a in info.actions}
        self.of_replicas = [
            _Pair(field, t.preamble.id, f.id, f.name, translation.of(f))
            for t in info.tables
            for f in t.match_fields
            for place, field in map(_two, annotations.arguments(f.annotations, "referenced_by"))
            if place == _GROUPS and field in _REPLICA
        ]
        every = [*self.of_keys.values(), *self.of_actions.values(), self.of_replicas]
        self.fields = {(pair.place, pair.field): pair for pairs in every for pair in pairs}
        self.places = {place for place, _ in self.fields}
        actions = {t.preamble.id: [ref.id for ref in t.action_refs] for t in info.tables}
        self.concerned = {
            id_ for id_, ids in actions.items()
            if id_ in self.places or self.of_keys[id_] or any(self.of_actions.get(action) for action in ids)
        }  # fmt: skip

    def _pairs(self, described: Iterable[Any]) -> list[_Pair]:
        texts = ((each, text) for each in described for text in annotations.arguments(each.annotations, "refers_to"))
        return [pair for each, text in texts if (pair := self._pair(each, *_two(text))) is not None]

    def _pair(self, source: Any, place: str, name: str) -> _Pair | None:
        kind = self._translation.of(source)
        if place == _GROUPS and name == _GROUP_ID:
            return _Pair(source.id, _GROUPS, name, name, kind)
        table = self._tables.get(place)
        if table is None:
            return None  # p4c leaves out tables that are never applied
        field = next((f for f in table.match_fields if f.name == name), None)
        if field is None or field.match_type not in (p4i.MatchField.EXACT, p4i.MatchField.OPTIONAL):
            raise invalid(f"P4Info: '{source.name}' refers to {place}, which has no exact or optional field '{name}'")
        return _Pair(source.id, table.preamble.id, field.id, name, kind)

    def targets(self, entity: p4r.Entity) -> set[_Target]:
        """What an entity with numbers refers to."""
        entry, actions = entity.table_entry, [entity.action_profile_member.action]
        if entity.HasField("table_entry"):
            one_shot = entry.action.action_profile_action_set.action_profile_actions
            actions = [each.action for each in one_shot] or [entry.action.action]
        elif entity.HasField("packet_replication_engine_entry"):
            replicas = entity.packet_replication_engine_entry.multicast_group_entry.replicas
            each = ([(pair, _number(_REPLICA[pair.source](r))) for pair in self.of_replicas] for r in replicas)
            return {target for pairs in each for target in _targets(pairs)}
        of_key = _values(self.of_keys.get(entry.table_id, ()), {id_: numbers[0] for id_, *numbers in _key(entry)})
        of_actions = (
            _values(self.of_actions.get(action.action_id, ()), {p.param_id: _number(p.value) for p in action.params})
            for action in actions
        )
        return {target for pairs in of_actions for target in _targets(of_key + pairs)}


def _two(text: str) -> tuple[str, str]:
    parts = annotations.names(text)
    if len(parts) != 2:
        raise invalid(f"P4Info: a reference has two arguments, table and field, not '{text}'")
    return parts[0], parts[1]


def _number(value: bytes | int) -> int:
    return value if isinstance(value, int) else int.from_bytes(value, "big")


def _key(entry: p4r.TableEntry) -> list[tuple[int, ...]]:
    """Match fields in order, as id and numbers."""
    key = []
    for m in sorted(entry.match, key=lambda m: m.field_id):
        form = getattr(m, m.WhichOneof("field_match_type") or "exact")
        key.append((m.field_id, *(_number(value) for _, value in form.ListFields())))
    return key


def _values(pairs: Iterable[_Pair], values: dict[int, int]) -> list[tuple[_Pair, int]]:
    """The values that refer; those of fields that are left out do not, nor what the program itself maps."""
    chosen = ((pair, values[pair.source]) for pair in pairs if pair.source in values)
    return [(p, value) for p, value in chosen if p.kind is None or value not in p.kind.explicit.values()]


def _targets(pairs: Iterable[tuple[_Pair, int]]) -> Iterator[_Target]:
    """What refers to one table is of one entry there; a field that is referred to twice is of two."""
    places: dict[tuple[Place, int], dict[Any, int]] = {}
    for pair, value in pairs:
        turn = next(n for n in count() if places.get((pair.place, n), {}).get(pair.field, value) == value)
        places.setdefault((pair.place, turn), {})[pair.field] = value
    for (place, _), values in places.items():
        fields = tuple(sorted(values))
        yield _Target(place, fields, tuple(values[field] for field in fields))


class References:
    """What the entities of a store refer to. Belongs to whoever carries out writes."""

    def __init__(self, plan: ReferencePlan, show: Callable[[TranslatedType | None, int], str]) -> None:
        """`show`: a value for errors."""
        self._plan, self._show = plan, show
        self.strict = True
        """whether updates are refused; else `verify` says whether all is there"""
        self._there: dict[Place, dict[Any, dict[Any, int]]] = {place: {} for place in plan.places}
        self._views: dict[Place, set[tuple[Any, ...]]] = {place: set() for place in plan.places}
        self._provided: Counter[_Target] = Counter()
        self._used: Counter[_Target] = Counter()
        self._held: dict[Any, set[_Target]] = {}

    def guard(self, kind: int, entity: p4r.Entity, operation: PendingUpdate) -> PendingUpdate:
        """Lets an operation happen only if no reference leads nowhere then. `entity`: with numbers."""
        entry = entity.table_entry
        match entity.WhichOneof("entity"):
            case "table_entry" if entry.table_id in self._plan.concerned:
                owner, place = self._owner(entry), None if entry.is_default_action else entry.table_id
                fields = {id_: numbers[0] for id_, *numbers in _key(entry)}
            case "action_profile_member" if self._there:
                member = entity.action_profile_member
                owner, place, fields = ("member", member.action_profile_id, member.member_id), None, {}
            case "packet_replication_engine_entry" if self._there and (
                group := entity.packet_replication_engine_entry.multicast_group_entry
            ).multicast_group_id:
                owner, place = (_GROUPS, group.multicast_group_id), _GROUPS
                fields = {_GROUP_ID: group.multicast_group_id}
            case _:
                return operation
        if kind == _DELETE:
            return partial(self._delete, owner, place, operation)
        keeps = kind == _MODIFY and place == entry.table_id and not entry.HasField("action")
        targets = None if keeps else self._plan.targets(entity)
        return partial(self._write, owner, place, fields, targets, operation)

    def _owner(self, entry: p4r.TableEntry) -> Any:
        return entry.table_id, entry.is_default_action, entry.priority, tuple(_key(entry))

    def add(self, entry: p4r.TableEntry) -> None:
        """An entry of the program itself."""
        fields = {id_: numbers[0] for id_, *numbers in _key(entry)}
        self._write(self._owner(entry), entry.table_id, fields, None, lambda: None)

    def _write(
        self, owner: Any, place: Place | None, fields: dict[Any, int], targets: set[_Target] | None,
        operation: PendingUpdate,
    ) -> None:  # fmt: skip
        for target in targets or ():
            if self.strict and not self._is_there(target):
                raise invalid(self._nowhere(owner, target))
        operation()
        there = self._there.get(place) if place is not None else None
        if there is not None and owner not in there:
            there[owner] = fields
            self._provided.update(self._of(place, fields))
        if targets is not None:
            self._used.subtract(self._held.pop(owner, ()))
            if targets:
                self._held[owner] = targets
                self._used.update(targets)

    def _delete(self, owner: Any, place: Place | None, operation: PendingUpdate) -> None:
        fields = self._there.get(place, {}).get(owner) if place is not None else None
        lost = list(self._of(place, fields)) if fields is not None else []
        mine = self._held.get(owner, set())
        for target in lost:
            users = self._used[target] - (target in mine)
            if self.strict and users > 0 and self._provided[target] == 1:
                text = f"{self._name(target)} is referred to by {users} other entries"
                raise Refused(Code.FAILED_PRECONDITION, text)
        operation()
        self._provided.subtract(lost)
        self._used.subtract(self._held.pop(owner, ()))
        if place is not None:
            self._there.get(place, {}).pop(owner, None)
        for target in (*lost, *mine):
            for counter in (self._provided, self._used):
                if not counter[target]:
                    del counter[target]

    def _of(self, place: Any, fields: dict[Any, int]) -> Iterator[_Target]:
        """What an entry can be referred to as."""
        for view in self._views.get(place, ()):
            if all(field in fields for field in view):
                yield _Target(place, view, tuple(fields[field] for field in view))

    def _is_there(self, target: _Target) -> bool:
        if target.fields not in self._views[target.place]:
            self._views[target.place].add(target.fields)
            for fields in self._there[target.place].values():
                if all(field in fields for field in target.fields):
                    self._provided[target._replace(values=tuple(fields[field] for field in target.fields))] += 1
        return self._provided[target] > 0

    def verify(self) -> None:
        """INVALID_ARGUMENT if a reference leads nowhere; from now on updates that would make one are refused."""
        for owner, targets in self._held.items():
            for target in targets:
                if not self._is_there(target):
                    raise invalid(self._nowhere(owner, target))
        self.strict = True

    def _nowhere(self, owner: Any, target: _Target) -> str:
        return f"{self._plan.names.get(owner[0], owner[0])}: @refers_to: there is no {self._name(target)}"

    def _name(self, target: _Target) -> str:
        pairs = (self._plan.fields[target.place, field] for field in target.fields)
        values = (f"{p.name} {self._show(p.kind, value)}" for p, value in zip(pairs, target.values, strict=True))
        return f"entry of {self._plan.names[target.place]} with {' and '.join(values)}"
