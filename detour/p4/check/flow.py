# SPDX-License-Identifier: Apache-2.0
"""Warnings that follow from the order of statements (specification, section 8.24): variables that are read before they
have a value, and fields of headers that are surely invalid.

An abstract run of each body: at each point it knows which variables may have no value, and which headers are invalid
on all paths. Where paths meet, the first set grows and the second shrinks: a warning about headers is never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeGuard

from detour.p4 import core, types
from detour.p4.check.checker import Checker
from detour.p4.check.constants import CALLS
from detour.p4.check.places import PARTS, root_of
from detour.p4.source import Located

Place = tuple[core.Declaration | str, ...]
"""A variable, and the names of fields below it."""
Parameters = tuple[core.Variable, ...]


@dataclass(slots=True)
class State:
    """The knowledge at one point; `dead`: no path leads there."""

    unset: set[core.Declaration] = field(default_factory=set)
    invalid: set[Place] = field(default_factory=set)
    dead: bool = False

    def copy(self) -> State:
        return State(set(self.unset), set(self.invalid), self.dead)

    def join(self, other: State) -> State:
        """The state where both paths meet."""
        if self.dead or other.dead:
            return (other if self.dead else self).copy()
        return State(self.unset | other.unset, self.invalid & other.invalid)


def warn_of_flow(c: Checker, declarations: Iterable[core.Declaration]) -> None:
    """Warnings for all bodies of the user's source."""
    flow = Flow(c)
    for declaration in declarations:
        if declaration.span.file.standard:
            continue
        if isinstance(declaration, core.Control):
            flow.control(declaration)
        elif isinstance(declaration, core.Parser):
            flow.parser(declaration)
        elif isinstance(declaration, core.Function | core.Action):
            flow.body(declaration)


def header_places(place: Place, kind: types.Type) -> Iterable[Place]:
    """Headers in a variable, but for those in stacks and unions."""
    if isinstance(kind, types.Header):
        yield place
    elif isinstance(kind, types.Struct):
        for part in kind.fields:
            yield from header_places((*place, part.name), part.type)


def has_headers(kind: types.Type) -> bool:
    """Whether a value of the type starts as something known: headers are invalid at first."""
    if isinstance(kind, types.Struct):
        return any(map(has_headers, types.components(kind)))
    return isinstance(kind, types.Header | types.Union | types.Stack)


def place_of(value: core.Expression) -> Place | None:
    """The place that an expression names; None where an index or a call is in it."""
    names: list[str] = []
    while isinstance(value, core.Member):
        names.append(value.name)
        value = value.base
    if not isinstance(value, core.Ref) or not isinstance(value.declaration, core.Variable):
        return None
    return (value.declaration, *reversed(names))


def is_field(value: object) -> TypeGuard[core.Member]:
    """Whether it is a field of a header."""
    return isinstance(value, core.Member) and isinstance(value.base.type, types.Header)


class Flow:
    """Abstract runs of one body after the other."""

    def __init__(self, c: Checker) -> None:
        self.c = c
        self.state = State()
        self.silent = False
        self._written: dict[core.Action, set[core.Declaration | None]] = {}

    def warn(self, kind: str, at: Located, text: str) -> None:
        if not self.silent and not self.state.dead:
            self.c.warn(kind, at, text)

    # ------------------------------------------------------------ bodies

    def body(self, node: core.Function | core.Action | core.Control, first: Iterable[core.Statement] = ()) -> None:
        """A body, after declarations that stand before it."""
        if node.body is not None:
            self._enter(node.parameters)
            self.statements((*first, node.body))
            self._leave(node.parameters, node.name)

    def control(self, control: core.Control) -> None:
        for local in control.locals:
            if isinstance(local, core.Action):
                self.body(local)
        self.body(control, [local for local in control.locals if isinstance(local, core.Declare)])

    def parser(self, parser: core.Parser) -> None:
        """Run states until what is known at their beginnings is stable, then once more with warnings."""
        self.silent = True
        self._enter(parser.parameters)
        self.statements(local for local in parser.locals if isinstance(local, core.Declare))
        begins = {"start": self.state}
        todo = ["start"]
        states = {state.name: state for state in parser.states}
        while todo:
            state = states.get(todo.pop())
            if state is None:
                continue
            self._parser_state(state, begins)
            for case in state.transition.cases if state.transition is not None else ():
                name = case.state.name
                before = begins.get(name)
                after = self.state if before is None else before.join(self.state)
                if after != before:
                    begins[name] = after.copy()
                    todo.append(name)
        self.silent = False
        for name in begins:
            self._parser_state(states[name], begins)
            if name == "accept":
                self._leave(parser.parameters, parser.name)

    def _parser_state(self, state: core.State, begins: dict[str, State]) -> None:
        self.state = begins[state.name].copy()
        self.statements(state.statements)
        self.read(state.transition.expressions if state.transition is not None else ())

    def _enter(self, parameters: Parameters) -> None:
        self.state = State()
        for parameter in parameters:
            if parameter.direction == "out":
                self._begin(parameter)

    def _leave(self, parameters: Parameters, name: str) -> None:
        for parameter in parameters:
            if parameter.direction == "out" and parameter in self.state.unset:
                self.warn("uninitialized", parameter, f"{parameter.name} may have no value at the end of {name}")

    def _begin(self, variable: core.Variable) -> None:
        """A variable without a value: headers in it are invalid."""
        if isinstance(variable.type, types.Struct) and not variable.type.fields:
            return
        if has_headers(variable.type):
            self.state.invalid.update(header_places((variable,), variable.type))
        else:
            self.state.unset.add(variable)

    # ------------------------------------------------------------ statements

    def statements(self, nodes: Iterable[core.Statement]) -> None:
        for node in nodes:
            self.statement(node)

    def statement(self, node: core.Statement) -> None:
        match node:
            case core.BlockStatement():
                self.statements(node.statements)
            case core.Assign():
                self.read(node.value)
                self._write(node.target, valid=not isinstance(node.value, core.InvalidHeader))
            case core.CallStatement():
                self.read(node.call)
            case core.Declare():
                self._begin(node.variable)
                if node.initial is not None:
                    self.read(node.initial)
                    self.state.unset.discard(node.variable)
                    if not isinstance(node.initial, core.InvalidHeader):
                        self._forget((node.variable,))
            case core.If():
                self.read(node.condition)
                self._branches([node.yes, node.no])
            case core.Switch():
                self.read(node.subject)
                complete = any(None in case.labels for case in node.cases)
                self._branches([*(case.body for case in node.cases), *([] if complete else [None])])
            case core.For():
                self.statements(node.initial)
                self.read(node.condition)
                self._loop(node.body, *node.update)
            case core.ForIn():
                self.read(node.collection)
                self._loop(node.body)
            case _:
                self.read(node.value if isinstance(node, core.Return) else None)
                self.state.dead = True

    def _branches(self, bodies: list[core.Statement | None]) -> None:
        """Alternatives, one of which runs; None is one that does nothing."""
        begin, result = self.state, None
        for body in bodies:
            self.state = begin.copy()
            if body is not None:
                self.statement(body)
            result = self.state if result is None else result.join(self.state)
        self.state = result if result is not None else begin

    def _loop(self, *nodes: core.Statement) -> None:
        before = self.state.copy()
        self.statements(nodes)
        self.state = before.join(self.state)

    # ------------------------------------------------------------ places

    def _write(self, target: core.Expression, *, valid: bool = True) -> None:
        """An assignment to the target, or to a part of it."""
        self._read_indexes(target)
        self._check_valid(target)
        self._touch(target, valid=valid)

    def _touch(self, target: core.Expression, *, valid: bool) -> None:
        root, place = root_of(target), place_of(target)
        if root is None:
            return
        self.state.unset.discard(root)
        if place is None:
            self._forget((root,))
        elif not is_field(target):
            self._forget(place)
            if not valid:
                self.state.invalid.update(header_places(place, target.type))

    def _forget(self, place: Place) -> None:
        self.state.invalid = {one for one in self.state.invalid if one[: len(place)] != place}

    def _read_indexes(self, value: core.Expression) -> None:
        while isinstance(value, PARTS):
            self.read(value.index if isinstance(value, core.Index) else None)
            self.read(value.low if isinstance(value, core.Slice) else None)
            value = value.base

    def _check_valid(self, value: object) -> None:
        if is_field(value) and place_of(value.base) in self.state.invalid:
            self.warn("invalid", value, f"{value.span.text} is a field of a header that is invalid here")

    # ------------------------------------------------------------ expressions

    def read(self, value: object) -> None:
        """An expression, or a tuple of such; None and what else stands among parts pass."""
        if isinstance(value, core.Ref):
            if value.declaration in self.state.unset:
                self.warn("uninitialized", value, f"{value.declaration.name} may be read before it has a value")
        elif isinstance(value, CALLS):
            self._read_call(value)
        elif isinstance(value, core.Expression):
            self._check_valid(value)
            for part in core.parts(value):
                self.read(part)
        elif isinstance(value, tuple):
            for part in value:
                self.read(part)

    def _read_call(self, value: core.Expression) -> None:
        match value:
            case core.CallFunction(function=callee) | core.CallMethod(method=callee):
                self._call(callee.parameters, value.arguments)
            case core.CallAction():
                self._run_action(value.action, value.arguments)
            case core.Apply(target=core.Ref(declaration=core.Table() as table)):
                self.read(tuple(key.expression for key in table.keys))
                for choice in table.actions:
                    self._run_action(choice.action, choice.arguments)
            case core.Apply(target=core.Expression(type=types.Block() as kind)):
                self._call(kind.declaration.parameters, value.arguments)
            case core.CallBuiltin():
                if value.name != "isValid":
                    self._touch(value.receiver, valid=value.name != "setInvalid")
                self._read_indexes(value.receiver)
            case core.ApplyResult():
                self.read(value.apply)

    def _call(self, parameters: Parameters, arguments: tuple[core.Expression | None, ...]) -> None:
        pairs = [*zip(parameters, arguments, strict=False)]
        for parameter, argument in pairs:
            if parameter.direction in ("", "in"):
                self.read(argument)
        for parameter, argument in pairs:
            if argument is not None and parameter.direction in ("out", "inout"):
                self._write(argument)

    def _run_action(self, action: core.Action, arguments: tuple[core.Expression | None, ...]) -> None:
        """Run an action: what it may write counts as written: better no warning than a wrong one."""
        self._call(action.parameters, arguments)
        for root in self._written_by(action):
            if root is not None:
                self.state.unset.discard(root)
                self._forget((root,))

    def _written_by(self, action: core.Action) -> set[core.Declaration | None]:
        """Variables that the action's body writes."""
        if action not in self._written:
            nodes = [*core.walk(action.body)]
            roots = {root_of(target) for node in nodes for target in core.written(node)}
            inner = (self._written_by(node.action) for node in nodes if isinstance(node, core.CallAction))
            self._written[action] = roots.union(*inner)
        return self._written[action]
