# SPDX-License-Identifier: Apache-2.0
"""What all code generators share: the program, the function being written, headers in memory.

A `HeaderRef` is a header that is known when compiling, or an element of a stack that is chosen by an index at
run time. An index out of bounds sets the PHV's error, reads zero and writes to scratch memory; BMv2 aborts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from detour.engine import phv
from detour.engine.compiler.covering import SiteWriter
from detour.engine.compiler.ir import FALSE, TRUE, Function, Module, Value, const
from detour.engine.compiler.layout import TEMPORARY, FieldPlace, Layout
from detour.engine.compiler.log_ring import LogFormat
from detour.engine.compiler.model import (
    ActionIr,
    FieldSpec,
    Header,
    HeaderType,
    Json,
    Model,
    Stack,
    Union,
    UnionStack,
    refuse,
)
from detour.engine.compiler.slots import DROP_PORT_SLOT, Slots
from detour.engine.compiler.tracing import RecordWriter


@dataclass(slots=True)
class HeaderRef:
    """A header in memory. `offset` is added to the addresses of `header`; `inside` says that it exists. `index`: which
    element of its stack it is, if that is found at run time."""

    header: Header
    offset: Value | None = None  # bytes to the fields of the chosen element
    valid_offset: Value | None = None
    siblings: tuple[HeaderRef, ...] = ()  # other members of the same union
    inside: Value = TRUE
    index: Value | None = None

    @property
    def type(self) -> HeaderType:
        """Its type."""
        return self.header.type


@dataclass(slots=True)
class UnionRef:
    """A union: its members."""

    members: tuple[HeaderRef, ...]


class CompilationUnit:
    """The parts of a compilation that do not change. With a `trace` functions leave records of what they do, and their
    names begin with `prefix`. With a `cover` they count what packets reach."""

    def __init__(
        self,
        model: Model,
        layout: Layout,
        slots: Slots,
        module: Module,
        trace: RecordWriter | None = None,
        prefix: str = "",
        cover: SiteWriter | None = None,
    ) -> None:
        self.model, self.layout, self.slots, self.module = model, layout, slots, module
        self.trace, self.prefix, self.cover = trace, prefix, cover
        self.log_formats: list[LogFormat] = []


class FunctionContext:
    """A function being written, with `%sw` and `%phv` as parameters."""

    def __init__(self, program: CompilationUnit, f: Function) -> None:
        self.program = program
        self.model, self.layout, self.slots = program.model, program.layout, program.slots
        self.module, self.f, self.trace, self.cover = program.module, f, program.trace, program.cover
        # While an action is compiled: its parameters and where the arguments are.
        self.action: ActionIr | None = None
        self.arguments: str | None = None
        self.payload: tuple[str, Value] | None = None
        self.frame: str | None = None  # memory of the function's temporaries
        self.widths: dict[tuple[int, int], tuple[int, bool]] = {}  # (expression, action): bits, signed

    def make_frame(self, function: str) -> None:
        """Memory for the temporaries of a function, zero as metadata are for a new packet."""
        size = self.layout.frames[function].size if function in self.layout.frames else 0
        if size:
            self.frame = self.f.alloca(f"[{size} x i8]")
            self.f.clear(self.frame, size)

    # -- memory of the switch and the fixed part of the PHV

    def slot(self, index: int) -> str:
        """The pointer in a slot of the state block."""
        return self.f.load_pointer(self.f.at("%sw", 8 * index))

    def fixed(self, offset: int, bits: int = 32) -> Value:
        """A fixed field of the PHV."""
        return self.f.load(bits, self.f.at("%phv", offset), 4)

    def set_fixed(self, offset: int, value: Value) -> None:
        """Sets a fixed field of the PHV."""
        self.f.store(value, self.f.at("%phv", offset), 4)

    def drop_port(self) -> Value:
        """The port of this switch that drops."""
        return self.f.load(32, self.f.at("%sw", 8 * DROP_PORT_SLOT), 8)

    def fail(self, error: int, when: Value = TRUE) -> None:
        """Sets the PHV's error if `when` holds."""
        if when.const == 0:
            return
        value = self.f.select(when, const(32, error), self.fixed(phv.ERROR))
        self.set_fixed(phv.ERROR, value)

    # -- fields

    def header(self, name: str, at: Json = None) -> HeaderRef:
        """A header by name, with the other members of its union."""
        return self._ref(self.model.header(name, at))

    def _ref(self, header: Header) -> HeaderRef:
        union = header.union
        siblings = tuple(HeaderRef(h) for h in union.headers if h is not header) if union else ()
        return HeaderRef(header, siblings=siblings)

    def place(self, ref: HeaderRef, spec: FieldSpec) -> FieldPlace:
        """Memory of a field, without the offset of a chosen element."""
        return self.layout.place(ref.header, spec)

    def address(self, ref: HeaderRef, offset: int, write: bool = False) -> str:
        """Address of something in a header at `offset` of the PHV (as of element 0)."""
        if self.frame is not None and offset >= TEMPORARY:
            return self.f.at(self.frame, offset - TEMPORARY)
        if write:
            self.touch(ref.header)
        address = self.f.at("%phv", offset)
        if ref.offset is None:
            return address
        address = self.f.at(address, ref.offset)
        if write and ref.inside.const is None:
            base = self.layout.base[ref.header.name]
            address = self.f.select_pointer(ref.inside, address, self.f.at("%phv", self.layout.scratch + offset - base))
        return address

    def touch(self, header: Header) -> None:
        """Notes that a header's fields may not be zero any more."""
        if not header.metadata:
            self.f.store(const(8, 1), self.f.at("%phv", self.layout.touched + self.layout.unit_of[header.name]))

    def load_field(self, ref: HeaderRef, spec: FieldSpec) -> Value:
        """The value of a field, W bits (W+1 if signed)."""
        place = self.place(ref, spec)
        if spec.variable:
            raise refuse(f"variable-length field '{ref.header.name}.{spec.name}' as a value")
        v = self.f.load(8 * place.size, self.address(ref, place.offset), place.align)
        return self.inside(ref, self.f.resize(v, place.bits))

    def inside(self, ref: HeaderRef, v: Value) -> Value:
        """The value, or zero if the header's index is out of bounds."""
        return v if ref.inside.const else self.f.select(ref.inside, v, const(v.bits, 0))

    def store_field(self, ref: HeaderRef, spec: FieldSpec, value: Value) -> None:
        """Stores a value of `place.bits` bits."""
        place = self.place(ref, spec)
        v = self.f.resize(value, 8 * place.size, spec.signed)
        self.f.store(v, self.address(ref, place.offset, write=True), place.align)

    # -- validity

    def valid_address(self, ref: HeaderRef, write: bool = False) -> str:
        """Where the validity byte is."""
        address = self.f.at("%phv", self.layout.valid[ref.header.name])
        if ref.valid_offset is None:
            return address
        address = self.f.at(address, ref.valid_offset)
        if write and ref.inside.const is None:
            scratch = self.f.at("%phv", self.layout.scratch_valid)
            address = self.f.select_pointer(ref.inside, address, scratch)
        return address

    def is_valid(self, ref: HeaderRef) -> Value:
        """i1; metadata is always valid."""
        if ref.header.metadata:
            return TRUE
        v = self.f.compare("ne", self.f.load(8, self.valid_address(ref)), const(8, 0))
        return self.inside(ref, v)

    def set_valid(self, ref: HeaderRef, valid: bool | Value) -> None:
        """Sets the validity; a member of a union that becomes valid makes the others invalid."""
        if ref.header.metadata:
            return
        v = valid if isinstance(valid, Value) else (TRUE if valid else FALSE)
        for sibling in ref.siblings if v.const != 0 else ():
            address = self.valid_address(sibling, write=True)
            kept = const(8, 0)
            if v.const is None:
                kept = self.f.select(v, const(8, 0), self.f.load(8, address))
            self.f.store(kept, address)
        self.f.store(self.f.resize(v, 8), self.valid_address(ref, write=True))

    def union_valid(self, ref: UnionRef) -> Value:
        """i1: one of the members is valid."""
        v = FALSE
        for member in ref.members:
            v = self.f.op("or", v, self.is_valid(member))
        return v

    # -- stacks

    def stack(self, name: str, at: Json = None) -> Stack | UnionStack:
        """A header stack or a stack of unions by name."""
        found = self.model.stacks.get(name) or self.model.union_stacks.get(name)
        if found is None:
            raise refuse(f"there is no header stack '{name}'", at)
        return found

    def next_index(self, stack: Stack | UnionStack) -> Value:
        """The stack's `next`, i32."""
        return self.f.load(32, self.f.at("%phv", self.layout.next[stack.name]), 4)

    def set_next(self, stack: Stack | UnionStack, value: Value) -> None:
        """Sets the stack's `next`."""
        self.f.store(value, self.f.at("%phv", self.layout.next[stack.name]), 4)

    def element(self, stack: Stack, index: Value) -> HeaderRef:
        """The header at an index (any width)."""
        if index.const is not None and index.const < len(stack.headers):
            return self._ref(stack.headers[index.const])
        inside, i = self._checked(index, len(stack.headers))
        return self._shifted(stack.headers, i, 1, inside)

    def union_element(self, stack: UnionStack, index: Value) -> UnionRef:
        """The union at an index."""
        if index.const is not None and index.const < len(stack.unions):
            return self.union(stack.unions[index.const])
        inside, i = self._checked(index, len(stack.unions))
        width = len(stack.unions[0].headers)
        members = []
        for m in range(width):
            members.append(self._shifted([u.headers[m] for u in stack.unions], i, width, inside))
        for m, ref in enumerate(members):
            ref.siblings = tuple(r for k, r in enumerate(members) if k != m)
        return UnionRef(tuple(members))

    def union(self, union: Union) -> UnionRef:
        """A union with its members."""
        return UnionRef(tuple(self._ref(h) for h in union.headers))

    def _checked(self, index: Value, size: int) -> tuple[Value, Value]:
        """(index < size, the index as i64 or 0)."""
        wide = max(index.bits, 64)
        inside = self.f.compare("ult", self.f.resize(index, wide), const(wide, size))
        self.fail(phv.ERROR_INDEX, self.f.negate(inside))
        return inside, self.f.select(inside, self.f.resize(index, 64), const(64, 0))

    def _shifted(self, headers: Sequence[Header], i: Value, step: int, inside: Value) -> HeaderRef:
        first = headers[0]
        stride = self.layout.base[headers[1].name] - self.layout.base[first.name] if len(headers) > 1 else 0
        return HeaderRef(
            first,
            self.f.op("mul", i, const(64, stride)),
            self.f.op("mul", i, const(64, step)),
            inside=inside,
            index=i,
        )

    # -- control

    def when(self, cond: Value, then: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
        """if cond: then() else: otherwise()."""
        if cond.const is not None:
            if cond.const:
                then()
            elif otherwise:
                otherwise()
            return
        yes, end = self.f.block("then"), self.f.block("end")
        no = self.f.block("else") if otherwise else end
        self.f.branch(cond, yes, no)
        self.f.enter(yes)
        then()
        if otherwise:
            if self.f.open:
                self.f.jump(end)
            self.f.enter(no)
            otherwise()
        self.f.enter(end)
