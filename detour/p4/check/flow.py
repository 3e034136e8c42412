# SPDX-License-Identifier: Apache-2.0
"""Warnings that follow from the order of statements (specification, section 8.24): variables that are read before they
have a value, and fields of headers that are surely invalid.

An abstract run of each body: at each point it knows which variables may have no value, and which headers are invalid
on all paths. Where paths meet, the first set grows and the second shrinks: a warning about headers is never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from detour.p4 import core, types
from detour.p4.check.checker import Checker
from detour.p4.check.places import root_of
from detour.p4.source import Span

Place = tuple[core.Declaration | str, ...]
"""A variable, and the names of fields below it."""


@dataclass(slots=True)
class State:
    """What is known at one point; `dead`: no path leads there."""

    unset: set[core.Declaration] = field(default_factory=set)
    invalid: set[Place] = field(default_factory=set)
    dead: bool = False

    def copy(self) -> State:
        return State(set(self.unset), set(self.invalid), self.dead)

    def join(self, other: State) -> State:
        """Where both paths meet."""
        if self.dead or other.dead:
            return (other if self.dead else self).copy()
        return State(self.unset | other.unset, self.invalid & other.invalid)


def warn_of_flow(c: Checker, declarations: Iterable[core.Declaration]) -> None:
    """Warnings for all bodies of the user's source."""
    for declaration in declarations:
        if declaration.span.file.standard:
            continue
        if isinstance(declaration, core.Control):
            _control(c, declaration)
        elif isinstance(declaration, core.Parser):
            _parser(c, declaration)
        elif isinstance(declaration, core.Function | core.Action) and declaration.body is not None:
            _body(c, declaration.parameters, declaration.body, declaration.name)


def has_headers(kind: types.Type) -> bool:
    """Whether a value of the type starts as something known: headers are invalid at first."""
    if isinstance(kind, types.Struct):
        return any(has_headers(part.type) for part in kind.fields)
    return isinstance(kind, types.Header | types.Union | types.Stack)


def header_places(place: Place, kind: types.Type) -> Iterable[Place]:
    """Headers in a variable, but for those in stacks and unions."""
    if isinstance(kind, types.Header):
        yield place
    elif isinstance(kind, types.Struct):
        for part in kind.fields:
            yield from header_places((*place, part.name), part.type)


def place_of(value: core.Expression) -> Place | None:
    """The place that an expression names; None where an index or a call is in it."""
    names: list[str] = []
    while isinstance(value, core.Member):
        names.append(value.name)
        value = value.base
    if not isinstance(value, core.Ref) or not isinstance(value.declaration, core.Variable):
        return None
    return (value.declaration, *reversed(names))


# ---------------------------------------------------------------- bodies


def _body(c: Checker, parameters: tuple[core.Variable, ...], body: core.Statement, name: str) -> None:
    run = Run(c)
    run.enter(parameters)
    run.statement(body)
    run.leave(parameters, name)


def _control(c: Checker, control: core.Control) -> None:
    assert control.body is not None
    for one in control.locals:
        if isinstance(one, core.Action) and one.body is not None:
            _body(c, one.parameters, one.body, one.name)
    run = Run(c)
    run.enter(control.parameters)
    for one in control.locals:
        if isinstance(one, core.Declare):
            run.statement(one)
    run.statement(control.body)
    run.leave(control.parameters, control.name)


def _parser(c: Checker, parser: core.Parser) -> None:
    """Runs states until what is known at their beginnings is stable, then once more with warnings."""
    silent = Run(c, silent=True)
    silent.enter(parser.parameters)
    for one in parser.locals:
        if isinstance(one, core.Declare):
            silent.statement(one)
    begins = {"start": silent.state}
    todo = ["start"]
    states = {state.name: state for state in parser.states}
    while todo:
        state = states.get(todo.pop())
        if state is None:
            continue
        end = _state(Run(c, begins[state.name].copy(), silent=True), state)
        for case in state.transition.cases if state.transition is not None else ():
            name = case.state.name
            before = begins.get(name)
            after = end if before is None else before.join(end)
            if before is None or after != before:
                begins[name] = after.copy()
                todo.append(name)
    for name, begin in begins.items():
        run = Run(c, begin.copy())
        _state(run, states[name])
        if name == "accept":
            run.leave(parser.parameters, parser.name)


def _state(run: Run, state: core.State) -> State:
    for statement in state.statements:
        run.statement(statement)
    for expression in state.transition.expressions if state.transition is not None else ():
        run.read(expression)
    return run.state


class Run:
    """One abstract run; with `silent` without warnings."""

    def __init__(self, c: Checker, state: State | None = None, *, silent: bool = False) -> None:
        self.c = c
        self.state = state or State()
        self.silent = silent

    def warn(self, kind: str, span: Span, text: str) -> None:
        if not self.silent and not self.state.dead:
            self.c.warn(kind, span, text)

    def enter(self, parameters: tuple[core.Variable, ...]) -> None:
        for parameter in parameters:
            if parameter.direction == "out":
                self.begin(parameter)

    def leave(self, parameters: tuple[core.Variable, ...], name: str) -> None:
        for parameter in parameters:
            if parameter.direction == "out" and parameter in self.state.unset:
                self.warn("uninitialized", parameter.span, f"{parameter.name} may have no value at the end of {name}")

    def begin(self, variable: core.Variable) -> None:
        """A variable without a value: headers in it are invalid."""
        if isinstance(variable.type, types.Struct) and not variable.type.fields:
            return
        if has_headers(variable.type):
            self.state.invalid.update(header_places((variable,), variable.type))
        else:
            self.state.unset.add(variable)

    # ------------------------------------------------------------ statements

    def statement(self, node: core.Statement) -> None:
        STATEMENTS[type(node)](self, node)

    def branches(self, bodies: list[core.Statement | None]) -> None:
        """Alternatives, one of which runs; None is one that does nothing."""
        begin, result = self.state, None
        for body in bodies:
            self.state = begin.copy()
            if body is not None:
                self.statement(body)
            result = self.state if result is None else result.join(self.state)
        self.state = result if result is not None else begin

    def loop(self, parts: tuple[core.Statement, ...]) -> None:
        before = self.state.copy()
        for part in parts:
            self.statement(part)
        self.state = before.join(self.state)

    # ------------------------------------------------------------ places

    def write(self, target: core.Expression, *, valid: bool = True) -> None:
        """An assignment to the target, or to a part of it."""
        self.read_indexes(target)
        if isinstance(target, core.Member) and isinstance(target.base.type, types.Header):
            self.check_valid(target)
        self.touch(target, valid=valid)

    def touch(self, target: core.Expression, *, valid: bool = True) -> None:
        root, place = root_of(target), place_of(target)
        if root is None:
            return
        self.state.unset.discard(root)
        if place is None:
            self.forget((root,))
        elif not (isinstance(target, core.Member) and isinstance(target.base.type, types.Header)):
            self.forget(place)
            if not valid:
                self.state.invalid.update(header_places(place, target.type))

    def forget(self, place: Place) -> None:
        self.state.invalid = {one for one in self.state.invalid if one[: len(place)] != place}

    def read_indexes(self, value: core.Expression) -> None:
        while isinstance(value, core.Member | core.Index | core.StackMember | core.Slice):
            if isinstance(value, core.Index):
                self.read(value.index)
            elif isinstance(value, core.Slice):
                self.read(value.low)
            value = value.base

    def check_valid(self, value: core.Member) -> None:
        place = place_of(value.base)
        if place in self.state.invalid:
            self.warn("invalid", value.span, f"{value.span.text} is a field of a header that is invalid here")

    # ------------------------------------------------------------ expressions

    def read(self, value: core.Expression) -> None:
        kind = type(value)
        if kind is core.Ref:
            if value.declaration in self.state.unset:  # type: ignore[attr-defined]
                name = value.declaration.name  # type: ignore[attr-defined]
                self.warn("uninitialized", value.span, f"{name} may be read before it has a value")
            return
        reader = READERS.get(kind)
        if reader is not None:
            reader(self, value)

    def call(self, parameters: tuple[core.Variable, ...], arguments: tuple[core.Expression | None, ...]) -> None:
        for parameter, argument in zip(parameters, arguments, strict=False):
            if argument is None:
                continue
            if parameter.direction in ("", "in"):
                self.read(argument)
        for parameter, argument in zip(parameters, arguments, strict=False):
            if argument is not None and parameter.direction in ("out", "inout"):
                self.write(argument)

    def effects(self, action: core.Action) -> None:
        """What an action may write counts as written: better no warning than a wrong one."""
        for root in written_by(action):
            self.state.unset.discard(root)
            self.forget((root,))


def written_by(action: core.Action) -> set[core.Declaration]:
    """Variables that the action's body writes."""
    run = Recorder()
    if action.body is not None:
        run.statement(action.body)
    return run.roots


class Recorder(Run):
    """A run that only collects what is written."""

    def __init__(self) -> None:
        self.state = State()
        self.silent = True
        self.roots: set[core.Declaration] = set()

    def touch(self, target: core.Expression, *, valid: bool = True) -> None:
        root = root_of(target)
        if root is not None:
            self.roots.add(root)

    def effects(self, action: core.Action) -> None:
        self.roots |= written_by(action)


# ---------------------------------------------------------------- rules for statements


def _assign(run: Run, node: core.Assign) -> None:
    run.read(node.value)
    run.write(node.target, valid=not isinstance(node.value, core.InvalidHeader))


def _declare(run: Run, node: core.Declare) -> None:
    run.begin(node.variable)
    if node.initial is not None:
        run.read(node.initial)
        run.state.unset.discard(node.variable)
        if not isinstance(node.initial, core.InvalidHeader):
            run.forget((node.variable,))


def _block(run: Run, node: core.BlockStatement) -> None:
    for statement in node.statements:
        run.statement(statement)


def _if(run: Run, node: core.If) -> None:
    run.read(node.condition)
    run.branches([node.yes, node.no])


def _switch(run: Run, node: core.Switch) -> None:
    run.read(node.subject)
    bodies: list[core.Statement | None] = [case.body for case in node.cases]
    if not any(None in case.labels for case in node.cases):
        bodies.append(None)
    run.branches(bodies)


def _for(run: Run, node: core.For) -> None:
    for statement in node.initial:
        run.statement(statement)
    run.read(node.condition)
    run.loop((node.body, *node.update))


def _for_in(run: Run, node: core.ForIn) -> None:
    run.read(node.collection)
    run.loop((node.body,))


def _end(run: Run, node: core.Statement) -> None:
    if isinstance(node, core.Return) and node.value is not None:
        run.read(node.value)
    run.state.dead = True


STATEMENTS: dict[type, Callable] = {
    core.Assign: _assign,
    core.Declare: _declare,
    core.BlockStatement: _block,
    core.CallStatement: lambda run, node: run.read(node.call),
    core.If: _if,
    core.Switch: _switch,
    core.For: _for,
    core.ForIn: _for_in,
    core.Return: _end,
    core.Exit: _end,
    core.Break: _end,
    core.Continue: _end,
}


# ---------------------------------------------------------------- rules for expressions


def _member(run: Run, value: core.Member) -> None:
    if isinstance(value.base.type, types.Header):
        run.check_valid(value)
    run.read(value.base)


def _builtin(run: Run, value: core.CallBuiltin) -> None:
    if value.name != "isValid":
        run.touch(value.receiver, valid=value.name != "setInvalid")
    run.read_indexes(value.receiver)


def _apply(run: Run, value: core.Apply) -> None:
    target = value.target
    if isinstance(target, core.Ref) and isinstance(target.declaration, core.Table):
        for key in target.declaration.keys:
            run.read(key.expression)
        for choice in target.declaration.actions:
            run.call(choice.action.parameters, choice.arguments)
            run.effects(choice.action)
        return
    declaration = getattr(target.type, "declaration", None)
    run.call(declaration.parameters if declaration is not None else (), value.arguments)


def _action(run: Run, value: core.CallAction) -> None:
    run.call(value.action.parameters, value.arguments)
    run.effects(value.action)


def _parts(*names: str) -> Callable[[Run, core.Expression], None]:
    def read(run: Run, value: core.Expression) -> None:
        for name in names:
            run.read(getattr(value, name))

    return read


def _each(run: Run, values: Iterable[core.Expression]) -> None:
    for value in values:
        run.read(value)


READERS: dict[type, Callable] = {
    core.Member: _member,
    core.StackMember: _parts("base"),
    core.Index: _parts("base", "index"),
    core.Slice: _parts("base", "low"),
    core.Unary: _parts("operand"),
    core.Cast: _parts("operand"),
    core.Binary: _parts("left", "right"),
    core.Conditional: _parts("condition", "yes", "no"),
    core.MaskSet: _parts("value", "mask"),
    core.RangeSet: _parts("low", "high"),
    core.TupleValue: lambda run, value: _each(run, value.elements),
    core.StructValue: lambda run, value: _each(run, (part for _, part in value.fields)),
    core.CallFunction: lambda run, value: run.call(value.function.parameters, value.arguments),
    core.CallMethod: lambda run, value: run.call(value.method.parameters, value.arguments),
    core.CallAction: _action,
    core.CallBuiltin: _builtin,
    core.Apply: _apply,
    core.ApplyResult: lambda run, value: run.read(value.apply),
}
