# SPDX-License-Identifier: Apache-2.0
"""Where a program's headers and fields are in the PHV.

After the fixed part: whose layout this is (`tag`), a byte for every header or stack that was written to (`touched`);
validity bytes of all headers, `next` counters of stacks, lengths of variable-length fields, flags; metadata; headers;
a scratch header that takes writes through an index out of bounds.

PHVs are used again and again, by all programs of a fabric. Headers that were not touched hold zeros still, and the
parser need not clear them: packets leave most of a PHV alone, and what is left alone takes no room in the
processor's cache.

Variables of the parser or a single pipeline (`temporaries`) have no place there: they have offsets from `TEMPORARY` on,
which `context.Context` takes for memory of the function, and the optimiser makes registers of them.

Headers of a stack lie side by side, fields and validity bytes alike, so that an index is a multiplication.
A signed field keeps one bit more than its width: BMv2 does not bring values between 2^(W-1) and 2^W-1 back
into the signed range, and the difference shows in comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass

from detour.engine import phv
from detour.engine.compiler.model import FieldSpec, Header, HeaderType, Model
from detour.engine.compiler.temporaries import SCALARS, temporaries


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """A field's memory: `size` bytes at `offset`, of which `bits` count (one more than the width if signed).

    A variable-length field is `size` raw bytes in network order; `length` is where its length in bits is.
    """

    offset: int
    size: int
    bits: int
    spec: FieldSpec
    length: int = -1

    @property
    def align(self) -> int:
        """Guaranteed alignment (a PHV begins at a multiple of 8)."""
        return min(self.size & -self.size, self.offset & -self.offset or 8, 8)


_TAG_BYTES = 8
TEMPORARY = 1 << 24
"""Where offsets of what is not in the PHV begin."""


def container(bits: int) -> int:
    """Bytes for an integer: 1, 2, 4 or a multiple of 8."""
    return next((n for n in (1, 2, 4, 8) if bits <= 8 * n), (bits + 63) // 64 * 8)


def _align(offset: int, to: int) -> int:
    return (offset + to - 1) // to * to


class HeaderLayout:
    """Field offsets within a header of some type."""

    def __init__(self, kind: HeaderType) -> None:
        self.offsets: dict[str, int] = {}
        self.lengths: dict[str, int] = {}
        sizes = {f.name: f.bits // 8 if f.variable else container(f.bits + f.signed) for f in kind.fields}
        self.sizes = sizes
        at = 0
        for f in sorted(kind.fields, key=lambda f: (f.variable, -min(sizes[f.name], 8))):
            at = _align(at, 1 if f.variable else min(sizes[f.name], 8))
            if f.variable:
                at = _align(at, 4)
                self.lengths[f.name] = at
                at += 4
            self.offsets[f.name] = at
            at += sizes[f.name]
        self.size = _align(at, 8)


class Layout:
    """The PHV of a program."""

    def __init__(self, model: Model) -> None:
        self._shapes = {h.type.name: HeaderLayout(h.type) for h in model.headers.values()}
        self.frames = {name: HeaderLayout(HeaderType(name, fields)) for name, fields in temporaries(model).items()}
        if self.frames:
            self._leave_out(model.headers[SCALARS].type)
        self.valid: dict[str, int] = {}
        self.next: dict[str, int] = {}
        self.base: dict[str, int] = {}
        order = self._order(model)
        self.units = self._units(model)
        self.unit_of = {name: number for number, unit in enumerate(self.units) for name in unit}
        self.tag = phv.FIXED_SIZE
        self.touched = self.tag + _TAG_BYTES
        at = self.flags = self.touched + len(self.units)
        for h in order:
            if not h.metadata:
                self.valid[h.name] = at
                at += 1
        self.scratch_valid = at
        at = _align(at + 1, 4)
        for name in [*model.stacks, *model.union_stacks]:
            self.next[name] = at
            at += 4
        self.drop_flag = at  # truncate(0) leaves nothing to send
        self.trace = at + 1  # 24 bits: number of the trace that traced code writes of this packet, 0 = none
        at = _align(at + 4, 8)
        self.metadata = at
        for h in order:
            if h.metadata and h.name != "standard_metadata":
                self.base[h.name] = at
                at += self.shape(h.type).size
        self.headers = at
        for h in order:
            if not h.metadata:
                self.base[h.name] = at
                at += self.shape(h.type).size
        self.scratch = at
        at += max((s.size for s in self._shapes.values()), default=0)
        self.size = _align(at, 64)

    def _leave_out(self, scalars: HeaderType) -> None:
        """Temporaries take no room among the metadata."""
        apart = {name for frame in self.frames.values() for name in frame.offsets}
        kept = tuple(f for f in scalars.fields if f.name not in apart)
        self._shapes[scalars.name] = HeaderLayout(HeaderType(scalars.name, kept))

    @staticmethod
    def _units(model: Model) -> list[tuple[str, ...]]:
        """Names of the headers that are cleared together: those of a stack, and every other one by itself."""
        units = [tuple(h.name for h in stack.headers) for stack in model.stacks.values()]
        units += [tuple(h.name for u in ustack.unions for h in u.headers) for ustack in model.union_stacks.values()]
        among = {name for unit in units for name in unit}
        return units + [(name,) for name, h in model.headers.items() if name not in among and not h.metadata]

    def unit_memory(self, model: Model, unit: int) -> tuple[int, int]:
        """Offset and size of the fields of a unit's headers, which lie side by side."""
        first = min(self.base[name] for name in self.units[unit])
        size = sum(self.shape(model.headers[name].type).size for name in self.units[unit])
        return first, size

    @staticmethod
    def _order(model: Model) -> list[Header]:
        """Members of stacks first and side by side, then the rest."""
        names: dict[str, Header] = {}
        for stack in model.stacks.values():
            names.update({h.name: h for h in stack.headers})
        for ustack in model.union_stacks.values():
            names.update({h.name: h for u in ustack.unions for h in u.headers})
        names.update({n: h for n, h in model.headers.items() if n not in names})
        return list(names.values())

    def shape(self, kind: HeaderType) -> HeaderLayout:
        """Field offsets of a header type."""
        return self._shapes[kind.name]

    def place(self, header: Header, spec: FieldSpec) -> FieldPlace:
        """Memory of a field of a header instance."""
        if header.name == "standard_metadata":
            if spec.name in phv.STANDARD_FIELDS:
                offset, size = phv.STANDARD_FIELDS[spec.name]
                return FieldPlace(offset, size, spec.bits, spec)
            # Padding that p4c adds: nobody reads it.
            return FieldPlace(self.scratch, container(spec.bits), spec.bits, spec)
        for frame in self.frames.values() if header.name == SCALARS else ():
            if spec.name in frame.offsets:
                offset, size = frame.offsets[spec.name], frame.sizes[spec.name]
                return FieldPlace(TEMPORARY + offset, size, spec.bits + spec.signed, spec)
        return self.place_in(self.base[header.name], header.type, spec)

    def place_in(self, base: int, kind: HeaderType, spec: FieldSpec) -> FieldPlace:
        """Memory of a field of a header that begins at `base`."""
        shape = self.shape(kind)
        length = base + shape.lengths[spec.name] if spec.variable else -1
        offset, size = base + shape.offsets[spec.name], shape.sizes[spec.name]
        return FieldPlace(offset, size, spec.bits + spec.signed, spec, length)
