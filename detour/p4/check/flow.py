# SPDX-License-Identifier: Apache-2.0
"""Warnings that follow from the order of statements (specification, sections 6.7, 8.17 and 8.25): values that are read
before they are written, and fields of headers that may be invalid.

An abstract run of the blocks that `main` uses. At each point it knows which parts of variables are open: values that
are missing, and headers that are invalid, on some path to that point. Loops and parser states run until that is
stable. Actions run where they are called; of parsers, controls and functions a call sees the parameters only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest

from detour.p4 import core, types
from detour.p4.check.constants import CALLS, value_of
from detour.p4.check.places import PARTS, Place, is_field, places_below, places_of
from detour.p4.messages import Messages
from detour.p4.source import Located, Span

Open = frozenset[Place] | None
"""Open places at one point; None: no path leads there."""
Source = core.Expression | list[Place] | None
"""An expression that is assigned, or the places that it may name. None: a value with all its parts."""
Block = core.ParserOrControl | core.Function


def warn_of_flow(blocks: Iterable[core.Declaration], messages: Messages) -> None:
    """Warnings for parsers and controls, and for the functions that they call."""
    flow = Flow(messages)
    for block in blocks:
        flow.reach(block)
    for block in flow.reached:
        flow.run_block(block)


def join(*points: Open) -> Open:
    """The open places where paths meet."""
    alive = [point for point in points if point is not None]
    return frozenset().union(*alive) if alive else None


class Flow:
    """Abstract runs of one block after the other. `open` is what is known at the current point."""

    def __init__(self, messages: Messages) -> None:
        self.messages = messages
        self.open: Open = frozenset()
        self.reached: list[Block] = []
        """Blocks and functions that are called, in the order in which they are found."""
        self._silent = False
        self._warned: set[tuple[str, Span]] = set()
        self._jumps: dict[type, list[Open]] = {}
        """Points from which control goes elsewhere, by the kind of the statement that does it."""

    def warn(self, kind: str, at: Located, text: str) -> None:
        if not self._silent and (kind, at.span) not in self._warned:
            self._warned.add((kind, at.span))
            self.messages.warn(kind, at, text)

    # ------------------------------------------------------------ blocks

    def reach(self, block: core.Declaration) -> None:
        """Note a parser, control or function of the program that must be run too."""
        if isinstance(block, core.Function) and block.body is None:
            return
        if isinstance(block, Block) and not block.span.file.standard and block not in self.reached:
            self.reached.append(block)

    def run_block(self, block: Block) -> None:
        """Run a block on its own, and look at its out parameters at the end."""
        self.open = frozenset()
        for parameter in block.parameters:
            if parameter.direction == "out":
                self._begin(parameter)
        for local in block.locals if isinstance(block, core.ParserOrControl) else ():
            if isinstance(local, core.Declare):
                self.run(local)
        with self._collect(core.Return, core.Exit) as (returns, exits):
            if isinstance(block, core.Parser):
                self._states(block)
            elif isinstance(block, core.Control | core.Function):
                self.run(block.body)
        self.open = join(self.open, *returns, *exits)
        self._leave(block.parameters, block.name)

    def _states(self, parser: core.Parser) -> None:
        """Run states until what is known at their beginnings is stable, then once more with warnings."""
        states = {state.name: state for state in parser.states}
        begins: dict[str, Open] = {"start": self.open}

        def run(name: str) -> Iterable[str]:
            """One state: the names of those after it."""
            state = states[name]
            self.open = begins[name]
            self.run(state.statements)
            if state.transition is None:
                return ()
            self.run(state.transition.expressions)
            return (case.state.name for case in state.transition.cases)

        with self._silence():
            todo = ["start"]
            while todo:
                for name in run(todo.pop()):
                    after = join(begins.get(name), self.open)
                    if name not in begins or after != begins[name]:
                        begins[name] = after
                        todo.append(name)
        for name in begins:
            run(name)
        self.open = join(begins.get("accept"), begins.get("reject"))

    def _begin(self, variable: core.Variable) -> None:
        """A variable without a value; headers in it are invalid."""
        self._add(places_below((variable,), variable.type))

    def _leave(self, parameters: Sequence[core.Variable], name: str) -> None:
        for one in parameters:
            if one.direction == "out" and self._lacks((one,), one.type, headers=False):
                self.warn("uninitialized-out-param", one, f"{one.name} may have no value at the end of {name}")

    # ------------------------------------------------------------ statements and expressions

    def run(self, node: object) -> None:
        """Run a statement, read an expression, or do so with all in a tuple; None and names pass."""
        if self.open is None:
            return
        if isinstance(node, tuple):
            for one in node:
                self.run(one)
        elif isinstance(node, core.Statement):
            self._statement(node)
        elif isinstance(node, core.Expression):
            self._read(node)

    def _statement(self, node: core.Statement) -> None:
        match node:
            case core.BlockStatement():
                self.run(node.statements)
            case core.Assign():
                self._write(node.target)
                self.run(node.value)
                self._store(node.target, node.value)
            case core.CallStatement():
                self.run(node.call)
            case core.Declare(variable=variable, initial=initial):
                self._begin(variable)
                if initial is not None:
                    self.run(initial)
                    self._store(_reference(variable), initial)
            case core.If():
                self.run(node.condition)
                self._branches(
                    partial(self._if, node.condition, True, node.yes), partial(self._if, node.condition, False, node.no)
                )
            case core.Switch():
                self.run(node.subject)
                self._branches(*(partial(self.run, body) for body in _bodies(node)))
            case core.For():
                self.run(node.initial)
                self._loop(node.condition, node.body, node.update)
            case core.ForIn():
                self.run(node.collection)
                self._loop(None, node.body, ())
            case core.Return() | core.Exit() | core.Break() | core.Continue():
                self.run(core.parts(node))
                self._jumps[type(node)].append(self.open)
                self.open = None

    def _if(self, condition: core.Expression, holds: bool, node: core.Expression | core.Statement | None) -> None:
        """Run what runs where a condition holds, or does not."""
        self._assume(condition, holds)
        self.run(node)

    def _branches(self, *branches: Callable[[], object]) -> None:
        """Alternatives, one of which runs."""
        begin, ends = self.open, []
        for branch in branches:
            self.open = begin
            branch()
            ends.append(self.open)
        self.open = join(*ends) if branches else begin

    def _loop(self, condition: core.Expression | None, body: core.Statement, update: Sequence[core.Statement]) -> None:
        """Run a loop until what is known at its beginning is stable, then once more with warnings."""
        begin = self.open

        def run() -> Open:
            """One round: what is known after the loop."""
            self.open = begin
            self.run(condition)
            after = self.open
            with self._collect(core.Break, core.Continue) as (breaks, continues):
                self.run(body)
            self.open = join(self.open, *continues)
            self.run(update)
            return join(after, *breaks)

        with self._silence():
            run()
            while (joined := join(begin, self.open)) != begin:
                begin = joined
                run()
        self.open = run()

    @contextmanager
    def _collect(self, *kinds: type) -> Iterator[list[list[Open]]]:
        """A part of the program around jumps of some kinds: the points from which they come."""
        outside, lists = self._jumps, [[] for _ in kinds]
        self._jumps = {**outside, **dict(zip(kinds, lists, strict=True))}
        yield lists
        self._jumps = outside

    @contextmanager
    def _silence(self) -> Iterator[None]:
        before, self._silent = self._silent, True
        yield
        self._silent = before

    def _assume(self, condition: core.Expression, holds: bool) -> None:
        """Go on where a condition holds, or does not: headers that it asks for are valid there, with all fields."""
        match condition:
            case core.Literal() if condition.value != holds:
                self.open = None
            case core.Unary(operator="!"):
                self._assume(condition.operand, not holds)
            case core.Binary(operator="&&" | "||") if (condition.operator == "&&") == holds:
                self._assume(condition.left, holds)
                self._assume(condition.right, holds)
            case core.CallBuiltin(name="isValid", receiver=header) if holds:
                self._clear(below for place in places_of(header) for below in places_below(place, header.type))

    # ------------------------------------------------------------ places

    def _clear(self, places: Iterable[Place]) -> None:
        if self.open:
            self.open = self.open.difference(places)

    def _add(self, places: Iterable[Place]) -> None:
        if self.open is not None:
            self.open = self.open.union(places)

    def _lacks(self, place: Place, kind: types.Type, *, headers: bool = True) -> bool:
        """Return whether a value may be missing. Of a union one header will do; `headers`: look at their fields too."""
        if not self.open or (not headers and isinstance(kind, types.Header | types.Union)):
            return False
        parts = [self._lacks((*place, name), part, headers=headers) for name, part in types.members(kind)]
        if parts:
            return all(parts) if isinstance(kind, types.Union) else any(parts)
        return place in self.open and not isinstance(kind, types.Header)

    def _is_invalid(self, source: Source) -> bool:
        """Return whether a header that is assigned may be invalid."""
        if isinstance(source, list):
            return self.open is not None and bool(source) and self.open.issuperset(source)
        return isinstance(source, core.InvalidHeader)

    def _check_valid(self, value: core.Expression) -> None:
        if is_field(value) and self._is_invalid(places_of(value.base)):
            self.warn("invalid-header", value, f"{value.span.text} is a field of a header that may be invalid here")

    def _write(self, target: core.Expression) -> None:
        """The expressions in a target, whose own value is not read but where only a slice of it is written."""
        if isinstance(target, core.Slice):
            self.run(target)
        else:
            self._pass_parts(target)

    def _store(self, target: core.Expression, source: Source) -> None:
        """Make the target what the source is."""
        places, kind = places_of(target), target.type
        opened = [*self._opened(places[0], kind, source)] if len(places) == 1 else []
        if self.open:
            self._clear(below for place in places for below in places_below(place, kind))
        self._add(opened)
        self._choose(target)

    def _opened(self, place: Place, kind: types.Type, source: Source) -> Iterator[Place]:
        """Headers below a place that may be invalid once it is what the source is."""
        if isinstance(source, (core.Ref, *PARTS)):
            source = places_of(source)
        if isinstance(kind, types.Header):
            if self._is_invalid(source):
                yield place
        elif source is not None:
            for name, part in types.members(kind):
                yield from self._opened((*place, name), part, _part(source, name))

    def _choose(self, target: core.Expression) -> None:
        """The other headers of a union become invalid when one of them changes."""
        if isinstance(target, core.Member) and isinstance(target.base.type, types.Union):
            unions = places_of(target.base)
            names = [part.name for part in target.base.type.fields if part.name != target.name]
            if len(unions) == 1:
                self._add((*unions[0], name) for name in names)

    def _read(self, value: core.Expression) -> None:
        """Report what an expression reads too early."""
        if isinstance(value, CALLS):
            self._call(value)
        elif isinstance(value, (core.Ref, *PARTS)):
            self._read_place(value)
        elif isinstance(value, core.Binary) and value.operator in ("&&", "||"):
            self.run(value.left)
            rest = partial(self._if, value.left, value.operator == "&&", value.right)
            self._branches(rest, partial(self.run, None))
        elif isinstance(value, core.Conditional):
            self.run(value.condition)
            pairs = (True, value.yes), (False, value.no)
            self._branches(*(partial(self._if, value.condition, holds, one) for holds, one in pairs))
        else:
            for part in core.parts(value):
                self.run(part)

    def _read_place(self, value: core.Expression) -> None:
        self._pass_parts(value)
        whole = value.base if isinstance(value, core.Slice) else value
        if any(self._lacks(place, whole.type) for place in places_of(whole)):
            self.warn("uninitialized-use", value, f"{value.span.text} may be read before it has a value")

    def _pass_parts(self, value: core.Expression) -> None:
        """Read the indexes in an expression and look at its headers."""
        while isinstance(value, PARTS):
            self._check_valid(value)
            self.run(tuple(part for part in core.parts(value) if part is not value.base))
            value = value.base
        if not isinstance(value, core.Ref):
            self.run(value)

    # ------------------------------------------------------------ calls

    def _call(self, value: core.Expression) -> None:
        match value:
            case core.CallFunction() | core.CallMethod():
                self.reach(value.function if isinstance(value, core.CallFunction) else value.method)
                self._pass(core.arguments(value))
            case core.CallAction():
                self._run_action(value.action, value.arguments)
            case core.Apply(target=core.Ref(declaration=core.Table() as table)):
                self.run(tuple(key.expression for key in table.keys))
                self._branches(*(partial(self._run_action, one.action, one.arguments) for one in table.actions))
            case core.Apply(target=core.Expression(type=types.Block() as kind)):
                self._pass(zip(kind.declaration.parameters, value.arguments, strict=False))
            case core.ApplyResult():
                self._call(value.apply)
            case core.CallBuiltin():
                self._call_builtin(value)

    def _call_builtin(self, value: core.CallBuiltin) -> None:
        header = value.receiver
        self._write(header)
        if value.name in ("push_front", "pop_front"):
            self._store(header, None)
        elif value.name == "setValid":
            self._clear(places_of(header))
            self._choose(header)
        elif value.name == "setInvalid" and len(places := places_of(header)) == 1:
            self._add(self._opened(places[0], header.type, core.InvalidHeader(header.type, header.span)))
            self._choose(header)

    def _pass(self, arguments: Iterable[tuple[core.Variable, core.Expression | None]]) -> None:
        """Arguments of a call that reads the ones and writes the others."""
        pairs = [(one, value) for one, value in arguments if value is not None]
        for parameter, value in pairs:
            if parameter.direction == "out":
                self._write(value)
            else:
                self.run(value)
        for parameter, value in pairs:
            if parameter.is_output:
                self._store(value, None)

    def _run_action(self, action: core.Action, arguments: Sequence[core.Expression | None]) -> None:
        """Run an action; arguments that are not there come from the control plane."""
        pairs = [*zip_longest(action.parameters, arguments)]
        for parameter, value in pairs:
            if parameter.direction == "out" and value is not None:
                self._write(value)
                self._begin(parameter)
            elif value is not None:
                self.run(value)
                self._store(_reference(parameter), value)
            else:
                self._store(_reference(parameter), None)
        with self._collect(core.Return) as (returns,):
            self.run(action.body)
        self.open = join(self.open, *returns)
        self._leave(action.parameters, action.name)
        for parameter, value in pairs:
            if parameter.is_output and value is not None:
                self._store(value, [(parameter,)])


def _bodies(node: core.Switch) -> list[core.Statement | None]:
    """The bodies of which one runs; None does nothing."""
    known = value_of(node.subject)

    def fits(case: core.SwitchCase) -> bool:
        return any(label is None or value_of(label) == known for label in case.labels)

    if known is not None:
        return [next((case.body for case in node.cases if fits(case)), None)]
    is_complete = any(None in case.labels for case in node.cases)
    return [*(case.body for case in node.cases), *(() if is_complete else (None,))]


def _reference(variable: core.Variable) -> core.Ref:
    return core.Ref(variable.type, variable.span, variable)


def _part(source: Source, name: str) -> Source:
    """A field or element of what is assigned."""
    match source:
        case list():
            return [(*place, name) for place in source]
        case core.StructValue():
            return next((value for field, value in source.fields if field == name), None)
        case core.TupleValue():
            return source.elements[int(name)]
        case core.InvalidHeader():
            return source
    return None
