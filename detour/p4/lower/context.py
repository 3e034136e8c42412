# SPDX-License-Identifier: Apache-2.0
"""Context that all parts of lowering share, and the dispatch from kinds of nodes to the functions that lower them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from detour.p4 import core, ir
from detour.p4.lower import operators
from detour.p4.lower.builder import Builder
from detour.p4.lower.places import Operand, Place, ScalarPlace, Storage, leaves
from detour.p4.messages import CompileError, Message
from detour.p4.source import NOWHERE, Span
from detour.p4.types import BOOL, Type, Varbits, underlying

if TYPE_CHECKING:
    from detour.p4.elaborate import Block as Instance

Evaluate = Callable[["Context", Any], Operand]
Execute = Callable[["Context", Any], None]

EVALUATE: dict[type, Evaluate] = {}
EXECUTE: dict[type, Execute] = {}
LOCATE: dict[type, Callable[[Context, Any], Place]] = {}
"""Places of l-values; of `core.Expression`, for all others."""
BRANCH: dict[type, Callable[[Context, Any, ir.Block, ir.Block], None]] = {}
"""Conditions that are control flow of their own: they go to the first block or to the second."""
NOTHING = ir.Truth(False)
"""What a call without a result is worth."""

Lowering = TypeVar("Lowering", bound=Callable)


def registers(table: dict[type, Lowering], *kinds: type) -> Callable[[Lowering], Lowering]:
    """Register the function that lowers some kinds of nodes."""

    def register(function: Lowering) -> Lowering:
        table.update(dict.fromkeys(kinds, function))
        return function

    return register


evaluates = partial(registers, EVALUATE)
executes = partial(registers, EXECUTE)
locates = partial(registers, LOCATE)
branches = partial(registers, BRANCH)


class Architecture(Protocol):
    """Interface of lowering to the architecture: calls of its externs."""

    def function(self, ctx: Context, e: core.CallFunction) -> Operand: ...

    def method(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand: ...

    def table(self, ctx: Context, table: core.Table, lowered: ir.Table) -> None: ...


@dataclass(slots=True, eq=False)
class Frame:
    """A call that is being inlined. `copy_out` assigns arguments what parameters are worth at the end, in order."""

    exit: ir.Block
    result: Place | None = None
    function: core.Function | None = None
    copy_out: list[Callable[[], None]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Loop:
    """A loop that is being unrolled: where `break` and `continue` go."""

    exit: ir.Block
    again: ir.Block


@dataclass(slots=True, eq=False)
class Applied:
    """A table that was applied."""

    table: ir.Table
    meanings: Sequence[object]
    """What the parameters of the control around meant: where it is applied again they must mean the same."""
    places: list[ScalarPlace | None]
    """Temporaries of computed keys."""


class Context:
    """State of the lowering of a program."""

    def __init__(self, program: ir.Program, architecture: Architecture, main: Instance) -> None:
        self.program = program
        self.architecture = architecture
        self.storage = Storage(program)
        self.builder = Builder()
        self.bindings: dict[core.Declaration, Operand | Instance] = {}
        """What the names of variables and parameters mean where code is being lowered."""
        self.instance = main
        """The parser or control that is being inlined."""
        self.frames: list[Frame] = []
        self.loops: list[Loop] = []
        self.action_end: ir.Block | None = None
        """Where the action ends that is being lowered, if it is one."""
        self.parsing = False
        self.state_name = ""
        self.pipeline_end = ir.Block()
        self.tables: dict[tuple[Instance, core.Table], Applied] = {}
        self.variables: dict[tuple[Instance, core.Variable], Place] = {}
        self.unreached: list[tuple[core.Statement, Instance, list[Frame], list[Loop]]] = []
        """Statements that cannot run, with where they stand: tables that they apply are in the JSON all the same."""
        self.span = NOWHERE
        """Of the statement that is being lowered: primitives stand there."""

    # -- dispatch

    def evaluate(self, expression: core.Expression) -> Operand:
        return EVALUATE[type(expression)](self, expression)

    def value(self, expression: core.Expression) -> ir.Value:
        """The value of a scalar expression."""
        operand = EVALUATE[type(expression)](self, expression)
        if isinstance(operand, ir.Value | ScalarPlace):
            return self.scalar(operand)
        raise self.refuse(expression.span, f"a value of type {expression.type} is used as a number here")

    def data(self, expression: core.Expression) -> ir.Value:
        """The value of a scalar as a number: a bool is 0 or 1."""
        value = self.value(expression)
        return operators.as_data(value) if underlying(expression.type) == BOOL else value

    def number(self, expression: core.Expression, what: str) -> int:
        """A number that is known at compile time. Raises `CompileError`: `what` is not."""
        value = self.instance.value(expression)
        operand = self.data(value) if isinstance(value, core.Expression) else None
        if not isinstance(operand, ir.Const):
            raise self.refuse(expression.span, f"{what} must be known at compile time")
        return operand.number

    def locate(self, expression: core.Expression) -> Place:
        """The place that an l-value names; a temporary for something that is none, such as the result of a call."""
        return LOCATE.get(type(expression), LOCATE[core.Expression])(self, expression)

    def execute(self, statement: core.Statement) -> None:
        if self.builder.block is None:
            self.unreached.append((statement, self.instance, list(self.frames), list(self.loops)))
            return
        outer, self.span = self.span, statement.span
        EXECUTE[type(statement)](self, statement)
        self.span = outer

    # -- values and places

    def scalar(self, operand: Operand) -> ir.Value:
        """The value of a scalar operand."""
        if isinstance(operand, ScalarPlace):
            return self.read(operand)
        assert isinstance(operand, ir.Value), operand
        return operand

    def contents(self, operand: Operand) -> Operand:
        """The value of a place that is a scalar; other places are values themselves."""
        return self.read(operand) if isinstance(operand, ScalarPlace) else operand

    def read(self, place: ScalarPlace) -> ir.Value:
        """The value of a place: a known one, a condition if it is a bool."""
        value: ir.Value = place.ref
        if type(value) is ir.Field:
            value = self.builder.known.get(value, value)
        if place.type == BOOL or underlying(place.type) == BOOL:
            return operators.as_condition(value)
        return value

    def store(self, place: ScalarPlace, value: ir.Value) -> None:
        """Assign a scalar."""
        if type(place.type) is Varbits:
            self.call("assign_VL", place.ref, value)
            return
        if underlying(place.type) == BOOL:
            value = operators.as_data(value)
        if value == place.ref:
            return
        self.call("assign", place.ref, value)
        self.written(place, value)

    def written(self, place: Place, value: ir.Value | None = None) -> None:
        """Notes that a place has another value now; `value` if it is a scalar whose value is at hand."""
        known = self.builder.known
        for leaf in leaves(place) if known or type(value) is ir.Const else ():
            if type(leaf.ref) is ir.Field:
                known.pop(leaf.ref, None)
                if type(value) is ir.Const:
                    known[leaf.ref] = value
            elif type(leaf.ref) is ir.Named:
                self._forget(lambda header, name=leaf.ref.name: header == name)
            else:
                # An element of a stack, no one knows which.
                names = {each.name for each in ir.parts(leaf.ref) if type(each) is ir.Named}
                self._forget(lambda header, names=names: header.split("[")[0] in names)

    def _forget(self, is_changed: Callable[[str], bool]) -> None:
        known = self.builder.known
        for changed in [each for each in known if is_changed(each.header)]:
            del known[changed]

    def call(self, op: str, *arguments: ir.Value, span: Span | None = None) -> None:
        """A primitive."""
        self.builder.call(op, *arguments, span=span or self.span)

    def temporary(self, kind: Type, name: str = "tmp") -> Place:
        return self.storage.variable(kind, name, self.span)

    def scalar_temporary(self, kind: Type, name: str = "tmp") -> ScalarPlace:
        return self.storage.scalar(kind, name, self.span)

    # -- control flow

    @contextmanager
    def frame(self, frame: Frame) -> Iterator[None]:
        self.frames.append(frame)
        loops, self.loops = self.loops, []
        try:
            yield
        finally:
            self.frames.pop()
            self.loops = loops

    def refuse(self, span: Span, text: str, hint: str = "") -> CompileError:
        return CompileError(Message(text, span, hint))
