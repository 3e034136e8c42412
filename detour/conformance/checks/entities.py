# SPDX-License-Identifier: Apache-2.0
"""INSERT, MODIFY, DELETE and Read of each kind of entity that comes and goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from finsy.proto import p4r

from detour.conformance.samples import NO_ID, inner
from detour.conformance.steps import *


@dataclass(frozen=True)
class EntityCase:
    """Instructions to make the n-th entity of a kind, what to change in it for another one with the same key, and what
    must be there before. `id_field` names its P4Info object."""

    name: str
    section: str
    id_field: str
    make: Callable[[int], Recipe]
    change: dict[str, Any]
    needs: list[Recipe] = field(default_factory=list)


def _table(name: str) -> EntityCase:
    change = {"action.action": lambda s: s.other_action(name)}
    return EntityCase(f"table.{name}", "9.1", "table_id", lambda n: sample.entry(name, n), change)


_REPLICA = p4r.Replica(port=b"\3", instance=9)
_CASES = (
    *map(_table, ("exact", "lpm", "ternary", "ageing")),
    EntityCase("table.indirect", "9.1.2", "table_id", lambda n: sample.pointer("indirect", n, member=1),
               {"action.action_profile_member_id": 2}, [sample.member(n, "indirect") for n in range(2)]),
    EntityCase("table.one_shot", "9.2.3", "table_id", lambda n: sample.one_shot(n),
               {"action": lambda s: s.one_shot(3, (3, 1, 2)).table_entry.action}),
    EntityCase("member", "9.2.1", "action_profile_id", lambda n: sample.member(n),
               {"action": lambda s: s.action("selecting", 70)}),
    EntityCase("group", "9.2.2", "action_profile_id", lambda n: sample.group(n, 1),
               {"members": lambda s: list(s.group(0, 1, 1).action_profile_group.members)},
               [sample.member(n) for n in range(2)]),
    EntityCase("multicast", "9.5.1", "multicast_group_id", lambda n: sample.multicast(n), {"replicas": [_REPLICA]}),
    EntityCase("clone", "9.5.2", "session_id", lambda n: sample.clone(n),
               {"replicas": [_REPLICA], "packet_length_bytes": 100}),
    EntityCase("digest", "9.8", "digest_id", lambda n: sample.digest(n),
               {"config": lambda s: s.digest(7).digest_entry.config}),
)  # fmt: skip


def _nonsense(message: Any) -> None:
    """Alter all but the key."""
    for f, value in message.ListFields():
        if f.name == "action":
            message.action.Clear()
            (message.action if f.message_type.name == "Action" else message.action.action).action_id = NO_ID
        elif f.name == "members":
            value[0].member_id = 77
        elif f.name == "replicas":
            value[0].instance = 0xFFFFFFFF
        elif f.name == "config":
            message.config.max_list_size = 1


@step
def _among(session: CheckSession, request: p4r.Entity, *entities: p4r.Entity) -> None:
    """These entities must be among those that a read gives."""
    read = [set(_fields(entity)) for entity in session.read(request)]
    lacking = [entity for entity in entities if set(_fields(entity)) not in read]
    session.expect(not lacking, f"among the entities: {lacking[:1]}")


def _fields(entity: p4r.Entity) -> list[str]:
    """Return the entity's fields as text, members of lists one by one, so that their order does not matter."""
    rows = []
    for f, value in inner(entity).ListFields():
        rows += [f"{f.name}={each}" for each in (value if f.is_repeated else [value])]
    return rows


def _table_of(case: EntityCase) -> Iterator[tuple[Any, ...]]:
    """The rows of a kind."""
    one, key, id_ = case.make(0), case.make(0).key, case.id_field
    changed = one
    for path, value in case.change.items():
        changed = changed.but(path, value)
    three = [case.make(n) for n in range(3)]
    listed = three[:1] if case.name == "digest" else three
    yield "insert_read", "8.2", "what INSERT has written is read back as it was written", stores(one.insert)
    yield "insert_twice", "12", "INSERT of what exists is ALREADY_EXISTS", prepare(one), refuse(EXISTS, one.insert)
    yield ("insert_twice_keeps", "12", "an INSERT that fails because the entity exists leaves it as it was",
           prepare(one), tries(changed.insert), holds(key, one))  # fmt: skip
    yield "modify_missing", "12", "MODIFY of what does not exist is NOT_FOUND", refuse(NOT_FOUND, one.modify)
    yield ("modify_adds_nothing", "12", "MODIFY of what does not exist creates nothing", tries(one.modify),
           lacks(key))  # fmt: skip
    yield ("modify_read", "12", "MODIFY gives the entity its complete new state, which is read back", prepare(one),
           stores(changed.modify))  # fmt: skip
    yield "delete_missing", "12", "DELETE of what does not exist is NOT_FOUND", refuse(NOT_FOUND, one.delete)
    yield "delete_by_key", "12", "DELETE needs only the key", prepare(one), accept(key.delete)
    yield ("delete_ignores", "12", "DELETE ignores all but the key, even nonsense", prepare(one),
           accept(one.altered(_nonsense).delete))  # fmt: skip
    yield ("deleted_gone", "12", "what DELETE has removed is not read any more", prepare(one), do(key.delete),
           lacks(key))  # fmt: skip
    yield ("inserted_again", "12", "what was deleted can be inserted again", prepare(one), do(key.delete),
           accept(one.insert))  # fmt: skip
    yield (
        "unspecified",
        "12",
        "an update without a type is INVALID_ARGUMENT",
        refuse(INVALID_ARGUMENT, one.update("UNSPECIFIED")),
    )
    none = one.but(id_, 0)
    yield "insert_id_0", "8.1.1", f"INSERT with {id_} 0 is refused, 0 is no id", refuse(WRONG_ID, none.insert)
    for name in ("modify", "delete"):
        yield (f"{name}_id_0", "8.1.1", f"{name.upper()} with {id_} 0 is refused, 0 is no id", prepare(one),
               refuse(WRONG_ID, none.update(name.upper())))  # fmt: skip
    if id_ in ("table_id", "action_profile_id", "digest_id"):
        yield ("unknown_id", case.section, "an id that P4Info does not have is refused",
               refuse(WRONG_ID, one.but(id_, NO_ID).insert))  # fmt: skip
        yield ("read_own", "13.2", "a read with the P4Info id alone gives all entities of that object",
               prepare(*listed), holds(one.own, *listed))  # fmt: skip
    yield ("read_all", "13.2", "a read with id 0 gives the entities of all objects", prepare(*listed),
           _among(one.every, *listed))  # fmt: skip
    if case.name != "digest":
        yield ("batch", "12.1", "all updates of a batch are committed when Write returns",
               accept(*(each.insert for each in three)), *(holds(each.key, each) for each in three))  # fmt: skip


def _checks(case: EntityCase) -> list[ConformanceCheck]:
    title = f"{case.name.replace('_', ' ')}: "
    return rows(case.name, *_table_of(case), title=title, before=prepare(*case.needs))


checks = [check for case in _CASES for check in _checks(case)]
