# SPDX-License-Identifier: Apache-2.0
"""Packets that start over, and clones: the bytes that are parsed again, and what is kept of metadata."""

from __future__ import annotations

from dataclasses import dataclass, field

from detour.base.structs import offsets
from detour.engine import phv
from detour.engine.compiler.ir import Value, const
from detour.engine.compiler.load import find_field
from detour.testgen.context import SymbolicContext
from detour.testgen.state import State, z3
from detour.testgen.terms import concatenated, folded, from_vector, term_of, vector_of

_STAY = (phv.LENGTH_REGISTER, phv.INGRESS_LENGTH)
"""what a clone keeps of the fixed part of the PHV"""


@dataclass
class Packet:
    """A packet that is parsed. `parts`: variables for what was read of it, one behind the other; or, if the packet has
    been through the switch, its headers, behind which `origin` goes on from bit `start`."""

    parts: list[Value] = field(default_factory=list)
    origin: Packet | None = None
    start: int = 0

    @property
    def bits(self) -> int:
        return sum(part.bits for part in self.parts)

    def copy(self) -> Packet:
        return Packet(list(self.parts), self.origin, self.start)

    def read(self, ctx: SymbolicContext, at: int, bits: int, name: str) -> Value:
        """The value of `bits` bits at a bit position, not far behind what was read before."""
        have = self.bits
        if self.origin is not None:
            inside = min(bits, max(0, have - at))
            pieces = self._between(at, at + inside)
            if inside < bits:
                pieces.append(self.origin.read(ctx, max(at, have) - have + self.start, bits - inside, name))
            return concatenated(pieces)
        if at > have:
            self.parts.append(ctx.variable("packet", at - have))
        if at + bits > max(at, have):
            self.parts.append(ctx.variable(name, at + bits - max(at, have)))
        return concatenated(self._between(at, at + bits))

    def rest(self, at: int) -> tuple[list[Value], int]:
        """The packet from a bit on: values, and from which byte of the one that was sent it goes on."""
        if self.origin is None:
            return [], at // 8
        have = self.bits
        values, byte = self.origin.rest(max(at, have) - have + self.start)
        return [*self._between(at, have), *values], byte

    def _between(self, first: int, end: int) -> list[Value]:
        pieces, start = [], 0
        for part in self.parts:
            low, high = max(first, start), min(end, start + part.bits)
            if low < high:
                below = start + part.bits - high
                pieces.append(part if high - low == part.bits else _cut(part, below, high - low))
            start += part.bits
        return pieces


def _cut(value: Value, below: int, bits: int) -> Value:
    if value.const is not None:
        return const(bits, value.const >> below)
    return from_vector(bits, z3.Extract(below + bits - 1, below, vector_of(value)))


def replicated(ctx: SymbolicContext, of: str, number: Value) -> tuple[Value, Value] | None:
    """Number and port of a copy for a multicast "group" or a clone "session", which the test chooses; None: it has no
    such group or session."""
    if ctx.given is not None and ctx.given.value_of(of, "", folded(number).const) is None:
        return None
    f, both = ctx.f, ctx.setting(of, "", number, 25 if of == "group" else 9)
    port = f.resize(both, 9)
    ctx.always(z3.ULT(term_of(port), phv.DROP_PORT))
    return f.resize(f.lshr(f.resize(both, 32), 9), 32), f.resize(port, 32)


def keep(ctx: SymbolicContext, before: State, fields: Value) -> None:
    """Make metadata zero where execution is but for the fields of a list, which are as in `before`. `fields`: the
    number of the list plus one."""
    f, here, values = ctx.f, ctx.f.state, {}
    f.state = before
    for item in ctx.model.json.get("field_lists") or ():
        chosen = f.compare("eq", fields, const(32, item["id"] + 1))
        for e in item["elements"]:
            if e["type"] == "field" and chosen.const != 0:
                ref = ctx.header(e["value"][0], e)
                spec = find_field(ref.header, e["value"][1], e)
                value = ctx.load_field(ref, spec)
                _, _, other = values.get(tuple(e["value"]), (ref, spec, const(value.bits, 0)))
                values[tuple(e["value"])] = ref, spec, f.select(chosen, value, other)
    f.state = here
    lost = {f.at("%phv", place) for place in offsets(phv.FixedPhv).values() if place not in _STAY}
    metadata = tuple(f"{name}." for name, header in ctx.model.headers.items() if header.metadata)
    for place in [each for each in here.memory if each in lost or each.startswith(metadata)]:
        del here.memory[place]
    for ref, spec, value in values.values():
        ctx.store_field(ref, spec, value)
