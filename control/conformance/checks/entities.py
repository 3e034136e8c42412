# SPDX-License-Identifier: Apache-2.0
"""INSERT, MODIFY, DELETE and Read of each kind of entity that comes and goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from finsy.proto import p4i, p4r

from detour.control.conformance.link import Canonical
from detour.control.conformance.model import add
from detour.control.conformance.samples import LPM, NO_ID, TERNARY, Samples
from detour.control.conformance.session import CheckSession, delete, insert, modify

_WRONG_ID = (Canonical.INVALID_ARGUMENT, Canonical.NOT_FOUND)


@dataclass(frozen=True)
class EntityCase:
    """How to make the n-th entity of a kind and another one with the same key; `id_field` names its P4Info object."""

    name: str
    section: str
    make: Callable[[Samples, int], p4r.Entity]
    change: Callable[[Samples, p4r.Entity], p4r.Entity]
    keys: tuple[str, ...]
    id_field: str
    needs: Callable[[Samples], list[p4r.Entity]] = lambda _: []

    def key(self, entity: p4r.Entity) -> p4r.Entity:
        """Only what identifies it."""
        copy = duplicate(entity)
        message = inner(copy)
        for f, _ in message.ListFields():
            if f.name not in self.keys:
                message.ClearField(f.name)
        return copy

    def wide(self, entity: p4r.Entity, own: bool) -> p4r.Entity:
        """A request for all of its P4Info object (`own`), or of the kind."""
        copy = duplicate(entity)
        message = inner(copy)
        message.Clear()
        if own and self.id_field in ("table_id", "action_profile_id", "digest_id"):
            setattr(message, self.id_field, getattr(inner(entity), self.id_field))
        message.SetInParent()
        return copy


def duplicate(entity: p4r.Entity) -> p4r.Entity:
    copy = p4r.Entity()
    copy.CopyFrom(entity)
    return copy


def inner(entity: p4r.Entity) -> Any:
    """The message of the entity's kind."""
    message = getattr(entity, entity.WhichOneof("entity") or "")
    if isinstance(message, p4r.PacketReplicationEngineEntry):
        return getattr(message, message.WhichOneof("type") or "")
    return message


def _other_action(table: Callable[[Samples], p4i.Table], samples: Samples, entity: p4r.Entity) -> p4r.Entity:
    copy = duplicate(entity)
    old = copy.table_entry.action.action
    new = samples.action(table(samples), 70)
    old.CopyFrom(new if new != old else samples.action(table(samples), 0, 1))
    return copy


def _set(samples: Samples, entity: p4r.Entity, **fields: Any) -> p4r.Entity:
    """A copy with other fields."""
    copy = duplicate(entity)
    for name, value in fields.items():
        message = inner(copy)
        if isinstance(value, list):
            message.ClearField(name)
            getattr(message, name).extend(value)
        elif isinstance(value, int | bytes):
            setattr(message, name, value)
        else:
            getattr(message, name).CopyFrom(value)
    return copy


def _table_kind(name: str, table: Callable[[Samples], p4i.Table]) -> EntityCase:
    return EntityCase(
        f"table.{name}", "9.1", lambda s, n: s.entry(table(s), n), partial(_other_action, table),
        ("table_id", "match", "priority"), "table_id",
    )  # fmt: skip


def _indirect(samples: Samples, n: int) -> p4r.Entity:
    entity = samples.entry(samples.indirect, n, action=False)
    entity.table_entry.action.action_profile_member_id = 1
    return entity


def _to_member_2(samples: Samples, entity: p4r.Entity) -> p4r.Entity:
    return _set(samples, entity, action=p4r.TableAction(action_profile_member_id=2))


def _members(selector: bool) -> Callable[[Samples], list[p4r.Entity]]:
    return lambda s: [s.member(0, selector), s.member(1, selector)]


_ENTRY_KEYS = ("table_id", "match", "priority")
_KINDS = (
    _table_kind("exact", lambda s: s.exact),
    _table_kind("lpm", lambda s: s.table_of(LPM)),
    _table_kind("ternary", lambda s: s.table_of(TERNARY)),
    _table_kind("ageing", lambda s: s.ageing),
    EntityCase("table.indirect", "9.1.2", _indirect, _to_member_2, _ENTRY_KEYS, "table_id", _members(False)),
    EntityCase(
        "table.one_shot", "9.2.3", lambda s, n: s.one_shot(n),
        lambda s, e: _set(s, e, action=s.one_shot(3, (3, 1, 2)).table_entry.action), _ENTRY_KEYS, "table_id",
    ),
    EntityCase(
        "member", "9.2.1", lambda s, n: s.member(n),
        lambda s, e: _set(s, e, action=s.member(70).action_profile_member.action),
        ("action_profile_id", "member_id"), "action_profile_id",
    ),
    EntityCase(
        "group", "9.2.2", lambda s, n: s.group(n, 1),
        lambda s, e: _set(s, e, members=list(s.group(0, 1, 2).action_profile_group.members)),
        ("action_profile_id", "group_id"), "action_profile_id", _members(True),
    ),
    EntityCase(
        "multicast", "9.5.1", lambda s, n: s.multicast(n),
        lambda s, e: _set(s, e, replicas=[p4r.Replica(port=b"\3", instance=9)]),
        ("multicast_group_id",), "multicast_group_id",
    ),
    EntityCase(
        "clone", "9.5.2", lambda s, n: s.clone(n),
        lambda s, e: _set(s, e, replicas=[p4r.Replica(port=b"\3", instance=9)], packet_length_bytes=100),
        ("session_id",), "session_id",
    ),
    EntityCase(
        "digest", "9.8", lambda s, n: s.digest(n),
        lambda s, e: _set(s, e, config=s.digest(7).digest_entry.config), ("digest_id",), "digest_id",
    ),
)  # fmt: skip


def _made(session: CheckSession, kind: EntityCase, n: int = 0) -> p4r.Entity:
    """The n-th entity, with what it needs inserted before the first one."""
    entity = kind.make(session.samples, n)
    if n == 0:
        session.prepare(*kind.needs(session.samples))
    return entity


def _insert_read(kind: EntityCase, session: CheckSession) -> None:
    entity = _made(session, kind)
    session.accept(insert(entity))
    session.holds(kind.key(entity), entity)


def _insert_twice(kind: EntityCase, session: CheckSession) -> None:
    entity = _made(session, kind)
    session.prepare(entity)
    session.refuse(Canonical.ALREADY_EXISTS, insert(entity))


def _insert_twice_keeps(kind: EntityCase, session: CheckSession) -> None:
    entity = _made(session, kind)
    session.prepare(entity)
    session.write(insert(kind.change(session.samples, entity)))
    session.holds(kind.key(entity), entity)


def _modify_missing(kind: EntityCase, session: CheckSession) -> None:
    session.refuse(Canonical.NOT_FOUND, modify(_made(session, kind)))


def _modify_missing_adds_nothing(kind: EntityCase, session: CheckSession) -> None:
    entity = _made(session, kind)
    session.write(modify(entity))
    _read_nothing(session, kind.key(entity))


def _modify_read(kind: EntityCase, session: CheckSession) -> None:
    entity = _made(session, kind)
    changed = kind.change(session.samples, entity)
    session.prepare(entity)
    session.accept(modify(changed))
    session.holds(kind.key(entity), changed)


def _delete_missing(kind: EntityCase, session: CheckSession) -> None:
    session.refuse(Canonical.NOT_FOUND, delete(_made(session, kind)))


def _delete_by_key(kind: EntityCase, session: CheckSession) -> None:
    entity = _made(session, kind)
    session.prepare(entity)
    session.accept(delete(kind.key(entity)))


def _delete_ignores(kind: EntityCase, session: CheckSession) -> None:
    entity = _made(session, kind)
    session.prepare(entity)
    nonsense = duplicate(entity)
    message = inner(nonsense)
    for f, value in message.ListFields():
        if f.name == "action":
            message.action.Clear()
            if f.message_type.name == "Action":
                message.action.action_id = NO_ID
            else:
                message.action.action.action_id = NO_ID
        elif f.name == "members":
            value[0].member_id = 77
        elif f.name == "replicas":
            value[0].instance = 0xFFFFFFFF
        elif f.name == "config":
            message.config.max_list_size = 1
    session.accept(delete(nonsense))


def _deleted_gone(kind: EntityCase, session: CheckSession) -> None:
    entity = _made(session, kind)
    session.prepare(entity)
    session.do(delete(kind.key(entity)))
    _read_nothing(session, kind.key(entity))


def _read_nothing(session: CheckSession, request: p4r.Entity) -> None:
    answer = session.try_read(request)
    entities = [entity for response in answer.messages for entity in response.entities]
    session.expect(not entities and answer.codes[0] in (0, Canonical.NOT_FOUND), "no entity")


def _inserted_again(kind: EntityCase, session: CheckSession) -> None:
    entity = _made(session, kind)
    session.prepare(entity)
    session.do(delete(kind.key(entity)))
    session.accept(insert(entity))


def _unspecified(kind: EntityCase, session: CheckSession) -> None:
    session.refuse(Canonical.INVALID_ARGUMENT, p4r.Update(entity=_made(session, kind)))


def _with_id(kind: EntityCase, id_: int, update: Callable[[p4r.Entity], p4r.Update], session: CheckSession) -> None:
    entity = _made(session, kind)
    if update is not insert:
        session.prepare(entity)
    session.refuse(_WRONG_ID, update(_set(session.samples, entity, **{kind.id_field: id_})))


def _read_all(kind: EntityCase, own: bool, session: CheckSession) -> None:
    entities = [_made(session, kind, n) for n in range(1 if kind.name == "digest" else 3)]
    session.prepare(*entities)
    request = kind.wide(entities[0], own)
    if own:
        session.holds(request, *entities)
    else:
        read = session.read(request)
        lacking = [e for e in entities if not any(set(_fields(e)) == set(_fields(r)) for r in read)]
        session.expect(not lacking, f"among the entities: {lacking[:1]}")


def _fields(entity: p4r.Entity) -> list[str]:
    """Its fields as text, members of lists one by one, so that their order does not matter."""
    rows = []
    for f, value in inner(entity).ListFields():
        rows += [f"{f.name}={each}" for each in (value if f.is_repeated else [value])]
    return rows


def _batch(kind: EntityCase, session: CheckSession) -> None:
    entities = [_made(session, kind, n) for n in range(3)]
    session.accept(*(insert(entity) for entity in entities))
    for entity in entities:
        session.holds(kind.key(entity), entity)


_Family = tuple[str, str, str, Callable[..., None]]
_FAMILIES: tuple[_Family, ...] = (
    ("insert_read", "8.2", "what INSERT has written is read back as it was written", _insert_read),
    ("insert_twice", "12", "INSERT of what exists is ALREADY_EXISTS", _insert_twice),
    ("insert_twice_keeps", "12", "an INSERT that fails because the entity exists leaves it as it was",
     _insert_twice_keeps),
    ("modify_missing", "12", "MODIFY of what does not exist is NOT_FOUND", _modify_missing),
    ("modify_adds_nothing", "12", "MODIFY of what does not exist creates nothing", _modify_missing_adds_nothing),
    ("modify_read", "12", "MODIFY gives the entity its complete new state, which is read back", _modify_read),
    ("delete_missing", "12", "DELETE of what does not exist is NOT_FOUND", _delete_missing),
    ("delete_by_key", "12", "DELETE needs only the key", _delete_by_key),
    ("delete_ignores", "12", "DELETE ignores all but the key, even nonsense", _delete_ignores),
    ("deleted_gone", "12", "what DELETE has removed is not read any more", _deleted_gone),
    ("inserted_again", "12", "what was deleted can be inserted again", _inserted_again),
    ("unspecified", "12", "an update without a type is INVALID_ARGUMENT", _unspecified),
)  # fmt: skip


def _register(kind: EntityCase) -> None:
    for name, section, text, function in _FAMILIES:
        add(f"{kind.name}.{name}", section, f"{kind.name.replace('_', ' ')}: {text}", partial(function, kind))
    title = kind.name.replace("_", " ")
    for name, update in (("insert", insert), ("modify", modify), ("delete", delete)):
        text = f"{title}: {name.upper()} with {kind.id_field} 0 is refused, 0 is no id"
        add(f"{kind.name}.{name}_id_0", "8.1.1", text, partial(_with_id, kind, 0, update))
    if kind.id_field in ("table_id", "action_profile_id", "digest_id"):
        text = f"{title}: an id that P4Info does not have is refused"
        add(f"{kind.name}.unknown_id", kind.section, text, partial(_with_id, kind, NO_ID, insert))
        text = f"{title}: a read with the P4Info id alone gives all entities of that object"
        add(f"{kind.name}.read_own", "13.2", text, partial(_read_all, kind, True))
    text = f"{title}: a read with id 0 gives the entities of all objects"
    add(f"{kind.name}.read_all", "13.2", text, partial(_read_all, kind, False))
    if kind.name != "digest":
        text = f"{title}: all updates of a batch are committed when Write returns"
        add(f"{kind.name}.batch", "12.1", text, partial(_batch, kind))


for _kind in _KINDS:
    _register(_kind)
