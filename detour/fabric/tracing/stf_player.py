# SPDX-License-Identifier: Apache-2.0
"""Plays a file of STF on a switch: every packet is traced, and what comes out is compared with what was expected.

As in p4c's tests the frames of a port are compared, in their order, with the `expect`s of that port, wherever these
stand in the file, and ports that no `packet` and no `expect` names are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from detour.base.errors import DetourError
from detour.base.records import as_json
from detour.engine.bmv2api.commands.errors import CommandError, error_line
from detour.engine.bmv2api.commands.interpreter import program_of
from detour.engine.bmv2api.commands.program import NamedProfile
from detour.engine.bmv2api.commands.registry import COMMANDS, CommandScope
from detour.engine.bmv2api.interface import Api
from detour.engine.bmv2api.types import CounterValue
from detour.engine.bmv2api.wire import ServiceError
from detour.fabric.tracing import stf
from detour.fabric.tracing.results import TracedPacket
from detour.fabric.tracing.stf_names import add_command, by_suffix, default_command

_WAIT_PS = 10**12
"""`wait`: a second. Packets need no time, but entries age and meters fill."""


@dataclass(slots=True)
class StfPlayed:
    """A packet that was sent, and what became of it."""

    line: int
    port: int
    frame: bytes
    traced: TracedPacket

    def outputs(self) -> list[tuple[int, bytes]]:
        """(port, frame) of all that came out; nothing can be seen of an empty frame."""
        packets = [packet for ending in self.traced.outcomes for packet in ending.packets]
        return [(packet.port, packet.frame) for packet in packets if packet.frame]

    def as_json(self) -> dict[str, Any]:
        return {"line": self.line, "port": self.port, "hex": self.frame.hex(), **self.traced.as_json()}


class StfMismatch(Struct, frozen=True):
    """A difference from the file's expectation, with its line."""

    line: int
    text: str


class StfSaid(Struct, frozen=True):
    """The output of a command."""

    line: int
    command: str
    output: list[str]


@dataclass(slots=True)
class StfRun:
    """The result of playing a file. `expected`: number of expectations; `unchecked`: frames that left by ports that the
    file does not name."""

    packets: list[StfPlayed] = field(default_factory=list)
    commands: list[StfSaid] = field(default_factory=list)
    mismatches: list[StfMismatch] = field(default_factory=list)
    expected: int = 0
    unchecked: int = 0

    def as_json(self) -> dict[str, Any]:
        """The document of docs/trace.md."""
        return {
            "packets": [each.as_json() for each in self.packets],
            "commands": as_json(self.commands),
            "mismatches": as_json(self.mismatches),
            "expected": self.expected,
            "unchecked": self.unchecked,
        }


class StfSwitch(Protocol):
    """The switch that a file is played on: `TracedProgram`, or anything else that takes a packet and returns the
    outcome."""

    @property
    def api(self) -> Api:
        """For entries and counters."""
        ...

    def trace(self, frame: bytes, port: int) -> TracedPacket:
        """Send a frame in by a port; what became of it."""
        ...

    def wait(self, duration_ps: int) -> None:
        """Let time pass."""
        ...


def stf_ports(statements: Iterable[stf.StfStatement]) -> set[int]:
    """The ports that a file names."""
    return {each.port for each in statements if isinstance(each, stf.StfPacket | stf.StfExpect)}


def play_stf(path: Path, statements: Sequence[stf.StfStatement], switch: StfSwitch) -> StfRun:
    """Carry statements out, one after the other. `path`: what errors call the file. Raises DetourError: `FILE:LINE:
    ...`, a statement that does not fit the program or that the switch refuses."""
    player = _Player(switch)
    for statement in statements:
        try:
            player.carry_out(statement)
        except ServiceError as error:
            raise DetourError(f"{path}:{statement.line}: {error_line(error)}") from None
        except DetourError as error:
            reason = error.reason if isinstance(error, CommandError) else error
            raise DetourError(f"{path}:{statement.line}: {reason}") from None
    player.compare(statements)
    return player.run


class _Player:
    def __init__(self, switch: StfSwitch) -> None:
        self.run = StfRun()
        self._switch = switch
        self._api: Api = switch.api
        self._program = program_of(self._api)
        self._scope = CommandScope(self._program)
        self._entries: dict[str, tuple[str, int]] = {}
        self._groups: dict[tuple[str, ...], str] = {}  # of entries, by table, key and priority

    def carry_out(self, statement: stf.StfStatement) -> None:
        match statement:
            case stf.StfPacket():
                packet = self._switch.trace(statement.frame, statement.port)
                self.run.packets.append(StfPlayed(statement.line, statement.port, statement.frame, packet))
            case stf.StfAdd():
                self._add(statement)
            case stf.StfDefault():
                self._command(default_command(statement, self._program))
            case stf.StfRemove():
                self._remove(statement.name)
            case stf.StfCommand():
                lines = self._command(statement.words)
                self.run.commands.append(StfSaid(statement.line, statement.text, lines))
            case stf.StfCheckCounter():
                self._check(statement)
            case stf.StfNoPacket():
                self._no_packet(statement)
            case stf.StfWait():
                self._switch.wait(_WAIT_PS)
            case _:
                pass

    def _command(self, words: Sequence[str]) -> list[str]:
        lines: list[str] = []
        COMMANDS[words[0]].understand(list(words[1:]), self._scope)(self._api, lines.append)
        return lines

    # -- entries

    def _add(self, statement: stf.StfAdd) -> None:
        if statement.name in self._entries:
            raise DetourError(f"there is an entry {statement.name} already")
        words = add_command(statement, self._program)
        profile = self._program.tables[words[1]].profile
        if profile is not None:
            pointing = self._pointing(words, profile)
            if pointing is None:
                return
            words = pointing
        handle = self._handle(words)
        if statement.name is not None:
            self._entries[statement.name] = words[1], int(handle)

    def _handle(self, words: Sequence[str]) -> str:
        """Carry a command out that makes something, and return its handle."""
        return next(line.rsplit(" ", 1)[-1] for line in self._command(words) if " with handle " in line)

    def _pointing(self, words: list[str], profile: NamedProfile) -> list[str] | None:
        """The command for an entry of a table with an action profile: makes the member that it points to, and a group
        of that one if the profile has groups. None: there was an entry with this key, whose group now has the member
        too."""
        arrow = words.index("=>")
        _, table, action, *key = words[:arrow]
        params = len(profile.actions[action].params)
        arguments, priority = words[arrow + 1 : arrow + 1 + params], words[arrow + 1 + params :]
        member = self._handle(["act_prof_create_member", profile.name, action, *arguments])
        if not profile.with_selection:
            return ["table_indirect_add", table, *key, "=>", member, *priority]
        place = (table, *key, *priority)
        group = self._groups.get(place) or self._handle(["act_prof_create_group", profile.name])
        self._command(["act_prof_add_member_to_group", profile.name, member, group])
        if place in self._groups:
            return None
        self._groups[place] = group
        return ["table_indirect_add_with_group", table, *key, "=>", group, *priority]

    def _remove(self, name: str | None) -> None:
        if name is None:
            for table in self._program.tables:
                self._api.standard.bm_mt_clear_entries(table, False)
            self._entries.clear()
            self._groups.clear()
            return
        table, handle = self._entry(name)
        self._api.standard.bm_mt_delete_entry(table, handle)
        del self._entries[name]

    def _entry(self, name: str) -> tuple[str, int]:
        if name not in self._entries:
            raise DetourError(f"no entry was added as {name}")
        return self._entries[name]

    # -- checks

    def _check(self, statement: stf.StfCheckCounter) -> None:
        counter = self._counter(statement)
        text = f"{counter.packets} packets, {counter.bytes} bytes"
        if statement.unit is None:
            self.run.commands.append(StfSaid(statement.line, statement.text, [text]))
            return
        self.run.expected += 1
        value = counter.packets if statement.unit == "packets" else counter.bytes
        if not statement.holds(value):
            condition = f"{statement.unit} {statement.condition} {statement.expected}"
            self._mismatch(statement.line, f"counter {statement.counter}({statement.index}): {text}, not {condition}")

    def _counter(self, statement: stf.StfCheckCounter) -> CounterValue:
        counter = by_suffix("counter", statement.counter, self._program.counters)
        if counter.table is None:
            if isinstance(statement.index, str):
                raise DetourError(f"{counter.name} is not a direct counter: it has indices, not entries")
            return self._api.standard.bm_counter_read(counter.name, statement.index)
        if not isinstance(statement.index, str):
            return self._api.standard.bm_mt_read_counter(counter.table, statement.index)
        table, handle = self._entry(statement.index)
        if table != counter.table:
            raise DetourError(f"{counter.name} counts entries of {counter.table}; {statement.index} is one of {table}")
        return self._api.standard.bm_mt_read_counter(table, handle)

    def _no_packet(self, statement: stf.StfNoPacket) -> None:
        if not self.run.packets:
            raise DetourError("no packet was sent before")
        self.run.expected += 1
        before = self.run.packets[-1]
        for port, frame in before.outputs():
            self._mismatch(statement.line, f"nothing should come of line {before.line}; port {port}: {frame.hex()}")

    def compare(self, statements: Iterable[stf.StfStatement]) -> None:
        """Compare, port by port, when all is done."""
        named = stf_ports(statements)
        came: dict[int, list[tuple[int, bytes]]] = {port: [] for port in named}
        for played in self.run.packets:
            for port, frame in played.outputs():
                came.setdefault(port, []).append((played.line, frame))
        self.run.unchecked = sum(len(frames) for port, frames in came.items() if port not in named)
        expects = [each for each in statements if isinstance(each, stf.StfExpect)]
        self.run.expected += len(expects)
        for port in sorted(named):
            of_port = [each for each in expects if each.port == port]
            for expect, frame in zip_longest(of_port, came[port]):
                self._compare_one(port, expect, frame)
        self.run.mismatches.sort(key=lambda each: each.line)

    def _compare_one(self, port: int, expect: stf.StfExpect | None, frame: tuple[int, bytes] | None) -> None:
        if expect is None and frame is not None:
            self._mismatch(frame[0], f"a frame that is not expected left by port {port}: {frame[1].hex()}")
        elif frame is None and expect is not None:
            self._mismatch(expect.line, f"no frame left by port {port}, where {expect.digits or 'one'} is expected")
        elif expect is not None and frame is not None:
            wrong = _difference(expect, frame[1].hex())
            if wrong:
                self._mismatch(expect.line, f"port {port}, of line {frame[0]}: {wrong}; it is {frame[1].hex()}")

    def _mismatch(self, line: int, text: str) -> None:
        self.run.mismatches.append(StfMismatch(line, text))


def _difference(expect: stf.StfExpect, came: str) -> str | None:
    """Describe the difference."""
    expected = expect.digits or ""
    if len(came) < len(expected):
        return f"{len(came)} digits of {len(expected)} that are expected"
    if expect.exact and len(came) > len(expected):
        return f"{len(came)} digits, and no more than {len(expected)} are expected"
    at = next((i for i, digit in enumerate(expected) if digit not in ("*", came[i])), None)
    if at is None:
        return None
    byte = slice(at & ~1, (at | 1) + 1)
    return f"byte {at // 2} is {came[byte]}, not {expected[byte]}"
