# SPDX-License-Identifier: Apache-2.0
"""What all parts of lowering share, and the dispatch from kinds of nodes to the functions that lower them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from detour.p4 import core, ir
from detour.p4.lower import operators
from detour.p4.lower.builder import Builder
from detour.p4.lower.places import HeaderPlace, Operand, Place, ScalarPlace, Storage, leaves
from detour.p4.messages import CompileError, Message, Messages
from detour.p4.source import Span
from detour.p4.types import BOOL, Type, Varbits, underlying

if TYPE_CHECKING:
    from detour.p4.elaborate import Block as Instance

Evaluate = Callable[["Context", Any], Operand]
Execute = Callable[["Context", Any], None]

EVALUATE: dict[type, Evaluate] = {}
EXECUTE: dict[type, Execute] = {}
LOCATE: dict[type, Callable[[Context, Any], Place]] = {}
BRANCH: dict[type, Callable[[Context, Any, ir.Block, ir.Block], None]] = {}
"""Conditions that are control flow of their own: they go to the first block or to the second."""


def evaluates(*kinds: type) -> Callable[[Evaluate], Evaluate]:
    """Registers the function that evaluates expressions of some kinds."""

    def register(function: Evaluate) -> Evaluate:
        EVALUATE.update(dict.fromkeys(kinds, function))
        return function

    return register


def executes(*kinds: type) -> Callable[[Execute], Execute]:
    """Registers the function that lowers statements of some kinds."""

    def register(function: Execute) -> Execute:
        EXECUTE.update(dict.fromkeys(kinds, function))
        return function

    return register


def branches(kind: type) -> Callable[[Any], Any]:
    """Registers the function that lowers conditions of a kind to control flow."""

    def register(function: Any) -> Any:
        BRANCH[kind] = function
        return function

    return register


class Architecture(Protocol):
    """What lowering asks the architecture: calls of its externs."""

    def function(self, context: Context, call: core.CallFunction) -> Operand: ...

    def method(self, context: Context, call: core.CallMethod, receiver: Instance) -> Operand: ...

    def table(self, context: Context, table: core.Table, lowered: ir.Table) -> None: ...


@dataclass(slots=True, eq=False)
class Frame:
    """A call that is being inlined. `copy_out` assigns arguments what parameters are worth at the end, in order."""

    exit: ir.Block
    result: Place | None = None
    copy_out: list[Callable[[], None]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Loop:
    """A loop that is being unrolled: where `break` and `continue` go."""

    exit: ir.Block
    again: ir.Block


class Context:
    """State of the lowering of a program."""

    def __init__(self, program: ir.Program, architecture: Architecture, messages: Messages) -> None:
        self.program = program
        self.architecture = architecture
        self.messages = messages
        self.storage = Storage(program)
        self.builder = Builder()
        self.bindings: dict[core.Declaration, Operand | Instance] = {}
        """What the names of variables and parameters mean where code is being lowered."""
        self.instance: Instance | None = None
        """The parser or control that is being inlined."""
        self.frames: list[Frame] = []
        self.loops: list[Loop] = []
        self.action: ir.Action | None = None
        """The action that is being lowered, if it is one."""
        self.action_end: ir.Block | None = None
        self.parsing = False
        self.state_name = ""
        self.pipeline_end = ir.Block()
        self.tables: dict[tuple[Instance | None, core.Table], ir.Table] = {}
        self.variables: dict[tuple[Instance | None, core.Variable], Place] = {}
        self.meanings: dict[ir.Table, list[object]] = {}
        """What the parameters of a table's control meant where it was applied first."""
        self.key_places: dict[ir.Table, list[Place | None]] = {}
        self.unreached: list[tuple[core.Statement, Instance | None, list[Frame], list[Loop]]] = []
        """Statements that cannot run, with where they stand: tables that they apply are in the JSON all the same."""
        self.span: Span | None = None
        """Of the statement that is being lowered: primitives stand there."""

    # -- dispatch

    def evaluate(self, expression: core.Expression) -> Operand:
        return EVALUATE[type(expression)](self, expression)

    def value(self, expression: core.Expression) -> ir.Value:
        """The value of a scalar expression."""
        operand = EVALUATE[type(expression)](self, expression)
        if isinstance(operand, ir.Value):
            return operand
        if isinstance(operand, ScalarPlace):
            return self.read(operand)
        raise self.refuse(expression.span, f"a value of type {expression.type} is used as a number here")

    def data(self, expression: core.Expression) -> ir.Value:
        """The value of a scalar as a number: a bool is 0 or 1."""
        value = self.value(expression)
        return operators.as_data(value) if underlying(expression.type) == BOOL else value

    def number(self, expression: core.Expression, what: str) -> int:
        """A number that is known at compile time. Raises `CompileError`: `what` is not."""
        assert self.instance is not None
        value = self.instance.value(expression)
        operand = self.data(value) if isinstance(value, core.Expression) else None
        if not isinstance(operand, ir.Const):
            raise self.refuse(expression.span, f"{what} must be known at compile time")
        return operand.number

    def locate(self, expression: core.Expression) -> Place:
        """The place that an l-value names."""
        return LOCATE[type(expression)](self, expression)

    def execute(self, statement: core.Statement) -> None:
        if self.builder.block is None:
            self.unreached.append((statement, self.instance, list(self.frames), list(self.loops)))
            return
        outer, self.span = self.span, statement.span
        EXECUTE[type(statement)](self, statement)
        self.span = outer

    # -- values and places

    def read(self, place: ScalarPlace) -> ir.Value:
        """The value of a place: a known one, a condition if it is a bool."""
        value: ir.Value = place.value
        if type(value) is ir.Field:
            value = self.builder.known.get(value, value)
        if place.type == BOOL or underlying(place.type) == BOOL:
            return operators.as_condition(value)
        return value

    def store(self, place: ScalarPlace, value: ir.Value) -> None:
        """Assigns a scalar."""
        if type(place.type) is Varbits:
            self.call("assign_VL", place.value, value)
            return
        if underlying(place.type) == BOOL:
            value = operators.as_data(value)
        if value == place.value:
            return
        self.call("assign", place.value, value)
        self.written(place, value)

    def written(self, place: Place, value: ir.Value | None = None) -> None:
        """Notes that a place has another value now; `value` if it is a scalar whose value is at hand."""
        known = self.builder.known
        if isinstance(place, ScalarPlace):
            target = place.value
            if type(target) is ir.Field:
                if type(value) is ir.Const:
                    known[target] = value
                else:
                    known.pop(target, None)
            else:
                self._forget_stack(target)
            return
        if known:
            if isinstance(place, HeaderPlace):
                if type(place.ref) is ir.Named:
                    self.builder.forget_header(place.ref.name)
                else:
                    self._forget_stack(place.ref)
            else:
                for leaf in leaves(place):
                    self.written(leaf)

    def _forget_stack(self, chosen: ir.Value) -> None:
        """An element of a stack has changed, no one knows which."""
        names = {part.name for part in ir.parts(chosen) if type(part) is ir.Named}
        known = self.builder.known
        self.builder.known = {field: value for field, value in known.items() if field.header.split("[")[0] not in names}

    def call(self, op: str, *arguments: ir.Value, span: Span | None = None) -> None:
        """A primitive; conditions among the arguments become numbers."""
        self.builder.call(op, *arguments, span=span or self.span or core.NOWHERE)

    def temporary(self, kind: Type, name: str = "tmp") -> Place:
        return self.storage.variable(kind, name, self.span or core.NOWHERE)

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


def as_value(ctx: Context, operand: Operand) -> ir.Value:
    """The value of a scalar operand."""
    if isinstance(operand, ir.Value):
        return operand
    assert isinstance(operand, ScalarPlace)
    return ctx.read(operand)
