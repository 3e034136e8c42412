# SPDX-License-Identifier: Apache-2.0
"""A generated test: what is written into the switch, a packet, and what must come out; and its text in STF."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Match:
    """A component of an entry's key, which matches one value exactly. `kind`: as in BMv2 JSON."""

    field: str
    kind: str
    value: int
    bits: int


@dataclass(frozen=True)
class Entry:
    """An entry of a table. `prioritised`: its table's entries have priorities."""

    table: str
    key: tuple[Match, ...]
    action: str
    arguments: tuple[tuple[str, int], ...]
    prioritised: bool


@dataclass(frozen=True)
class Default:
    """A default action that is set."""

    table: str
    action: str
    arguments: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Register:
    """A register that is set beforehand."""

    array: str
    index: int
    value: int


@dataclass(frozen=True)
class Copy:
    """What the switch makes a copy for: a multicast group or a clone session. `of`: "group" or "session"."""

    of: str
    number: int
    copy: int
    port: int


@dataclass(frozen=True)
class Packet:
    """A packet that is sent."""

    port: int
    frame: bytes


@dataclass(frozen=True)
class Expected:
    """A packet that must come out; where `mask` has zeros, the program leaves the bits undefined."""

    port: int
    frame: bytes
    mask: bytes


@dataclass
class Test:
    """`way`: the parser states through which the packet goes. `covers`: places that it was made for."""

    way: tuple[str, ...]
    entries: list[Entry]
    defaults: list[Default]
    registers: list[Register]
    copies: list[Copy]
    packet: Packet
    expected: list[Expected]
    covers: list[str] = field(default_factory=list)

    def _of(self, what: str) -> list[Copy]:
        return [each for each in self.copies if each.of == what]

    def as_json(self) -> dict[str, Any]:
        """As `detour test --json` prints it."""
        return {
            "covers": self.covers,
            "entries": [_call(e) | {"key": {m.field: hex(m.value) for m in e.key}} for e in self.entries],
            "defaults": [_call(each) for each in self.defaults],
            "registers": [{"name": r.array, "index": r.index, "value": hex(r.value)} for r in self.registers],
            "groups": [{"group": c.number, "copy": c.copy, "port": c.port} for c in self._of("group")],
            "sessions": [{"session": c.number, "port": c.port} for c in self._of("session")],
            "packets": [{"port": self.packet.port, "hex": self.packet.frame.hex()}],
            "expected": [{"port": e.port, "hex": masked_digits(e)} for e in self.expected],
        }

    def stf(self, expect: bool = True) -> str:
        """As a file of STF. `expect`: with what must come out."""
        lines = [f"# {place}" for place in self.covers]
        lines += [_add(entry) for entry in self.entries]
        lines += [f"setdefault {each.table} {_action(each)}" for each in self.defaults]
        lines += [f"register_write {r.array} {r.index} {r.value}" for r in self.registers]
        lines += [f"mirroring_add {c.number} {c.port}" for c in self._of("session")]
        for number, group in enumerate(self._of("group")):
            lines.append(f"mc_mgrp_create {group.number}")
            lines.append(f"mc_node_create {group.copy} {group.port}")
            lines.append(f"mc_node_associate {group.number} {number}")
        lines.append(f"packet {self.packet.port} {self.packet.frame.hex()}")
        if expect:
            lines += [f"expect {each.port} {masked_digits(each)} $" for each in self.expected]
            lines += [] if self.expected else ["no_packet"]
        return "\n".join(lines) + "\n"


def masked_digits(expected: Expected) -> str:
    """The digits of a frame, `*` where a bit of one is not defined."""
    digits = zip(expected.frame.hex(), expected.mask.hex(), strict=True)
    return "".join(digit if known == "f" else "*" for digit, known in digits)


def _call(each: Entry | Default) -> dict[str, Any]:
    arguments = {name: hex(value) for name, value in each.arguments}
    return {"table": each.table, "action": each.action, "arguments": arguments}


def _action(each: Entry | Default) -> str:
    return f"{each.action}({', '.join(f'{name}:{value}' for name, value in each.arguments)})"


def _add(entry: Entry) -> str:
    priority = "1 " if entry.prioritised else ""
    return f"add {entry.table} {priority}{' '.join(map(_match, entry.key))} {_action(entry)}"


def _match(match: Match) -> str:
    digits = f"0x{match.value:0{(match.bits + 3) // 4}x}"
    return f"{match.field}:{digits}" + (f"/{match.bits}" if match.kind == "lpm" else "")
