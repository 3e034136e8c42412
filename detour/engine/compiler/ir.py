# SPDX-License-Identifier: Apache-2.0
"""Writes LLVM IR as text.

llvmlite's own IR builder makes an object an instruction, which for a P4 program costs more than LLVM's
optimiser. Text is all that the parser needs, and constants fold on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from detour.engine.compiler.model import refuse

MAX_VALUE_BITS = 1 << 13
"""Widest value: LLVM's time grows with the square of it. p4c cuts results to widths of at most 2048 bits."""
MAX_LINES = 500_000
"""Most instructions of a program: some seconds of ours. Programs of real switches have ten thousand."""
MAX_FRAME_BYTES = 1 << 20
"""Most stack memory that a function may ask for."""


class Value(NamedTuple):
    """An integer of `bits` bits; `const` is its value (unsigned) if it is known."""

    bits: int
    ref: str
    const: int | None = None

    @property
    def typed(self) -> str:
        return f"i{self.bits} {self.ref}"


def _possible(bits: int) -> int:
    if not 0 < bits <= MAX_VALUE_BITS:
        raise refuse(f"a value of {bits} bits; expected 1 to {MAX_VALUE_BITS}")
    return bits


def _size(kind: str) -> int:
    """Bytes of `[N x i8]`, `iN` or `ptr`."""
    if kind.startswith("["):
        return int(kind[1:].split(" ")[0])
    return 8 if kind == "ptr" else (int(kind[1:]) + 7) // 8


def const(bits: int, value: int) -> Value:
    """A constant, cut to its width."""
    value &= (1 << _possible(bits)) - 1
    return Value(bits, str(value) if bits > 1 else ("true" if value else "false"), value)


TRUE = const(1, 1)
FALSE = const(1, 0)

FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
_COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "ult": lambda a, b: a < b,
    "ule": lambda a, b: a <= b,
    "ugt": lambda a, b: a > b,
    "uge": lambda a, b: a >= b,
}


class Function:
    """One function under construction. Emitting goes to the current block until it is terminated."""

    def __init__(self, head: str, budget: list[int] | None = None) -> None:
        self.head = head
        self._budget = [MAX_LINES] if budget is None else budget  # of the module
        self._names = 0
        self._frame = 0
        self._entry: list[str] = []
        self._blocks: list[tuple[str, list[str]]] = []
        self._lines: list[str] = []
        self.open = False
        self.enter(self.block("body"))

    def line(self, text: str) -> None:
        self._budget[0] -= 1
        if self._budget[0] < 0:
            raise refuse(f"it is too large: more than {MAX_LINES} instructions")
        if self.open:
            self._lines.append(text)

    def value(self, text: str) -> str:
        """An instruction with a result, whose name is returned."""
        self._names += 1
        name = f"%v{self._names}"
        self.line(f"{name} = {text}")
        return name

    # -- blocks

    def block(self, hint: str = "b") -> str:
        self._names += 1
        return f"{hint}.{self._names}"

    def enter(self, label: str) -> None:
        """Continue in the block with this label; fall through to it if the current one is open."""
        if self.open:
            self.jump(label)
        self._lines = []
        self._blocks.append((label, self._lines))
        self.open = True

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")
        self.open = False

    def branch(self, cond: Value, yes: str, no: str) -> None:
        if cond.const is not None:
            self.jump(yes if cond.const else no)
            return
        self.line(f"br i1 {cond.ref}, label %{yes}, label %{no}")
        self.open = False

    def switch(self, value: Value, default: str, cases: Iterable[tuple[int, str]]) -> None:
        body = " ".join(f"i{value.bits} {c}, label %{label}" for c, label in cases)
        self.line(f"switch {value.typed}, label %{default} [ {body} ]")
        self.open = False

    def ret(self, value: str | Value = "void") -> None:
        self.line(f"ret {value if isinstance(value, str) else value.typed}")
        self.open = False

    def alloca(self, kind: str, align: int = 8) -> str:
        """Stack memory, allocated once at entry."""
        self._frame += _size(kind)
        if self._frame > MAX_FRAME_BYTES:
            raise refuse(f"a pipeline that needs more than {MAX_FRAME_BYTES} bytes of stack")
        self._names += 1
        self._entry.append(f"%v{self._names} = alloca {kind}, align {align}")
        return f"%v{self._names}"

    def variable(self, bits: int, value: int | Value = 0) -> str:
        """An integer in stack memory, with its first value."""
        address = self.alloca(f"i{bits}", max(bits // 8, 8))
        self.store(value if isinstance(value, Value) else const(bits, value), address, bits // 8)
        return address

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """Discard the code that is emitted inside."""
        kept = (self._lines, self._blocks, self._entry, self.open)
        self._lines, self._blocks, self._entry = [], [], []
        yield
        self._lines, self._blocks, self._entry, self.open = kept

    # -- integers

    def op(self, name: str, a: Value, b: Value) -> Value:
        known = self.folded(name, a, b)
        return Value(a.bits, self.value(f"{name} {a.typed}, {b.ref}")) if known is None else known

    @staticmethod
    def folded(name: str, a: Value, b: Value) -> Value | None:
        """The result of an operation on constants, or with 0, that needs no code."""
        if a.const is not None and b.const is not None:
            return const(a.bits, FOLD[name](a.const, b.const))
        if b.const == 0 and name in ("add", "sub", "or", "xor"):
            return a
        if a.const == 0 and name in ("add", "or", "xor"):
            return b
        return const(a.bits, 0) if name == "and" and 0 in (a.const, b.const) else None

    def raw(self, name: str, a: Value, b: Value) -> Value:
        """An operation without folding (shifts, divisions)."""
        return Value(a.bits, self.value(f"{name} {a.typed}, {b.ref}"))

    def shl(self, a: Value, by: int) -> Value:
        if by == 0:
            return a
        if by >= a.bits or a.const is not None:
            return const(a.bits, (a.const or 0) << by if by < a.bits else 0)
        return self.raw("shl", a, const(a.bits, by))

    def lshr(self, a: Value, by: int) -> Value:
        if by == 0:
            return a
        if by >= a.bits or a.const is not None:
            return const(a.bits, (a.const or 0) >> by)
        return self.raw("lshr", a, const(a.bits, by))

    def resize(self, a: Value, bits: int, signed: bool = False) -> Value:
        if bits == a.bits:
            return a
        if a.const is not None:
            negative = signed and a.const >> (a.bits - 1)
            return const(bits, a.const - (1 << a.bits) if negative else a.const)
        _possible(bits)
        how = "trunc" if bits < a.bits else "sext" if signed else "zext"
        return Value(bits, self.value(f"{how} {a.typed} to i{bits}"))

    def compare(self, how: str, a: Value, b: Value) -> Value:
        if a.const is not None and b.const is not None and how in _COMPARE:
            return const(1, _COMPARE[how](a.const, b.const))
        return Value(1, self.value(f"icmp {how} {a.typed}, {b.ref}"))

    def select(self, cond: Value, a: Value, b: Value) -> Value:
        if cond.const is not None:
            return a if cond.const else b
        if a.ref == b.ref:
            return a
        return Value(a.bits, self.value(f"select i1 {cond.ref}, {a.typed}, {b.typed}"))

    def negate(self, cond: Value) -> Value:
        return self.op("xor", cond, TRUE)

    def swap_bytes(self, a: Value) -> Value:
        """Reverse the bytes of a value of whole bytes."""
        if a.bits == 8:
            return a
        if a.const is not None:
            data = a.const.to_bytes(a.bits // 8, "little")
            return const(a.bits, int.from_bytes(data, "big"))
        wide = (a.bits + 15) // 16 * 16
        v = self.resize(a, wide)
        v = Value(wide, self.value(f"call i{wide} @llvm.bswap.i{wide}({v.typed})"))
        return self.resize(self.lshr(v, wide - a.bits), a.bits)

    def reverse_bits(self, a: Value) -> Value:
        return Value(a.bits, self.value(f"call i{a.bits} @llvm.bitreverse.i{a.bits}({a.typed})"))

    def trailing_zeros(self, a: Value) -> Value:
        """The number of zeros below the lowest one of a value that is not zero."""
        return Value(a.bits, self.value(f"call i{a.bits} @llvm.cttz.i{a.bits}({a.typed}, i1 true)"))

    # -- memory

    def at(self, base: str, offset: int | Value) -> str:
        """base + offset in bytes."""
        if isinstance(offset, Value) and offset.const is not None:
            offset = offset.const
        if isinstance(offset, int):
            return base if offset == 0 else self.value(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.value(f"getelementptr i8, ptr {base}, {self.resize(offset, 64).typed}")

    def load(self, bits: int, address: str, align: int = 1) -> Value:
        """An integer from memory, little endian."""
        return Value(_possible(bits), self.value(f"load i{bits}, ptr {address}, align {align}"))

    def store(self, value: Value, address: str, align: int = 1) -> None:
        self.line(f"store {value.typed}, ptr {address}, align {align}")

    def load_pointer(self, address: str) -> str:
        return self.value(f"load ptr, ptr {address}, align 8")

    def select_pointer(self, cond: Value, a: str, b: str) -> str:
        if cond.const is not None:
            return a if cond.const else b
        return self.value(f"select i1 {cond.ref}, ptr {a}, ptr {b}")

    def copy(self, to: str, source: str, count: int | Value) -> None:
        n = f"i64 {count}" if isinstance(count, int) else self.resize(count, 64).typed
        self.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, {n}, i1 false)")

    def clear(self, address: str, count: int) -> None:
        if count:
            self.line(f"call void @llvm.memset.p0.i64(ptr {address}, i8 0, i64 {count}, i1 false)")

    def call(self, bits: int, name: str, args: Sequence[str | Value]) -> Value:
        """Call a function that returns an integer; pointer arguments are plain names."""
        return Value(bits, self.value(f"call i{bits} @{name}({_typed(args)})"))

    def call_void(self, name: str, args: Sequence[str | Value]) -> None:
        self.line(f"call void @{name}({_typed(args)})")

    def text(self) -> str:
        first = self._blocks[0][0]
        out = [f"define {self.head} {{", "entry:", *self._entry, f"br label %{first}"]
        for label, lines in self._blocks:
            out.append(f"{label}:")
            out.extend(lines)
        out.append("}")
        return "\n".join(out)


def _typed(args: Sequence[str | Value]) -> str:
    return ", ".join(a.typed if isinstance(a, Value) else f"ptr {a}" for a in args)


class Module:
    """Functions and constants of a program."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self.globals: list[str] = []
        self.runtime: set[str] = set()
        self._constants: dict[str, str] = {}
        self._budget = [MAX_LINES]

    def function(self, head: str) -> Function:
        """Begin a function; `head` is everything between `define` and the body."""
        f = Function(head, self._budget)
        self.functions.append(f)
        return f

    def table(self, name: str, bits: int, values: Sequence[int]) -> str:
        if name not in self._constants:
            body = ", ".join(f"i{bits} {v}" for v in values)
            kind = f"[{len(values)} x i{bits}]"
            self._constants[name] = f"@{name} = internal constant {kind} [{body}], align 64"
        return f"@{name}"

    def text(self) -> str:
        """The module; intrinsics are declared where they are used."""
        body = "\n\n".join(f.text() for f in self.functions)
        parts = [*self._constants.values(), *self.globals, body, *_declarations(body)]
        return "\n".join(parts) + "\n"


_INTRINSICS = {
    # name without width or types: result and parameters; {} is the width
    "bswap": "{0} ({0})",
    "bitreverse": "{0} ({0})",
    "cttz": "{0} ({0}, i1)",
    "memcpy": "void (ptr, ptr, i64, i1)",
    "memset": "void (ptr, i8, i64, i1)",
    "stacksave": "ptr ()",
    "stackrestore": "void (ptr)",
    "prefetch": "void (ptr, i32, i32, i32)",
    "fptoui": "i64 (double)",
}


def _declarations(body: str) -> Iterator[str]:
    for name in sorted({w.split("(")[0] for w in body.split("@")[1:] if w.startswith("llvm.")}):
        result, _, parameters = _INTRINSICS[name.split(".")[1]].format(name.rsplit(".", 1)[1]).partition(" ")
        yield f"declare {result} @{name}{parameters}"
