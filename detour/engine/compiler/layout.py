# SPDX-License-Identifier: Apache-2.0
"""Layout of a program's headers and fields in the PHV.

After the fixed part: whose layout this is (`tag`), a byte for every header or stack that was written to (`touched`);
validity bytes of all headers, `next` counters of stacks, lengths of variable-length fields, flags; metadata; headers;
a scratch header that takes writes through an index out of bounds.

PHVs are used again and again, by all programs of a fabric. Headers that were not touched hold zeros still, and the
parser need not clear them: packets leave most of a PHV alone, and what is left alone takes no room in the
processor's cache.

Variables of the parser or a single pipeline (`temporaries`) have no place there: they have offsets from `TEMPORARY` on,
which `context.FunctionContext` takes for memory of the function, and the optimiser makes registers of them.

Headers of a stack lie side by side, fields and validity bytes alike, so that an index is a multiplication.
A signed field keeps one bit more than its width: BMv2 does not bring values between 2^(W-1) and 2^W-1 back
into the signed range, and the difference shows in comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from detour.engine import phv
from detour.engine.compiler.model import FieldSpec, Header, HeaderType, Json, Model, PipelineIr

TEMPORARY = 1 << 24
"""Where offsets of what is not in the PHV begin."""
STANDARD = "standard_metadata"
SCALARS = "scalars"
"""p4c's name of the header that holds local variables."""
_TAG_BYTES = 8


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """A field's memory: `size` bytes at `offset`, of which `bits` count (one more than the width if signed). A
    variable-length field is `size` raw bytes in network order; `length` is where its length in bits is."""

    offset: int
    size: int
    bits: int
    length: int = -1

    @property
    def align(self) -> int:
        """Guaranteed alignment (a PHV begins at a multiple of 8)."""
        return min(self.size & -self.size, self.offset & -self.offset or 8, 8)


def container(bits: int) -> int:
    """Bytes for an integer: 1, 2, 4 or a multiple of 8."""
    return next((n for n in (1, 2, 4, 8) if bits <= 8 * n), (bits + 63) // 64 * 8)


def _align(offset: int, to: int) -> int:
    return (offset + to - 1) // to * to


class HeaderLayout:
    """Field offsets within a header of some type."""

    def __init__(self, fields: tuple[FieldSpec, ...]) -> None:
        self.offsets: dict[str, int] = {}
        self.lengths: dict[str, int] = {}
        self.sizes = {f.name: f.bits // 8 if f.variable else container(f.bits + f.signed) for f in fields}
        at = 0
        for f in sorted(fields, key=lambda f: (f.variable, -min(self.sizes[f.name], 8))):
            if f.variable:
                self.lengths[f.name] = _align(at, 4)
                at = self.lengths[f.name] + 4
            else:
                at = _align(at, min(self.sizes[f.name], 8))
            self.offsets[f.name] = at
            at += self.sizes[f.name]
        self.size = _align(at, 8)


class Layout:
    """The PHV of a program."""

    def __init__(self, model: Model) -> None:
        self._shapes = {h.type.name: HeaderLayout(h.type.fields) for h in model.headers.values()}
        self.frames = {name: HeaderLayout(fields) for name, fields in temporaries(model).items()}
        if self.frames:
            scalars, apart = model.headers[SCALARS].type, {name for f in self.frames.values() for name in f.offsets}
            self._shapes[scalars.name] = HeaderLayout(tuple(f for f in scalars.fields if f.name not in apart))
        stacks = [*model.stacks.values(), *model.union_stacks.values()]
        # Members of stacks first and side by side, then the rest.
        stacked = {h.name: h for stack in stacks for h in stack.headers}
        order = list((stacked | model.headers).values())
        headers = [h for h in order if not h.metadata]
        # Headers that are cleared together: those of a stack, and every other one by itself.
        self.units = [stack.headers for stack in stacks]
        self.units += [(h,) for h in model.headers.values() if h.name not in stacked and not h.metadata]
        self.unit_of = {h.name: number for number, unit in enumerate(self.units) for h in unit}
        self.tag = phv.FIXED_SIZE
        self.touched = self.tag + _TAG_BYTES
        self.flags = self.touched + len(self.units)
        self.valid = {h.name: self.flags + number for number, h in enumerate(headers)}
        self.scratch_valid = self.flags + len(headers)
        at = _align(self.scratch_valid + 1, 4)
        self.next = {stack.name: at + 4 * number for number, stack in enumerate(stacks)}
        self.drop_flag = at + 4 * len(stacks)  # truncate(0) leaves nothing to send
        self.trace = self.drop_flag + 1  # 24 bits: number of the trace that traced code writes of this packet, 0 = none
        self.base: dict[str, int] = {}
        self.metadata = _align(self.drop_flag + 4, 8)
        metadata = [h for h in order if h.metadata and h.name != STANDARD]
        standard = model.headers.get(STANDARD)
        if standard is not None and (fields := tuple(filter(_is_unknown, standard.type.fields))):
            self._shapes[standard.type.name] = HeaderLayout(fields)
            metadata.append(standard)
        self.headers = self._place_all(metadata, self.metadata)
        self.scratch = self._place_all(headers, self.headers)
        self.size = _align(self.scratch + max((s.size for s in self._shapes.values()), default=0), 64)

    def _place_all(self, headers: list[Header], at: int) -> int:
        for h in headers:
            self.base[h.name] = at
            at += self.shape(h.type).size
        return at

    def unit_memory(self, unit: tuple[Header, ...]) -> tuple[int, int]:
        """Offset and size of the fields of a unit's headers, which lie side by side."""
        return min(self.base[h.name] for h in unit), sum(self.shape(h.type).size for h in unit)

    def shape(self, kind: HeaderType) -> HeaderLayout:
        return self._shapes[kind.name]

    def place(self, header: Header, spec: FieldSpec) -> FieldPlace:
        if header.name == STANDARD and not _is_unknown(spec):
            offset, size = phv.STANDARD_FIELDS.get(spec.name, (self.scratch, container(spec.bits)))
            return FieldPlace(offset, size, spec.bits)
        base, shape = self.base[header.name], self.shape(header.type)
        for frame in self.frames.values() if header.name == SCALARS else ():
            if spec.name in frame.offsets:
                base, shape = TEMPORARY, frame
        length = base + shape.lengths[spec.name] if spec.variable else -1
        return FieldPlace(base + shape.offsets[spec.name], shape.sizes[spec.name], spec.bits + spec.signed, length)


def _is_unknown(field: FieldSpec) -> bool:
    """Whether a field of standard_metadata is none that the switch sets, nor padding, which nobody reads."""
    return field.name not in phv.STANDARD_FIELDS and not field.name.startswith("_padding")


# -- temporaries

_NOT_REST = ("parsers", "pipelines", "actions", "header_types")


def temporaries(model: Model) -> dict[str, tuple[FieldSpec, ...]]:
    """The fields of `scalars` that are variables of a function, by its name: `parse`, `ingress`, `egress`.

    p4c turns local variables and what it splits expressions into to fields of that header; the program's own metadata
    are there too, with a dot in their names. What the parser, ingress or egress alone mentions lives in registers while
    that function runs: a packet that waits in a queue does not carry it.
    """
    header = model.headers.get(SCALARS)
    others = [h for name, h in model.headers.items() if name != SCALARS]
    if header is None or not header.metadata or any(h.type is header.type for h in others):
        return {}
    used = {name: set(_mentioned(_parts(model, pipeline))) for name, pipeline in model.pipelines.items()}
    used["parse"] = set(_mentioned(model.json["parsers"]))
    elsewhere = set(_mentioned([part for name, part in model.json.items() if name not in _NOT_REST]))
    variables: dict[str, tuple[FieldSpec, ...]] = {}
    for name in used:
        outside = elsewhere.union(*(fields for other, fields in used.items() if other != name))
        # None stands for the header as a whole.
        if None not in outside | used[name]:
            local = [f for f in header.type.fields if "." not in f.name and not f.variable]
            variables[name] = tuple(f for f in local if f.name in used[name] - outside)
    return variables


def _parts(model: Model, pipeline: PipelineIr) -> list[Json]:
    """The JSON that runs as one pipeline: its nodes and the actions that they name."""
    ids = {call["action_id"] for call in pipeline.calls.values()}
    actions = [a.json for a in model.actions if a.id in ids]
    for table in pipeline.tables.values():
        actions += [a.json for a in table.all_actions]
        actions += [table.profile.selector.inputs] if table.profile and table.profile.selector else []
    return [*(p for p in model.json["pipelines"] if p["name"] == pipeline.name), *actions]


def _mentioned(part: Json) -> Iterator[str | None]:
    """Names of the fields of `scalars` that a part of the program mentions; `None` for the whole header."""
    if isinstance(part, dict):
        if part.get("type") == "header" and part.get("value") == SCALARS:
            yield None
        for inner in part.values():
            yield from _mentioned(inner)
    elif isinstance(part, list):
        if len(part) == 2 and part[0] == SCALARS and isinstance(part[1], str):
            yield part[1]
        for inner in part:
            yield from _mentioned(inner)
