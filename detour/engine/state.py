# SPDX-License-Identifier: Apache-2.0
"""The state of one switch that runs a program: what the control plane writes and packets read and count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import zeros
from detour.engine import phv
from detour.engine.compiler.hashes import CrcParameters, words
from detour.engine.compiler.log_ring import LogRing
from detour.engine.compiler.slots import COVERAGE, CUSTOM_CRCS, DROP_PORT_SLOT, LOG, NOW, RANDOM, TRACED_COVERAGE
from detour.engine.tables import ActionProfile, CounterArray, MatchTable, MeterArray, RegisterArray, ValueSet

if TYPE_CHECKING:
    from detour.engine.compiler.program import Program

DEFAULT_TICK_PS = 1_000_000


class SwitchState:
    """Tables and arrays by the names in the JSON (which are those in P4Info).

    `sw` is the address that native functions take. `tick_ps` is the length of a tick, in which packets carry
    time; meters need it. Direct counters and meters belong to `tables`.
    """

    def __init__(self, program: Program, seed: int, tick_ps: int = DEFAULT_TICK_PS) -> None:
        self.program = program
        model, slots = program.model, program.slots
        self.block = zeros(slots.size, np.int64)
        self.sw: int = self.block.ctypes.data
        # A generator's state must not be 0; distinct seeds must give distinct states.
        self.block[RANDOM] = np.uint64((seed * 0x9E3779B97F4A7C15 + 1) & 0xFFFFFFFFFFFFFFFF).astype(np.int64)
        self.block[[COVERAGE, TRACED_COVERAGE]] = program.coverage.ctypes.data
        self.set_drop_port(phv.DROP_PORT)
        self.log: LogRing | None = None
        self._crcs: dict[str, NDArray[np.uint64]] = {}
        self.action_profiles = {
            name: ActionProfile(p, self.block, slots.profiles[name], model.actions)
            for name, p in model.profiles.items()
        }
        self.tables = {
            name: MatchTable(
                t,
                self.block,
                slots.tables[name],
                model.actions,
                self.action_profiles[t.profile.name] if t.profile else None,
                model.meters[t.direct_meter] if t.direct_meter else None,
                tick_ps,
            )
            for name, t in model.tables.items()
        }
        self.counters = {n: CounterArray(n, a.size) for n, a in model.counters.items() if not a.direct}
        self.meters = {n: MeterArray(n, a.size, a.unit, tick_ps) for n, a in model.meters.items() if not a.direct}
        self.registers = {n: RegisterArray(n, a.size, a.bits) for n, a in model.registers.items()}
        self.value_sets = {
            n: ValueSet(n, v["compressed_bitwidth"], v.get("max_size", 0), self.block, slots.value_sets[n])
            for n, v in model.value_sets.items()
        }
        for name, slot in slots.counters.items():
            self.block[slot] = self.counters[name].values.ctypes.data
        for name, slot in slots.meters.items():
            self.block[slot] = self.meters[name].rows.ctypes.data
        for name, slot in slots.registers.items():
            self.block[slot] = self.registers[name].memory.ctypes.data

    @property
    def changes(self) -> int:
        """The number of writes to tables and action profiles; what was read of them is true as long as it stays."""
        written = (*self.tables.values(), *self.action_profiles.values())
        return sum(each.changes for each in written)

    def set_crc(self, calculation: str, parameters: CrcParameters) -> None:
        """Set the parameters of a custom CRC; KeyError if the calculation is none."""
        slot = self.program.slots.custom_crcs[calculation]
        bits = CUSTOM_CRCS[self.program.model.calculations[calculation]["algo"]]
        self._crcs[calculation] = block = words(parameters, bits)
        self.block[slot] = block.ctypes.data

    def set_drop_port(self, port: int) -> None:
        """Set the port that drops: what `mark_to_drop` writes, and what egress begins beside."""
        self.block[DROP_PORT_SLOT] = port

    @property
    def now(self) -> int:
        """The latest time, in ticks, that a packet brought."""
        return int(self.block[NOW])

    def enable_log(self) -> LogRing:
        """Begin to record log_msg() calls; see `LogRing.drain`."""
        if self.log is None:
            self.log = LogRing(self.program.log_formats)
            self.block[LOG] = self.log.address
        return self.log

    def share_register(self, name: str, owner: SwitchState) -> None:
        """Make this switch use the register array `name` of another one that runs the same program.

        For what an ideal control plane would know at once everywhere, such as the loads of a group's links."""
        self.registers[name] = owner.registers[name]
        self.block[self.program.slots.registers[name]] = owner.registers[name].memory.ctypes.data

    def set_port_state(self, port: int, up: bool) -> None:
        """Tell selectors that a port went up or down: members that watch it are skipped while it is down."""
        for profile in self.action_profiles.values():
            profile.set_port_state(port, up)
