# SPDX-License-Identifier: Apache-2.0
"""Random packets for any program: walks along its parser, so that they get deep, then mutates some of them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

Frame = tuple[int, bytes]
PORTS = (1, 2, 3, 4)
CPU_PORT = 510
MAX_STEPS = 24
MAX_BYTES = 600


class Pool:
    """Values by width. Packets and table entries draw from the same few, so that keys match often enough."""

    def __init__(self, program: Mapping[str, Any], rng: random.Random) -> None:
        self._rng = rng
        self._constants = sorted(set(_constants(program)))
        self._values: dict[int, list[int]] = {}

    def values(self, width: int) -> list[int]:
        """The favourites among the values of a width."""
        if width not in self._values:
            top = 1 << width
            few = {0, 1, 2, 3, top - 1, top >> 1, self._rng.randrange(top), self._rng.randrange(top)}
            few |= {c for c in self._constants if c < top}
            self._values[width] = sorted(v for v in few if v < top)
        return self._values[width]

    def draw(self, width: int) -> int:
        """A favourite mostly, else a small or any value."""
        kind = self._rng.random()
        if kind < 0.6:
            return self._rng.choice(self.values(width))
        if kind < 0.8:
            return self._rng.randrange(min(1 << width, 16))
        return self._rng.randrange(1 << width)


def _constants(node: Any) -> list[int]:
    """Every constant in the program, but for source positions."""
    constants: list[int] = []
    if isinstance(node, dict):
        if node.get("type") == "hexstr" and isinstance(node.get("value"), str):
            constants.append(abs(int(node["value"], 16)))
        for key, child in node.items():
            if key != "source_info":
                constants += _constants(child)
    elif isinstance(node, list):
        for child in node:
            constants += _constants(child)
    return [c for c in constants if c < 1 << 128]


class PacketMaker:
    """Makes frames for one program."""

    def __init__(self, program: Mapping[str, Any], pool: Pool, rng: random.Random) -> None:
        self._rng = rng
        self._pool = pool
        types = {t["name"]: t["fields"] for t in program["header_types"]}
        self._fields = {h["name"]: types[h["header_type"]] for h in program["headers"]}
        for stack in program["header_stacks"]:
            self._fields[stack["name"]] = types[stack["header_type"]]
        unions = {u["name"]: dict(u["headers"]) for u in program["header_union_types"]}
        self._union_stacks = {
            s["name"]: {member: types[kind] for member, kind in unions[s["union_type"]].items()}
            for s in program["header_union_stacks"]
        }
        parser = program["parsers"][0]
        self._states = {s["name"]: s for s in parser["parse_states"]}
        self._start = parser["init_state"]

    def frame(self) -> Frame:
        """The next frame."""
        walk = _Walk(self._rng, self._pool)
        state = self._start
        for _ in range(MAX_STEPS):
            if state is None or len(walk.bits) > MAX_BYTES * 8:
                break
            state = self._visit(walk, self._states[state])
        data = walk.bytes() + bytes(i & 0xFF for i in range(self._rng.choice((0, 0, 1, 2, 5, 16, 40))))
        return walk.port, mutate(data, self._rng) or b"\0"

    def _visit(self, walk: _Walk, state: Mapping[str, Any]) -> str | None:
        for op in state["parser_ops"]:
            self._operate(walk, op)
        transitions = state["transitions"]
        choice = self._rng.choice(transitions) if transitions else {"next_state": None, "type": "default"}
        if choice["type"] == "hexstr":
            walk.force(state["transition_key"], int(choice["value"], 16), choice["mask"], self._width_of)
        return choice["next_state"]

    def _operate(self, walk: _Walk, op: Mapping[str, Any]) -> None:
        parameters = op["parameters"]
        if op["op"] in ("extract", "extract_VL"):
            kind, name = parameters[0]["type"], parameters[0]["value"]
            if kind == "union_stack":
                walk.extract(".".join(name), self._union_stacks[name[0]][name[1]])
            else:
                walk.extract(name, self._fields[name])
        elif op["op"] == "set" and parameters[1]["type"] == "lookahead":
            walk.look_ahead(".".join(parameters[0]["value"]), *parameters[1]["value"])
        elif op["op"] == "advance":
            walk.any_bits(8 * self._rng.randrange(4))

    def _width_of(self, header: str, field: str) -> int:
        return next(w for name, w, *_ in self._fields[header] if name == field)


class _Walk:
    """One packet in the making, bit by bit."""

    def __init__(self, rng: random.Random, pool: Pool) -> None:
        self._rng = rng
        self._pool = pool
        self.port = CPU_PORT if rng.random() < 0.04 else rng.choice(PORTS)
        self.bits: list[int] = []
        self._where: dict[str, tuple[int, int]] = {}
        self._ahead: dict[int, int] = {}

    def _append(self, value: int, width: int) -> None:
        at = len(self.bits)
        for i in range(width):
            bit = value >> (width - 1 - i) & 1
            self.bits.append(self._ahead.pop(at + i, bit))

    def any_bits(self, width: int) -> None:
        """Bits that nobody reads."""
        self._append(self._rng.getrandbits(width) if width else 0, width)

    def extract(self, header: str, fields: list[list[Any]]) -> None:
        """The fields of a header; a varbit has any length up to its greatest."""
        for name, width, *_ in fields:
            if width == "*":
                self.any_bits(8 * self._rng.choice((0, 1, 2, 4, 8, 16)))
                continue
            self._where[f"{header}.{name}"] = (len(self.bits), width)
            self._append(self._pool.draw(width), width)

    def look_ahead(self, variable: str, offset: int, width: int) -> None:
        """A variable will hold bits that come later."""
        self._where[variable] = (len(self.bits) + offset, width)

    def force(self, key: list[Mapping[str, Any]], value: int, mask: str | None, width_of: Any) -> None:
        """Makes the fields of a transition key what leads to the transition, where the packet decides them."""
        widths = [self._key_width(k, width_of) for k in key]
        care = int(mask, 16) if mask else -1
        for part, width in zip(reversed(key), reversed(widths), strict=True):
            self._put(part, width, value, care)
            padded = (width + 7) // 8 * 8
            value, care = value >> padded, care >> padded

    def _key_width(self, part: Mapping[str, Any], width_of: Any) -> int:
        if part["type"] == "lookahead":
            return part["value"][1]
        return width_of(*part["value"])

    def _put(self, part: Mapping[str, Any], width: int, value: int, care: int) -> None:
        value &= (1 << width) - 1
        if part["value"] == ["standard_metadata", "ingress_port"]:
            self.port = value
            return
        if part["type"] == "lookahead":
            place = (len(self.bits) + part["value"][0], width)
        else:
            place = self._where.get(".".join(part["value"]), (-1, width))
        if place[0] < 0:
            return
        for i in range(width):
            if care >> (width - 1 - i) & 1:
                bit, at = value >> (width - 1 - i) & 1, place[0] + i
                if at < len(self.bits):
                    self.bits[at] = bit
                else:
                    self._ahead[at] = bit

    def bytes(self) -> bytes:
        """The packet so far; bits that were looked at ahead are in it."""
        while self._ahead:
            self.any_bits(1)
        self.any_bits(-len(self.bits) % 8)
        return int("1" + "".join(map(str, self.bits)), 2).to_bytes(len(self.bits) // 8 + 1, "big")[1:]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Mostly nothing; else cut, flipped, grown or replaced."""
    kind = rng.random()
    if kind < 0.70 or not data:
        return data
    if kind < 0.82:
        return data[: rng.randrange(len(data) + 1)]
    if kind < 0.93:
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 5)):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    if kind < 0.97:
        return data + rng.randbytes(rng.randrange(1, 30))
    return rng.randbytes(rng.randrange(1, 60))
