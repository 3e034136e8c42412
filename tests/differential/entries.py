# SPDX-License-Identifier: Apache-2.0
"""Random table entries and everything else that a controller sets, for any P4Info."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from finsy.proto import p4i, p4r

from tests.differential.packets import Pool
from tests.ptf.p4rt import Schema, clone_session, encode, meter_config, multicast_group

Update = tuple[str, p4r.Entity]
PORT_WIDTH = 9
PORT_CHOICES = (0, 1, 1, 2, 2, 3, 4, 5, 511)

# What every program finds: sessions and groups with one replica and several, on one port too, and with id 0.
CLONE_SESSIONS = {1: [(3, 5)], 2: [(4, 0)], 3: [(1, 7), (2, 8)]}
MULTICAST_GROUPS = {1: [(1, 1), (2, 2), (3, 3)], 2: [(4, 9)], 3: [(1, 1), (1, 2), (2, 1)], 5: [(2, 0), (3, 0)]}


class EntryMaker:
    """Makes the updates that set up one program for a run."""

    def __init__(
        self, program: Mapping[str, Any], schema: Schema, pool: Pool, rng: random.Random, per_table: int = 24
    ) -> None:
        tables = [t for p in program["pipelines"] for t in p["tables"]]
        # BMv2 lets nobody add to a table that has entries in the program, constant or not.
        self._initial = {t["name"] for t in tables if t.get("entries")}
        self._schema = schema
        self._pool = pool
        self._rng = rng
        self._per_table = per_table
        self._actions = {a.preamble.id: a for a in schema.p4info.actions}
        self._members: dict[int, list[int]] = {}
        self._groups: dict[int, list[int]] = {}

    def updates(self) -> list[Update]:
        """All of them, in an order that a switch accepts."""
        made: list[Update] = []
        made += [("INSERT", clone_session(s, *r)) for s, r in CLONE_SESSIONS.items()]
        made += [("INSERT", multicast_group(g, *r)) for g, r in MULTICAST_GROUPS.items()]
        info = self._schema.p4info
        for profile in info.action_profiles:
            made += self._profile(profile)
        for table in info.tables:
            made += self._table(table)
        for meter in info.meters:
            made += self._meter(meter)
        for value_set in info.value_sets:
            made.append(("MODIFY", self._value_set(value_set)))
        for digest in info.digests:
            made.append(("INSERT", self._digest(digest)))
        return made

    # -- actions and profiles ---------------------------------------------------------------------------

    def _argument(self, name: str, width: int) -> int:
        if width == PORT_WIDTH:
            return self._rng.choice(PORT_CHOICES)
        return self._pool.draw(width)

    def _action(self, action_id: int) -> p4r.Action:
        info = self._actions[action_id]
        message = p4r.Action(action_id=action_id)
        for parameter in info.params:
            value = self._argument(parameter.name, parameter.bitwidth)
            message.params.add(param_id=parameter.id, value=encode(value))
        return message

    def _actions_of(self, table: p4i.Table, scope: Any) -> list[int]:
        return [r.id for r in table.action_refs if r.scope in (p4i.ActionRef.TABLE_AND_DEFAULT, scope)]

    def _profile(self, profile: p4i.ActionProfile) -> list[Update]:
        tables = [t for t in self._schema.p4info.tables if t.preamble.id in profile.table_ids]
        actions = self._actions_of(tables[0], p4i.ActionRef.TABLE_ONLY)
        made: list[Update] = []
        members = self._members[profile.preamble.id] = list(range(1, 13))
        for member in members:
            message = p4r.ActionProfileMember(action_profile_id=profile.preamble.id, member_id=member)
            message.action.CopyFrom(self._action(self._rng.choice(actions)))
            made.append(("INSERT", p4r.Entity(action_profile_member=message)))
        if not profile.with_selector:
            return made
        groups = self._groups[profile.preamble.id] = list(range(1, 6))
        for group in groups:
            message = p4r.ActionProfileGroup(action_profile_id=profile.preamble.id, group_id=group, max_size=8)
            for member in sorted(self._rng.sample(members, self._rng.randrange(1, 6))):
                message.members.add(member_id=member, weight=1)
            made.append(("INSERT", p4r.Entity(action_profile_group=message)))
        return made

    # -- tables -----------------------------------------------------------------------------------------

    def _table(self, table: p4i.Table) -> list[Update]:
        made: list[Update] = []
        if table.const_default_action_id == 0 and not table.implementation_id and self._rng.random() < 0.7:
            entry = p4r.TableEntry(table_id=table.preamble.id, is_default_action=True)
            choices = self._actions_of(table, p4i.ActionRef.DEFAULT_ONLY)
            entry.action.action.CopyFrom(self._action(self._rng.choice(choices)))
            made.append(("MODIFY", p4r.Entity(table_entry=entry)))
        if table.preamble.name in self._initial or not table.match_fields:
            return made
        if not table.implementation_id and not self._actions_of(table, p4i.ActionRef.TABLE_ONLY):
            return made
        keys: set[bytes] = set()
        for _ in range(min(self._per_table, int(table.size))):
            entry = self._entry(table)
            key = b"".join(sorted(m.SerializeToString(deterministic=True) for m in entry.match))
            if key not in keys:
                keys.add(key)
                made.append(("INSERT", p4r.Entity(table_entry=entry)))
        return made

    def _entry(self, table: p4i.Table) -> p4r.TableEntry:
        entry = p4r.TableEntry(table_id=table.preamble.id)
        for field in table.match_fields:
            self._match(entry, field)
        kinds = {f.match_type for f in table.match_fields}
        if kinds & {p4i.MatchField.TERNARY, p4i.MatchField.RANGE, p4i.MatchField.OPTIONAL}:
            # Equal priorities leave the winner open, so there are none.
            entry.priority = self._rng.randrange(1, 1 << 20)
        self._give_action(entry, table)
        if any(self._is_direct_meter(r, table) for r in table.direct_resource_ids):
            entry.meter_config.CopyFrom(meter_config(*self._rates()))
        return entry

    def _give_action(self, entry: p4r.TableEntry, table: p4i.Table) -> None:
        groups = self._groups.get(table.implementation_id)
        if not table.implementation_id:
            choices = self._actions_of(table, p4i.ActionRef.TABLE_ONLY)
            entry.action.action.CopyFrom(self._action(self._rng.choice(choices)))
        elif groups and self._rng.random() < 0.7:
            entry.action.action_profile_group_id = self._rng.choice(groups)
        else:
            entry.action.action_profile_member_id = self._rng.choice(self._members[table.implementation_id])

    def _match(self, entry: p4r.TableEntry, field: p4i.MatchField) -> None:
        width = field.bitwidth or 1
        value, kind, kinds = self._pool.draw(width), field.match_type, p4i.MatchField
        full = (1 << width) - 1
        if kind == kinds.EXACT:
            entry.match.add(field_id=field.id).exact.value = encode(value)
        elif kind == kinds.LPM:
            length = self._rng.choice((0, 1, width // 3, width // 2, width - 1, width, width))
            if length:
                match = entry.match.add(field_id=field.id).lpm
                match.prefix_len, match.value = length, encode(value >> (width - length) << (width - length))
        elif kind == kinds.TERNARY:
            mask = self._rng.choice((0, full, full, self._rng.randrange(full + 1), self._pool.draw(width)))
            if mask:
                match = entry.match.add(field_id=field.id).ternary
                match.mask, match.value = encode(mask), encode(value & mask)
        elif kind == kinds.RANGE:
            low, high = sorted((value, self._pool.draw(width)))
            if (low, high) != (0, full):
                match = entry.match.add(field_id=field.id).range
                match.low, match.high = encode(low), encode(high)
        elif self._rng.random() < 0.6:
            entry.match.add(field_id=field.id).optional.value = encode(value)

    # -- the rest ---------------------------------------------------------------------------------------

    def _is_direct_meter(self, resource: int, table: p4i.Table) -> bool:
        return any(m.preamble.id == resource for m in self._schema.p4info.direct_meters)

    def _rates(self) -> tuple[int, int, int, int]:
        """Bursts and no refill, so that the colours of a run do not depend on the clock."""
        committed = self._rng.choice((1, 3, 10, 200))
        return 0, committed, 0, committed + self._rng.choice((0, 2, 100))

    def _meter(self, meter: p4i.Meter) -> list[Update]:
        made: list[Update] = []
        for index in range(0, min(meter.size, 8)):
            if index % 3:
                entry = p4r.MeterEntry(meter_id=meter.preamble.id, index=p4r.Index(index=index))
                entry.config.CopyFrom(meter_config(*self._rates()))
                made.append(("MODIFY", p4r.Entity(meter_entry=entry)))
        return made

    def _value_set(self, info: p4i.ValueSet) -> p4r.Entity:
        entry = p4r.ValueSetEntry(value_set_id=info.preamble.id)
        for _ in range(min(info.size, 3)):
            member = entry.members.add()
            for field in info.match:
                member.match.add(field_id=field.id).exact.value = encode(self._pool.draw(field.bitwidth))
        return p4r.Entity(value_set_entry=entry)

    def _digest(self, info: p4i.Digest) -> p4r.Entity:
        entry = p4r.DigestEntry(digest_id=info.preamble.id)
        entry.config.max_list_size = 1
        entry.config.max_timeout_ns = 0
        entry.config.ack_timeout_ns = 0
        return p4r.Entity(digest_entry=entry)
