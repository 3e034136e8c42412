# SPDX-License-Identifier: Apache-2.0
"""z3 terms behind the interface of the compiler's `Function`: an operation makes a term in place of an instruction.

A value of one bit is a boolean term, any other a bit vector. Addresses are names, and memory is that of the `State`
at which execution is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from detour.engine.compiler.ir import FALSE, FOLD, MAX_VALUE_BITS, TRUE, Function, Module, Value, const
from detour.testgen.state import UNKNOWN_WIDTH, State, chosen, z3

Term = Any
"""z3 has no types for its operators"""

_BOOLEAN: dict[str, Callable[[Term, Term], Term]] = {
    "add": z3.Xor, "sub": z3.Xor, "xor": z3.Xor, "and": z3.And, "mul": z3.And, "or": z3.Or,
}  # fmt: skip
_RAW: dict[str, Callable[[Term, Term], Term]] = {
    "shl": lambda a, b: a << b, "lshr": z3.LShR, "ashr": lambda a, b: a >> b, "udiv": z3.UDiv, "urem": z3.URem,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Term, Term], Term]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "ult": z3.ULT, "ule": z3.ULE, "ugt": z3.UGT, "uge": z3.UGE,
    "slt": lambda a, b: a < b, "sle": lambda a, b: a <= b, "sgt": lambda a, b: a > b, "sge": lambda a, b: a >= b,
}  # fmt: skip


_PART_BYTES = MAX_VALUE_BITS // 8


class NotModelled(Exception):
    """Something of a program that symbolic execution does not follow; what, for people."""


def value_of(bits: int, term: Term) -> Value:
    """The value that a term is: a boolean one for one bit, else a bit vector of that width."""
    return Value(bits, cast(str, term))


def term_of(value: Value) -> Term:
    """The term of a value: boolean if it has one bit."""
    if value.const is not None:
        return z3.BoolVal(bool(value.const)) if value.bits == 1 else z3.BitVecVal(value.const, value.bits)
    return value.ref


def vector_of(value: Value) -> Term:
    """The term of a value as a bit vector, also of one bit."""
    if value.bits > 1:
        return term_of(value)
    if value.const is not None:
        return z3.BitVecVal(value.const, 1)
    return z3.If(term_of(value), z3.BitVecVal(1, 1), z3.BitVecVal(0, 1))


def from_vector(bits: int, term: Term) -> Value:
    """The value that a bit vector of that width is."""
    return value_of(bits, term == 1) if bits == 1 else value_of(bits, term)


def folded(value: Value) -> Value:
    """The value as a constant if z3 simplifies it to one."""
    if value.const is not None:
        return value
    term = z3.simplify(term_of(value))
    if z3.is_bv_value(term):
        return const(value.bits, term.as_long())
    if z3.is_true(term) or z3.is_false(term):
        return TRUE if z3.is_true(term) else FALSE
    return value_of(value.bits, term)


def concatenated(values: list[Value]) -> Value:
    """Values one behind the other, most significant first."""
    bits = sum(value.bits for value in values)
    if all(value.const is not None for value in values):
        number = 0
        for value in values:
            number = number << value.bits | (value.const or 0)
        return const(bits, number)
    terms = [vector_of(value) for value in values]
    return from_vector(bits, terms[0] if len(terms) == 1 else z3.Concat(*terms))


def constants(data: bytes) -> list[Value]:
    """Bytes as constants, one behind the other, none of which is too wide."""
    parts = (data[at : at + _PART_BYTES] for at in range(0, len(data), _PART_BYTES))
    return [const(8 * len(part), int.from_bytes(part, "big")) for part in parts]


class SymbolicFunction(Function):
    """Makes terms; `state` is where execution is."""

    def __init__(self) -> None:
        super().__init__("symbolic")
        self.state = State()
        self.product: Callable[[Value, Value], Value] | None = None
        """makes a product of what nobody knows yet; None: its term, which is hard to solve"""

    def op(self, name: str, a: Value, b: Value) -> Value:
        known = self.folded(name, a, b)
        if known is not None:
            return known
        ones = (1 << a.bits) - 1
        for one, other in ((a, b), (b, a)):
            if (name == "mul" and one.const == 0) or (name == "or" and one.const == ones):
                return one
            if name == "and" and one.const == ones:
                return other
        if a.bits == 1:
            if name == "xor" and 1 in (a.const, b.const):
                return value_of(1, z3.Not(term_of(b if a.const else a)))
            return value_of(1, _BOOLEAN[name](term_of(a), term_of(b)))
        if name == "mul" and self.product is not None and a.const is None and b.const is None:
            return self.product(a, b)
        return value_of(a.bits, FOLD[name](term_of(a), term_of(b)))

    def raw(self, name: str, a: Value, b: Value) -> Value:
        value = from_vector(a.bits, _RAW[name](vector_of(a), vector_of(b)))
        return folded(value) if a.const is not None else value

    def resize(self, a: Value, bits: int, signed: bool = False) -> Value:
        if bits == a.bits or a.const is not None:
            return super().resize(a, bits, signed)
        if a.bits == 1:
            one = z3.BitVecVal(-1 if signed else 1, bits)
            return value_of(bits, z3.If(term_of(a), one, z3.BitVecVal(0, bits)))
        if bits < a.bits:
            return from_vector(bits, z3.Extract(bits - 1, 0, term_of(a)))
        return value_of(bits, (z3.SignExt if signed else z3.ZeroExt)(bits - a.bits, term_of(a)))

    def compare(self, how: str, a: Value, b: Value) -> Value:
        if a.const is not None and b.const is not None:
            if how[0] != "s":
                return super().compare(how, a, b)
            return folded(value_of(1, _COMPARE[how](vector_of(a), vector_of(b))))
        if a.bits == 1 and how in ("eq", "ne"):
            return self.op("xor", self.op("xor", a, b), TRUE if how == "eq" else FALSE)
        return value_of(1, _COMPARE[how](vector_of(a), vector_of(b)))

    def select(self, cond: Value, a: Value, b: Value) -> Value:
        if cond.const is not None:
            return a if cond.const else b
        return chosen(term_of(cond), a, b)

    def swap_bytes(self, a: Value) -> Value:
        if a.const is not None or a.bits == 8:
            return super().swap_bytes(a)
        parts = [z3.Extract(at + 7, at, term_of(a)) for at in range(0, a.bits, 8)]
        return value_of(a.bits, z3.Concat(*parts))

    @contextmanager
    def scratch(self) -> Iterator[None]:
        before = self.state
        self.state = before.copy()
        yield
        self.state = before

    # -- memory

    def at(self, base: str, offset: int | Value) -> str:
        if isinstance(offset, Value):
            if offset.const is None:
                raise NotModelled("an address that is computed")
            offset = offset.const
        return f"{base}+{offset}" if offset else base

    def load(self, bits: int, address: str, align: int = 1) -> Value:
        value = self.state.memory.get(address, const(bits, 0))
        if value.bits == UNKNOWN_WIDTH:
            raise NotModelled("a field of variable length whose length depends on conditions")
        return self.resize(value, bits)

    def store(self, value: Value, address: str, align: int = 1) -> None:
        self.state.memory[address] = value

    def load_pointer(self, address: str) -> str:
        raise NotModelled("memory of the switch")

    def alloca(self, kind: str, align: int = 8) -> str:
        self._names += 1
        return f"%v{self._names}"


class SymbolicModule(Module):
    """Functions are never called, so there is one that all share."""

    def __init__(self) -> None:
        super().__init__()
        self.one = SymbolicFunction()

    def function(self, head: str) -> Function:
        return self.one
