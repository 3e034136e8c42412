# SPDX-License-Identifier: Apache-2.0
"""A generated test: what is written into the switch, packets, and what must come out; and its text in STF."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from detour.fabric.tracing.stf import stf_name


@dataclass(frozen=True)
class Match:
    """A component of an entry's key. `kind`: as in BMv2 JSON, where optional is ternary; `extent`: the length of a
    prefix, a mask, or the last value of a range."""

    field: str
    kind: str
    value: int
    bits: int
    extent: int


@dataclass(frozen=True)
class Entry:
    """An entry of a table. `priority`: of those that match, the highest wins; None: the table's have none."""

    table: str
    key: tuple[Match, ...]
    action: str
    arguments: tuple[tuple[str, int], ...]
    priority: int | None

    def match_key(self) -> tuple[Any, ...]:
        """The key as `ConstEntry` has it."""
        return tuple(m.value if m.kind == "exact" else (m.value, m.extent) for m in self.key)


@dataclass(frozen=True)
class Default:
    """A default action that is set."""

    table: str
    action: str
    arguments: tuple[tuple[str, int], ...]


RATES = ("", "1:0 1:1000000", "1:0 1:0")
"""with which a meter has each colour: tokens for nothing, or for what is not too much"""


@dataclass(frozen=True)
class Setting:
    """A value that is set beforehand. `of`: "register", "meter", "member" of a value set, or what the switch copies
    for, a multicast "group" or a clone "session". `at`: an index, a number, or the member; `value`: of a register, a
    meter's colour, a port, or for a group the copy's number in front of the 9 bits of the port."""

    of: str
    name: str
    at: int
    value: int

    @property
    def port(self) -> int:
        """By which a copy leaves."""
        return self.value & 0x1FF

    @property
    def copy(self) -> int:
        """The number of a copy of a group."""
        return self.value >> 9

    def as_json(self) -> dict[str, Any]:
        match self.of:
            case "group":
                return {"group": self.at, "copy": self.copy, "port": self.port}
            case "session":
                return {"session": self.at, "port": self.port}
            case "meter":
                return {"name": self.name, "index": self.at, "rates": RATES[self.value]}
            case "member":
                return {"name": self.name, "value": hex(self.at)}
        return {"name": self.name, "index": self.at, "value": hex(self.value)}

    def stf(self, number: int) -> list[str]:
        """Statements. `number`: of groups that were set before."""
        at, value, name = self.at, self.value, stf_name(self.name)
        group = [f"mc_mgrp_create {at}", f"mc_node_create {self.copy} {self.port}", f"mc_node_associate {at} {number}"]
        return {
            "group": group,
            "session": [f"mirroring_add {at} {self.port}"],
            "meter": [f"meter_set_rates {name} {at} {RATES[value]}" if self.of == "meter" else ""],
            "member": [f"pvs_add {name} {at}"],
            "register": [f"register_write {name} {at} {value}"],
        }[self.of]


@dataclass(frozen=True)
class Expected:
    """A packet that must come out; where `mask` has zeros, the program leaves the bits undefined."""

    port: int
    frame: bytes
    mask: bytes

    @property
    def digits(self) -> str:
        """The digits of the frame, `*` where a bit of one is not defined."""
        digits = zip(self.frame.hex(), self.mask.hex(), strict=True)
        return "".join(digit if known == "f" else "*" for digit, known in digits)


@dataclass(frozen=True)
class Packet:
    """A packet that is sent, and what must come out. `way`: the parser states through which it goes."""

    port: int
    frame: bytes
    expected: tuple[Expected, ...] = ()
    way: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        expected = [{"port": each.port, "hex": each.digits} for each in self.expected]
        return {"port": self.port, "hex": self.frame.hex(), "expected": expected}

    def stf(self, expect: bool) -> list[str]:
        """Statements. `expect`: with what must come out."""
        lines = [f"expect {each.port} {each.digits} $" for each in self.expected] or ["no_packet"]
        return [f"packet {self.port} {self.frame.hex()}", *(lines if expect else [])]


SETTINGS = ("register", "meter", "member", "group", "session")


@dataclass
class Test:
    """`packets` are sent one after the other. `covers`: places that it was made for; `path`: of the only packet, see
    `Execution.path`."""

    __test__ = False

    packets: tuple[Packet, ...]
    entries: list[Entry] = field(default_factory=list)
    defaults: list[Default] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    covers: list[str] = field(default_factory=list)
    path: tuple[Any, ...] = ()

    def value_of(self, of: str, name: str, at: int | None) -> int | None:
        """The value of a setting; `at` None: wherever it is."""
        for each in self.settings:
            if (each.of, each.name) == (of, name) and at in (None, each.at):
                return each.value
        return None

    def of(self, what: str) -> list[Setting]:
        """The settings of one kind."""
        return [each for each in self.settings if each.of == what]

    def as_json(self) -> dict[str, Any]:
        """As `detour test --json` prints it."""
        return {
            "covers": self.covers,
            "entries": [_call(e) | {"key": {m.field: _value(m) for m in e.key}} for e in self.entries],
            "defaults": [_call(each) for each in self.defaults],
            **{f"{of}s": [s.as_json() for s in self.of(of)] for of in SETTINGS},
            "packets": [each.as_json() for each in self.packets],
        }

    def setup(self) -> list[str]:
        """The statements of STF in front of the packets."""
        lines = [_add(entry) for entry in self.entries]
        lines += [f"setdefault {stf_name(each.table)} {_action(each)}" for each in self.defaults]
        lines += [line for of in SETTINGS for at, each in enumerate(self.of(of)) for line in each.stf(at)]
        return lines

    def stf(self, expect: bool = True) -> str:
        """As a file of STF. `expect`: with what must come out."""
        lines = [*(f"# {place}" for place in self.covers), *self.setup()]
        lines += [line for packet in self.packets for line in packet.stf(expect)]
        return "\n".join(lines) + "\n"


def _call(each: Entry | Default) -> dict[str, Any]:
    arguments = {name: hex(value) for name, value in each.arguments}
    return {"table": each.table, "action": each.action, "arguments": arguments}


def _action(each: Entry | Default) -> str:
    arguments = ", ".join(f"{stf_name(name)}:{value}" for name, value in each.arguments)
    return f"{stf_name(each.action)}({arguments})"


def _add(entry: Entry) -> str:
    priority = "" if entry.priority is None else f"{entry.priority} "
    return f"add {stf_name(entry.table)} {priority}{' '.join(map(_match, entry.key))} {_action(entry)}"


def _match(match: Match) -> str:
    return f"{stf_name(match.field)}:{_value(match)}"


def _value(match: Match) -> str:
    digits = f"{match.value:0{(match.bits + 3) // 4}x}"
    if match.kind == "ternary":
        masks = f"{match.extent:0{len(digits)}x}"
        digits = "".join("*" if mask == "0" else digit for digit, mask in zip(digits, masks, strict=True))
    more = {"lpm": f"/{match.extent}", "range": f"..0x{match.extent:x}"}.get(match.kind, "")
    return f"0x{digits}{more}"
