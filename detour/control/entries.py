# SPDX-License-Identifier: Apache-2.0
"""The contents of a switch as small immutable values: the model that planners return and reconciling compares.

Every entity is canonical (fields in a fixed order, bits beyond a prefix cleared), hashable and compares by
value. `entity.key` is its identity on the switch: two entities with one key are the old and the new state of
the same thing. Names are those of the P4Info, numbers are plain `int`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from detour.control import schema
from detour.topo import address


@dataclass(frozen=True, slots=True, order=True)
class Lpm:
    """Longest-prefix match: `value` is the whole field (`bits` wide), `prefix_len` its significant bits."""

    value: int
    prefix_len: int
    bits: int = 128

    def __post_init__(self) -> None:
        tail = self.bits - self.prefix_len
        object.__setattr__(self, "value", self.value >> tail << tail)


@dataclass(frozen=True, slots=True, order=True)
class Ternary:
    """Match under a mask."""

    value: int
    mask: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", self.value & self.mask)


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Match of an interval, both ends included."""

    low: int
    high: int


# Exact and (present) optional fields are plain integers; fields that match anything are left out.
MatchValue: TypeAlias = int | Lpm | Ternary | Range


@dataclass(frozen=True, slots=True)
class Action:
    """An action with its arguments, (name, value) pairs in the order of the names."""

    name: str
    params: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", tuple(sorted(self.params)))

    @staticmethod
    def of(name: str, **params: int) -> Action:
        """`Action.of("FabricIngress.router.forward", port=3)`."""
        return Action(name, tuple(params.items()))

    def __getitem__(self, param: str) -> int:
        return dict(self.params)[param]

    def get(self, param: str) -> int | None:
        """The value of a parameter, None if the action has none of that name."""
        return dict(self.params).get(param)


@dataclass(frozen=True, slots=True)
class WeightedAction:
    """One choice of an action set."""

    action: Action
    weight: int = 1


@dataclass(frozen=True, slots=True)
class ActionSet:
    """One-shot action set of a table with an action selector. The order counts: member = hash % size."""

    choices: tuple[WeightedAction, ...]
    _hash: int = field(default=0, init=False, repr=False, compare=False)
    """kept from the first time: sets are long, and entries share them"""

    def __hash__(self) -> int:
        if not self._hash:
            object.__setattr__(self, "_hash", hash(self.choices))
        return self._hash

    def __reduce__(self) -> tuple[type[ActionSet], tuple[object, ...]]:
        return ActionSet, (self.choices,)  # names have other hashes in other processes

    @staticmethod
    def of(actions: Iterable[Action]) -> ActionSet:
        """Every action with weight 1."""
        return ActionSet(tuple(WeightedAction(action) for action in actions))

    def members(self) -> tuple[Action, ...]:
        """The actions among which the hash chooses: each one as often as its weight says."""
        return tuple(choice.action for choice in self.choices for _ in range(choice.weight))


@dataclass(frozen=True, slots=True)
class TableEntry:
    """An entry of a match table; `match` holds (field, value) pairs in the order of the fields' names.

    `priority` is 0 unless the table has a ternary, range or optional field."""

    table: str
    match: tuple[tuple[str, MatchValue], ...]
    action: Action | ActionSet
    priority: int = 0

    def __post_init__(self) -> None:
        if len(self.match) > 1:
            object.__setattr__(self, "match", tuple(sorted(self.match, key=lambda pair: pair[0])))

    @staticmethod
    def of(table: str, match: Mapping[str, MatchValue], action: Action | ActionSet, priority: int = 0) -> TableEntry:
        """The same from a mapping of fields."""
        return TableEntry(table, tuple(match.items()), action, priority)

    @property
    def key(self) -> tuple[object, ...]:
        return ("table", self.table, self.match, self.priority)

    def field(self, name: str) -> MatchValue | None:
        """Value of a match field, None if the entry does not care."""
        return dict(self.match).get(name)

    def members(self) -> tuple[Action, ...]:
        """The actions that may run, in the selector's order."""
        return self.action.members() if isinstance(self.action, ActionSet) else (self.action,)


@dataclass(frozen=True, slots=True)
class DefaultAction:
    """The action of a table when nothing matches."""

    table: str
    action: Action

    @property
    def key(self) -> tuple[object, ...]:
        return ("default", self.table)


@dataclass(frozen=True, slots=True, order=True)
class Replica:
    """A copy: where it goes and the replication id that it carries."""

    port: int
    instance: int = 0


@dataclass(frozen=True, slots=True)
class MulticastGroup:
    """A multicast group, replicas in order."""

    group: int
    replicas: tuple[Replica, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "replicas", tuple(sorted(self.replicas)))

    @property
    def key(self) -> tuple[object, ...]:
        return ("multicast", self.group)


@dataclass(frozen=True, slots=True)
class CloneSession:
    """A clone session; `packet_length` 0 keeps the whole packet."""

    session: int
    replicas: tuple[Replica, ...]
    class_of_service: int = 0
    packet_length: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "replicas", tuple(sorted(self.replicas)))

    @property
    def key(self) -> tuple[object, ...]:
        return ("clone", self.session)


@dataclass(frozen=True, slots=True)
class MeterConfig:
    """Rates (units a second) and bursts (units) of one cell of a meter."""

    meter: str
    index: int
    cir: int
    cburst: int
    pir: int
    pburst: int

    @property
    def key(self) -> tuple[object, ...]:
        return ("meter", self.meter, self.index)


Entity: TypeAlias = TableEntry | DefaultAction | MulticastGroup | CloneSession | MeterConfig
Plan: TypeAlias = dict[int, list[Entity]]  # device_id -> what that switch is to hold.


@dataclass(frozen=True, slots=True)
class ActionProfileMember:
    """An action of an action profile, for its groups to choose from."""

    profile: str
    member: int
    action: Action

    @property
    def key(self) -> tuple[object, ...]:
        return ("member", self.profile, self.member)


@dataclass(frozen=True, slots=True)
class ActionProfileGroup:
    """An action set in an action profile: (member, weight), by the numbers of the members."""

    profile: str
    group: int
    members: tuple[tuple[int, int], ...]

    @property
    def key(self) -> tuple[object, ...]:
        return ("group", self.profile, self.group)


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A `TableEntry` whose action set is a group of an action profile."""

    table: str
    match: tuple[tuple[str, MatchValue], ...]
    profile: str
    group: int
    priority: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        return ("table", self.table, self.match, self.priority)


Stored: TypeAlias = Entity | ActionProfileMember | ActionProfileGroup | GroupEntry
"""what a switch stores: action sets are groups there, which entries share (`control.groups`)"""


@dataclass(frozen=True, slots=True)
class Difference:
    """The writes that turn one state into another.

    Write insertions first, deletions last, each in their order (members, groups, long prefixes first; short prefixes
    first): at any time the longest match of an address is then what it was or what it shall be."""

    insert: tuple[Stored, ...]
    modify: tuple[Stored, ...]
    delete: tuple[Stored, ...]

    def __bool__(self) -> bool:
        return bool(self.delete or self.modify or self.insert)


def difference(present: Iterable[Stored], target: Iterable[Stored]) -> Difference:
    """Return the writes that turn `present` into `target`. Default actions, which cannot be deleted, are only ever
    modified; one that is present but not wanted stays."""
    old = {entity.key: entity for entity in present}
    new = {entity.key: entity for entity in target}
    fresh = [entity for key, entity in new.items() if key not in old]
    gone = [entity for key, entity in old.items() if key not in new and not isinstance(entity, DefaultAction)]
    return Difference(
        delete=tuple(sorted(gone, key=_place)),
        modify=tuple(e for key, e in new.items() if key in old and old[key] != e)
        + tuple(e for e in fresh if isinstance(e, DefaultAction)),
        insert=tuple(sorted((e for e in fresh if not isinstance(e, DefaultAction)), key=_place, reverse=True)),
    )


def _place(entity: Stored) -> tuple[int, int]:
    """Members before groups before entries with many bits of prefixes before those with few."""
    match entity:
        case ActionProfileMember():
            return 2, 0
        case ActionProfileGroup():
            return 1, 0
        case TableEntry() | GroupEntry():
            return 0, sum(value.prefix_len for _, value in entity.match if isinstance(value, Lpm))
        case _:
            return 0, 0


_IPV6_BITS = 128


def short(name: str) -> str:
    """The last part of a name in P4: `FabricIngress.router.route` is `route`."""
    return name.rpartition(".")[2]


def match_text(value: MatchValue) -> str:
    """`fd00:1::/32`, `17&0xff`, `5..10`, `3`."""
    match value:
        case Lpm():
            if value.bits == _IPV6_BITS:
                return address.prefix_text(value.value, value.prefix_len)
            return f"{value.value:#x}/{value.prefix_len}"
        case Ternary():
            return f"{value.value:#x}&{value.mask:#x}"
        case Range():
            return f"{value.low}..{value.high}"
        case _:
            return str(value)


def action_text(action: Action) -> str:
    """`deliver(mac=02:00:00:00:00:01, port=1)`."""
    params = (f"{name}={address.mac_text(v) if name == 'mac' else v}" for name, v in action.params)
    return f"{short(action.name)}({', '.join(params)})"


def actions_text(action: Action | ActionSet) -> str:
    """An action, or those of an action set in the selector's order; weights other than 1 come before."""
    if isinstance(action, Action):
        return action_text(action)
    return " | ".join(f"{c.weight}*" * (c.weight != 1) + action_text(c.action) for c in action.choices)


class EntityText(NamedTuple):
    """An entity in words."""

    table: str
    match: str
    action: str
    priority: int = 0


def entity_text(entity: Entity) -> EntityText:
    """An entity as one flat record."""
    match entity:
        case TableEntry():
            keys = ", ".join(f"{short(field)}={match_text(value)}" for field, value in entity.match)
            return EntityText(entity.table, keys or "*", actions_text(entity.action), entity.priority)
        case DefaultAction():
            return EntityText(entity.table, "default", action_text(entity.action))
        case MeterConfig():
            what = f"cir={entity.cir}/{entity.cburst}, pir={entity.pir}/{entity.pburst}"
            return EntityText(entity.meter, f"index={entity.index}", what)
        case MulticastGroup():
            return EntityText("multicast", f"group={entity.group}", _replicas(entity))
        case CloneSession():
            return EntityText("clone", f"session={entity.session}", _replicas(entity))


def _replicas(entity: MulticastGroup | CloneSession) -> str:
    return " ".join(f"{r.port}#{r.instance}" if r.instance else str(r.port) for r in entity.replicas)


TABLE_NAMES = {short(name): name for name in (schema.NODE_CONFIG, *schema.TABLE_SIZE, schema.PUNT_METER)}
"""tables by their short names"""
