# SPDX-License-Identifier: Apache-2.0
"""A program's objects as commands name them: from BMv2's JSON, which every switch hands out.

In P4_16 names are long, so any suffix that only one object has (from a dot on) will do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

from detour.base.errors import DetourError
from detour.engine.bmv2api.commands.errors import unknown
from detour.engine.bmv2api.types import MatchType
from detour.engine.compiler.older import in_present_form


@dataclass(frozen=True)
class Named:
    """Something that the program defines. `asked`: how a command names it, which may be shorter."""

    name: str
    asked: str = field(default="", compare=False, kw_only=True)

    def as_asked(self, asked: str) -> Self:
        """The same with that."""
        return replace(self, asked=asked)


T = TypeVar("T", bound=Named)


@dataclass(frozen=True)
class NamedField(Named):
    """`source_name`: the key's in the P4 program, which is not that of the field where it is an expression."""

    kind: MatchType
    bits: int
    source_name: str = ""


@dataclass(frozen=True)
class NamedAction(Named):
    params: tuple[tuple[str, int], ...]
    """(name, bits)"""

    def shown(self) -> str:
        return "{:30} [{}]".format(self.name, ",\t".join(f"{name}({bits})" for name, bits in self.params))


@dataclass(frozen=True, eq=False)
class NamedProfile(Named):
    with_selection: bool
    actions: dict[str, NamedAction] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class NamedTable(Named):
    match_type: MatchType
    key: tuple[NamedField, ...]
    actions: Mapping[str, NamedAction]
    profile: NamedProfile | None
    with_groups: bool
    ages: bool

    @property
    def prioritised(self) -> bool:
        """Return whether its entries have priorities."""
        return self.match_type in (MatchType.TERNARY, MatchType.RANGE)

    def shown(self) -> str:
        implementation = None if self.profile is None else self.profile.name
        key = ",\t".join(f"{f.name}({f.kind.name.lower()}, {f.bits})" for f in self.key)
        return f"{self.name:30} [implementation={implementation}, mk={key}]"


@dataclass(frozen=True)
class NamedArray(Named):
    """A counter, meter, register or value set. `table`: of a direct one. `bits`: of registers and value sets."""

    size: int
    table: str | None = None
    bits: int = 0
    rates: int = 0
    unit: str = ""


class Names(dict[str, T]):
    """Objects of one kind by their full names; `find` takes a suffix too."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self._suffixes: dict[str, set[str]] = {}

    def add(self, named: T) -> None:
        """p4c writes an action once for each table that has it; it is one."""
        name, parts = named.name, named.name.split(".")
        if name in self:
            return
        self[name] = named
        for i in range(len(parts)):
            self._suffixes.setdefault(".".join(parts[i:]), set()).add(name)

    def find(self, name: str) -> T:
        """The object that a command means. Raises CommandError if there is none of that name, or more than one."""
        full_names = self._suffixes.get(name, set())
        if len(full_names) != 1:
            raise unknown(self.kind, name, full_names or self)
        return self[next(iter(full_names))]


class ProgramNames:
    """See the module."""

    def __init__(self, text: str) -> None:
        """Raise DetourError if that is not a program."""
        try:
            self._read(in_present_form(json.loads(text)))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            raise DetourError("that is not BMv2 JSON") from None

    def _read(self, source: Any) -> None:
        types = {t["name"]: {f[0]: f[1] for f in t["fields"]} for t in source["header_types"]}
        self._headers = {h["name"]: types[h["header_type"]] for h in source["headers"]}
        self.actions: Names[NamedAction] = Names("action")
        self._by_id: dict[int, NamedAction] = {}
        for a in source["actions"]:
            named = NamedAction(a["name"], tuple((p["name"], p["bitwidth"]) for p in a["runtime_data"]))
            self._by_id[a["id"]] = named
            self.actions.add(named)
        self.profiles: Names[NamedProfile] = Names("action profile")
        self.tables: Names[NamedTable] = Names("table")
        for pipeline in source["pipelines"]:
            for p in pipeline.get("action_profiles") or []:
                self.profiles.add(NamedProfile(p["name"], "selector" in p))
            for t in pipeline["tables"]:
                self.tables.add(self._table(t))
        self._read_arrays(source)
        self.custom_crcs = {
            c["name"]: int(c["algo"][3:5])
            for c in source.get("calculations") or []
            if c["algo"] in ("crc16_custom", "crc32_custom")
        }

    def _read_arrays(self, source: Any) -> None:
        self.counters: Names[NamedArray] = Names("counter")
        for c in source.get("counter_arrays") or []:
            self.counters.add(NamedArray(c["name"], c.get("size") or 0, _table_of(c)))
        self.meters: Names[NamedArray] = Names("meter")
        for m in source.get("meter_arrays") or []:
            size = m.get("size") or 0
            self.meters.add(NamedArray(m["name"], size, _table_of(m), rates=m["rate_count"], unit=m["type"]))
        self.registers: Names[NamedArray] = Names("register")
        for r in source.get("register_arrays") or []:
            self.registers.add(NamedArray(r["name"], r["size"], bits=r["bitwidth"]))
        self.value_sets: Names[NamedArray] = Names("parser value set")
        for v in source.get("parse_vsets") or []:
            self.value_sets.add(NamedArray(v["name"], 0, bits=v["compressed_bitwidth"]))

    def _table(self, t: Any) -> NamedTable:
        own = [self._by_id[number] for number in t["action_ids"]]
        profile, actions = None, {action.name: action for action in own}
        if t["type"] != "simple":
            profile = self.profiles[t["action_profile"]]
            profile.actions.update(actions)
            profile.tables.append(t["name"])
        key = tuple(self._key_field(k) for k in t["key"])
        kind, groups = MatchType[t["match_type"].upper()], t["type"] == "indirect_ws"
        return NamedTable(t["name"], kind, key, actions, profile, groups, bool(t["support_timeout"]))

    def _key_field(self, k: Any) -> NamedField:
        kind, target, source_name = MatchType[k["match_type"].upper()], k["target"], k.get("name") or ""
        if kind == MatchType.VALID:
            return NamedField(f"{target}_valid", kind, 1, source_name)
        if target[1] == "$valid$":
            return NamedField(f"{target[0]}_valid", kind, 1, source_name)
        return NamedField(".".join(target), kind, self._headers[target[0]][target[1]], source_name)


def _table_of(array: Any) -> str | None:
    return array.get("binding") if array.get("is_direct") else None
