# SPDX-License-Identifier: Apache-2.0
"""Random state for any program, written past P4Runtime: entries, members, groups, meters, registers, value sets."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from detour.engine.compiler.model import ActionIr, KeyField
from detour.engine.compiler.program import Program
from detour.engine.state import SwitchState
from detour.engine.tables import (
    ActionProfile,
    EntryExists,
    GroupMember,
    GroupRef,
    MatchTable,
    MemberRef,
    MeterRates,
    TableError,
    TableFull,
)
from tests.differential.packets import Pool

_ENTRIES = 24
_MEMBERS = 6


def populated(program: Program, source: Path, seed: int) -> SwitchState:
    """Random state for a program; `source`: its BMv2 JSON."""
    state, rng = SwitchState(program, seed), random.Random(seed)
    Populator(state, Pool(json.loads(source.read_text()), rng), rng).everything()
    return state


class Populator:
    """Fills the state of one switch; keys draw from the same pool of values as packets."""

    def __init__(self, state: SwitchState, pool: Pool, rng: random.Random) -> None:
        self._state, self._pool, self._rng = state, pool, rng

    def everything(self) -> None:
        """Writes all kinds of state."""
        for profile in self._state.action_profiles.values():
            self.profile(profile)
        for table in self._state.tables.values():
            self.table(table)
        for meter in self._state.meters.values():
            for index in range(min(meter.size, 8)):
                meter.configure(index, self.rates())
        for register in self._state.registers.values():
            for index in range(min(register.size, 16)):
                register.write(index, self._rng.getrandbits(register.bits))
        for values in self._state.value_sets.values():
            count = min(values.max_size or 4, 4)
            values.replace({self._pool.draw(values.bits) for _ in range(count)})

    def table(self, table: MatchTable) -> None:
        """Random entries and, where that is allowed, another default."""
        if table.spec.key and not table.immutable:
            for _ in range(min(_ENTRIES, table.size)):
                self._insert(table)
        if table.profile is None and table.spec.actions and self._rng.random() < 0.5:
            action = self._rng.choice(table.spec.actions)
            try:
                table.set_default(action.id, self.arguments(action))
            except TableError:
                assert table.spec.default_const or table.spec.default_action_const

    def _insert(self, table: MatchTable) -> None:
        target = self.target(table)
        if target is None:
            return
        try:
            handle = table.insert(self.key(table), *target, self._rng.randrange(1, 1 << 20))
        except (EntryExists, TableFull):
            return
        if table.spec.direct_meter and self._rng.random() < 0.7:
            table.set_meter(handle, self.rates())

    def key(self, table: MatchTable) -> tuple[Any, ...]:
        """A key of the table."""
        return tuple(self.element(f) for f in table.spec.key)

    def element(self, f: KeyField) -> Any:
        """One component of a key."""
        value, full = self._pool.draw(f.bits), (1 << f.bits) - 1
        match f.match_type:
            case "lpm":
                return value, self._rng.choice((0, f.bits // 3, f.bits // 2, f.bits - 1, f.bits, f.bits))
            case "ternary":
                mask = self._rng.choice((0, full, full, self._rng.randrange(full + 1), self._pool.draw(f.bits)))
                return self._rng.choice(((value, mask), (value, mask), (value, mask), value, None))
            case "range":
                low, high = sorted((value, self._pool.draw(f.bits)))
                return low, high
        return value

    def target(self, table: MatchTable) -> tuple[Any, tuple[int, ...]] | None:
        """Action and arguments, or what an indirect table points to; None if there is nothing."""
        profile = table.profile
        if profile is None:
            action = self._rng.choice(table.spec.actions) if table.spec.actions else None
            return action and (action.id, self.arguments(action))
        groups = list(profile.groups())
        if groups and self._rng.random() < 0.7:
            return GroupRef(self._rng.choice(groups)), ()
        members = list(profile.members())
        return (MemberRef(self._rng.choice(members)), ()) if members else None

    def arguments(self, action: ActionIr) -> tuple[int, ...]:
        """Arguments of an action; port numbers among them are small mostly."""
        return tuple(self._pool.draw(p.bits) for p in action.params)

    def profile(self, profile: ActionProfile) -> None:
        """Members and groups, one of them empty."""
        actions = list(profile.spec.actions.values())
        if not actions:  # no table has this profile
            return
        for member in range(1, min(_MEMBERS, profile.max_size) + 1):
            action = self._rng.choice(actions)
            profile.add_member(member, action.id, self.arguments(action))
        members = list(profile.members())
        if profile.spec.selector is None or not members:
            return
        for group in range(1, 5):
            chosen = self._rng.sample(members, self._rng.randrange(len(members) + 1))
            profile.add_group(group, [GroupMember(m, self._rng.randrange(1, 4)) for m in chosen])

    def rates(self) -> MeterRates:
        """Rates of a meter, from nothing to absurd."""
        committed = self._rng.choice((0, 1, 1000, 1e6, 1e18))
        burst = self._rng.choice((0, 1, 100, 1 << 40, (1 << 63) - 1))
        return MeterRates(committed, burst, committed * self._rng.choice((1, 2)), burst)
