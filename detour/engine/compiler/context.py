# SPDX-License-Identifier: Apache-2.0
"""The state that all code generators share: the program, the function being written, headers in memory.

A `HeaderRef` is a header that is known when compiling, or an element of a stack that is chosen by an index at
run time. An index out of bounds sets the PHV's error, reads zero and writes to scratch memory; BMv2 aborts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from detour.engine import phv
from detour.engine.compiler.covering import SiteWriter
from detour.engine.compiler.ir import FALSE, TRUE, Module, Value, const
from detour.engine.compiler.layout import TEMPORARY, FieldPlace, Layout
from detour.engine.compiler.log_ring import LogFormat
from detour.engine.compiler.model import ActionIr, FieldSpec, Header, HeaderType, Json, Model, Stack, refuse
from detour.engine.compiler.runtime import runtime
from detour.engine.compiler.slots import DROP_PORT_SLOT, Slots
from detour.engine.compiler.switch_memory import SwitchMemory
from detour.engine.compiler.tracing import RecordWriter

PARSE = "(ptr noalias align 8 %sw, ptr noalias align 8 %phv, ptr noalias readonly %pkt, i64 %length) nounwind"
CONTROL = "(ptr noalias align 8 %sw, ptr noalias align 8 %phv) nounwind"
DEPARSE = "(ptr noalias align 8 %sw, ptr noalias align 8 %phv, ptr noalias %out, ptr %payload, i64 %n) nounwind"
"""Parameters of a program's functions, those of ingress and egress alike."""


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
        return self.header.type


UnionRef = tuple[HeaderRef, ...]
"""the members of a union"""


@dataclass
class CompilationUnit:
    """The parts of a compilation that do not change. With a `trace` functions leave records of what they do, and their
    names begin with `prefix`. With a `cover` they count what packets reach."""

    model: Model
    layout: Layout
    slots: Slots
    module: Module
    trace: RecordWriter | None = None
    prefix: str = ""
    cover: SiteWriter | None = None
    log_formats: list[LogFormat] = field(default_factory=list)


class FunctionContext(SwitchMemory):
    """A function being written, with `%sw` and `%phv` as parameters."""

    def __init__(self, program: CompilationUnit, head: str) -> None:
        self.program, self.f = program, program.module.function(head)
        self.model, self.layout, self.slots = program.model, program.layout, program.slots
        self.module, self.trace, self.cover = program.module, program.trace, program.cover
        # While an action is compiled: its parameters and where the arguments are.
        self.action: ActionIr | None = None
        self.arguments: str | None = None
        self.payload: tuple[str, Value] | None = None
        self.frame: str | None = None  # memory of the function's temporaries
        self.widths: dict[tuple[int, int], tuple[int, bool]] = {}  # (expression, action): bits, signed
        self.hashes: Callable[[str, Json], Value] | None = None  # algorithm, input: the hash, where there is no code

    def make_frame(self, function: str) -> None:
        """Memory for the temporaries of a function, zero as metadata are for a new packet."""
        size = self.layout.frames[function].size if function in self.layout.frames else 0
        if size:
            self.frame = self.f.alloca(f"[{size} x i8]")
            self.f.clear(self.frame, size)

    # -- the fixed part of the PHV

    def set_fixed(self, offset: int, value: Value) -> None:
        self.f.store(value, self.f.at("%phv", offset), 4)

    def drop_port(self) -> Value:
        return self.f.load(32, self.f.at("%sw", 8 * DROP_PORT_SLOT), 8)

    def starts_over(self) -> Value:
        """i1: the packet was resubmitted or recirculated."""
        kind = self.fixed(phv.INSTANCE_TYPE)
        again = (self.f.compare("eq", kind, const(32, n)) for n in (phv.TYPE_RESUBMIT, phv.TYPE_RECIRCULATION))
        return self.f.op("or", *again)

    def fail(self, error: int, when: Value = TRUE) -> None:
        if when.const != 0:
            self.set_fixed(phv.ERROR, self.f.select(when, const(32, error), self.fixed(phv.ERROR)))

    # -- fields

    def header(self, name: str, at: Json = None) -> HeaderRef:
        """A header by name, with the other members of its union."""
        return self.ref(self.model.header(name, at))

    def ref(self, header: Header) -> HeaderRef:
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
        scratch = self.layout.scratch + offset - self.layout.base.get(ref.header.name, 0)
        return self._chosen(ref, offset, ref.offset, scratch if write else None)

    def _chosen(self, ref: HeaderRef, at: int, offset: Value | None, scratch: int | None) -> str:
        """The address of element 0, `at`, moved to the chosen element; `scratch`: where to write if there is none."""
        address = self.f.at("%phv", at)
        if offset is None:
            return address
        address = self.f.at(address, offset)
        if scratch is not None and ref.inside.const is None:
            address = self.f.select_pointer(ref.inside, address, self.f.at("%phv", scratch))
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
        """Store a value of `place.bits` bits."""
        place = self.place(ref, spec)
        v = self.f.resize(value, 8 * place.size, spec.signed)
        self.f.store(v, self.address(ref, place.offset, write=True), place.align)

    # -- fields of variable length

    def variable_bits(self, ref: HeaderRef, spec: FieldSpec) -> Value:
        """Current length in bits, i32."""
        return self.inside(ref, self.f.load(32, self.address(ref, self.place(ref, spec).length), 4))

    def variable_bytes(self, ref: HeaderRef, spec: FieldSpec) -> Value:
        """Current length in bytes, i64."""
        return self.f.lshr(self.f.resize(self.variable_bits(ref, spec), 64), 3)

    def set_variable_bits(self, ref: HeaderRef, spec: FieldSpec, bits: Value) -> None:
        self.f.store(self.f.resize(bits, 32), self.address(ref, self.place(ref, spec).length, write=True), 4)

    def variable_data(self, ref: HeaderRef, spec: FieldSpec, write: bool = False) -> str:
        return self.address(ref, self.place(ref, spec).offset, write)

    def copy_variable(self, dst: HeaderRef, to: FieldSpec, src: HeaderRef, of: FieldSpec) -> None:
        """Copies length and bytes, as far as they fit."""
        bits = self.variable_bits(src, of)
        fits = self.f.compare("ule", bits, const(32, to.bits))
        bits = self.f.select(fits, bits, const(32, to.bits))
        count = min(to.bits, of.bits) // 8
        self.f.copy(self.variable_data(dst, to, True), self.variable_data(src, of), count)
        self.set_variable_bits(dst, to, bits)

    def equal_variable(self, a: HeaderRef, of_a: FieldSpec, b: HeaderRef, of_b: FieldSpec) -> Value:
        """BMv2 compares the values as numbers, whatever the lengths."""
        name = runtime(self.module, "variable_equal")
        args: list[str | Value] = []
        for ref, spec in ((a, of_a), (b, of_b)):
            bits = self.f.resize(self.variable_bits(ref, spec), 64)
            args += [self.variable_data(ref, spec), self.f.lshr(bits, 3)]
        return self.f.call(1, name, args)

    # -- the fields of a header together

    def clear_header(self, ref: HeaderRef) -> None:
        """All fields become zero; a field of variable length keeps its length, as in BMv2."""
        spec = ref.type.variable
        bits = self.variable_bits(ref, spec) if spec else None
        base = self.address(ref, self.layout.base[ref.header.name], write=True)
        self.f.clear(base, self.layout.shape(ref.type).size)
        if spec and bits:
            self.set_variable_bits(ref, spec, bits)

    def copy_header(self, to: HeaderRef, of: HeaderRef) -> None:
        """Copy all fields between headers of the same type."""
        base_to, base_of = (self.layout.base[r.header.name] for r in (to, of))
        size = self.layout.shape(to.type).size
        self.f.copy(self.address(to, base_to, write=True), self.address(of, base_of), size)

    def swap_headers(self, a: Header, b: Header) -> None:
        """Exchange all fields, without validity."""
        base = self.layout.base
        self._swap_bytes(base[a.name], base[b.name], self.layout.shape(a.type).size)

    def swap_validity(self, a: Header, b: Header) -> None:
        self._swap_bytes(self.layout.valid[a.name], self.layout.valid[b.name], 1)

    def _swap_bytes(self, one: int, other: int, size: int) -> None:
        f = self.f
        a, b = f.at("%phv", one), f.at("%phv", other)
        if size == 1:
            x, y = f.load(8, a), f.load(8, b)
            f.store(y, a)
            f.store(x, b)
        elif size:
            spare = f.alloca(f"[{size} x i8]")
            f.copy(spare, a, size)
            f.copy(a, b, size)
            f.copy(b, spare, size)

    # -- validity

    def valid_address(self, ref: HeaderRef, write: bool = False) -> str:
        scratch = self.layout.scratch_valid if write else None
        return self._chosen(ref, self.layout.valid[ref.header.name], ref.valid_offset, scratch)

    def is_valid(self, ref: HeaderRef) -> Value:
        """i1; metadata is always valid."""
        if ref.header.metadata:
            return TRUE
        v = self.f.compare("ne", self.f.load(8, self.valid_address(ref)), const(8, 0))
        return self.inside(ref, v)

    def set_valid(self, ref: HeaderRef, valid: bool) -> None:
        """Set the validity; a member of a union that becomes valid makes the others invalid."""
        if ref.header.metadata:
            return
        for sibling in ref.siblings if valid else ():
            self.f.store(const(8, 0), self.valid_address(sibling, write=True))
        self.f.store(const(8, valid), self.valid_address(ref, write=True))

    def union_valid(self, members: UnionRef) -> Value:
        """i1: one of the members is valid."""
        return reduce(lambda v, member: self.f.op("or", v, self.is_valid(member)), members, FALSE)

    # -- stacks

    def stack(self, name: str, at: Json = None) -> Stack:
        """A header stack or a stack of unions by name."""
        stack = self.model.stacks.get(name) or self.model.union_stacks.get(name)
        if stack is None:
            raise refuse(f"there is no header stack '{name}'", at)
        return stack

    def next_index(self, stack: Stack) -> Value:
        """The stack's `next`, i32."""
        return self.f.load(32, self.f.at("%phv", self.layout.next[stack.name]), 4)

    def set_next(self, stack: Stack, value: Value) -> None:
        self.f.store(value, self.f.at("%phv", self.layout.next[stack.name]), 4)

    def last_element(self, stack: Stack) -> UnionRef:
        """The stack's last element (`next` - 1)."""
        return self.element(stack, self.f.op("sub", self.next_index(stack), const(32, 1)))

    def element(self, stack: Stack, index: Value) -> UnionRef:
        """The header at an index (any width), or the members of the union."""
        size, width = len(stack.elements), len(stack.elements[0])
        if index.const is not None and index.const < size:
            return tuple(self.ref(h) for h in stack.elements[index.const])
        wide = max(index.bits, 64)
        inside = self.f.compare("ult", self.f.resize(index, wide), const(wide, size))
        self.fail(phv.ERROR_INDEX, self.f.negate(inside))
        i = self.f.select(inside, self.f.resize(index, 64), const(64, 0))
        refs = tuple(self._shifted(same, i, width, inside) for same in zip(*stack.elements, strict=True))
        for ref in refs:
            ref.siblings = tuple(other for other in refs if other is not ref)
        return refs

    def _shifted(self, headers: Sequence[Header], i: Value, width: int, inside: Value) -> HeaderRef:
        """Return the header of element `i`, of the headers at one place in all elements of a stack. `width`: headers in
        each."""
        base, first = self.layout.base, headers[0]
        stride = base[headers[1].name] - base[first.name] if len(headers) > 1 else 0
        offset, valid_offset = (self.f.op("mul", i, const(64, step)) for step in (stride, width))
        return HeaderRef(first, offset, valid_offset, inside=inside, index=i)

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
