# SPDX-License-Identifier: Apache-2.0
"""Parsers, controls and actions (specification, sections 12 to 14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from detour.p4 import core, syntax
from detour.p4.check.checker import DECLARATIONS, Checker, rule
from detour.p4.check.constants import as_integer, is_known
from detour.p4.check.declarations import instance
from detour.p4.check.notes import noted
from detour.p4.check.parameters import Owner, parameters
from detour.p4.check.scope import Place, TypeName
from detour.p4.check.sets import product
from detour.p4.check.statements import block, constant, declare, sequence
from detour.p4.check.tables import table
from detour.p4.check.typenames import describe, resolve
from detour.p4.messages import CompileError
from detour.p4.types import BOOL, ERROR, Bits, Block, Enum, NewType, SetOf, Struct, Tuple, Type, underlying

# ---------------------------------------------------------------- actions


@rule(DECLARATIONS, syntax.Action)
def action(c: Checker, node: syntax.Action) -> core.Action:
    name = node.name.text
    result = core.Action(name, node.name.span, noted(c, node.annotations))
    try:
        with c.inner_scope(parameters=True):
            result.parameters = parameters(c, node.parameters, Owner.ACTION)
            with c.inside(Place.ACTION):
                result.body = block(c, node.body)
            c.report_unused_parameters(result.parameters)
    except CompileError:
        c.declare_broken(node.name)
        raise
    c.declare(name, result, node.name.span)
    return result


# ---------------------------------------------------------------- parsers and controls


@contextmanager
def _body(c: Checker, node: syntax.Parser | syntax.Control, result: core.Parser | core.Control) -> Iterator[None]:
    """The scope of the locals of a parser or control; declares its name afterwards."""
    name = node.name.text
    kind = "parser" if isinstance(node, syntax.Parser) else "control"
    if name in c.top.symbols:
        c.declare(name, result, node.name.span)
    c.open_names.add(name)
    with c.inner_scope(parameters=True):
        variables = c.type_variables(node.type_parameters)
        c.variables[result] = variables
        result.type_parameters = tuple(parameter.text for parameter in node.type_parameters)
        result.parameters = parameters(c, node.parameters, Owner.BLOCK)
        result.constructor_parameters = parameters(c, node.constructor_parameters, Owner.CONSTRUCTOR)
        _check_constructor(c, node, kind, result)
        with c.inner_scope(), c.inside(Place.PARSER if kind == "parser" else Place.CONTROL):
            yield
    c.open_names.discard(name)
    c.declare(name, TypeName(Block(kind, name, variables, result), variables, node.name.span), node.name.span)


def _check_constructor(
    c: Checker, node: syntax.Parser | syntax.Control, kind: str, result: core.Parser | core.Control
) -> None:
    for parameter in result.constructor_parameters:
        if isinstance(parameter.type, Block) and parameter.type.kind != kind:
            span = parameter.span if kind == "parser" else node.name.span
            c.fail(span, f"{parameter.name}: a {parameter.type.kind} cannot be a parameter of a {kind}'s constructor")


def _locals(c: Checker, nodes: Sequence[syntax.Declaration]) -> tuple[core.Declaration | core.Declare, ...]:
    result = []
    for node in nodes:
        with c.recovery():
            result.append(LOCALS[type(node)](c, node))
    return tuple(result)


def _value_set(c: Checker, node: syntax.ValueSet) -> core.Declaration:
    try:
        kind = resolve(c, node.element)
        if not (isinstance(underlying(kind), Bits | Struct | Tuple | Enum) or kind in (BOOL, ERROR)):
            c.fail(node.element.span, f"a value_set cannot have elements of {describe(kind)}")
        size = c.expression(node.size)
        if not is_known(size) or (isinstance(size, core.Literal) and as_integer(size) is None):
            c.fail(node.size.span, f"the size of value set {node.name.text} must be a number known at compile time")
    except CompileError:
        c.declare_broken(node.name)
        raise
    result = core.ValueSet(node.name.text, node.name.span, noted(c, node.annotations), kind, size)
    c.declare(node.name.text, result, node.name.span)
    return result


DECLARATIONS[syntax.ValueSet] = _value_set
LOCALS: dict[type, Callable] = {
    syntax.Variable: declare,
    syntax.Constant: constant,
    syntax.Instance: instance,
    syntax.Action: action,
    syntax.Table: table,
    syntax.ValueSet: _value_set,
}


@rule(DECLARATIONS, syntax.Control)
def control(c: Checker, node: syntax.Control) -> core.Declaration:
    result = core.Control(node.name.text, node.name.span, noted(c, node.annotations))
    with _body(c, node, result):
        result.locals = _locals(c, node.locals)
        with c.inside(Place.APPLY):
            result.body = block(c, node.body)
    return result


# ---------------------------------------------------------------- states


@rule(DECLARATIONS, syntax.Parser)
def parser(c: Checker, node: syntax.Parser) -> core.Declaration:
    result = core.Parser(node.name.text, node.name.span, noted(c, node.annotations))
    with _body(c, node, result):
        result.locals = _locals(c, node.locals)
        states = _declare_states(c, node)
        for written in node.states:
            state = states.get(written.name.text)
            if state is not None and state.span is written.name.span:
                with c.recovery():
                    _state(c, written, state, states)
        result.states = tuple(states.values())
    _check_reach(c, result, states)
    return result


def _declare_states(c: Checker, node: syntax.Parser) -> dict[str, core.State]:
    states: dict[str, core.State] = {}
    for written in node.states:
        name = written.name.text
        with c.recovery():
            if name in ("accept", "reject"):
                c.fail(written.span, f"state {name} is built in and cannot be declared")
            if name in states:
                c.fail(written.name.span, f"state {name} is declared already")
            states[name] = core.State(name, written.name.span, noted(c, written.annotations))
    if "start" not in states:
        c.error(node.name.span, f"parser {node.name.text} has no state start")
    for name in ("accept", "reject"):
        states[name] = core.State(name, node.name.span)
    return states


def _state(c: Checker, node: syntax.State, state: core.State, states: dict[str, core.State]) -> None:
    with c.inside(Place.STATE), c.inner_scope():
        state.statements = sequence(c, node.statements)
        state.transition = _transition(c, node, states)


def _transition(c: Checker, node: syntax.State, states: dict[str, core.State]) -> core.Select:
    if isinstance(node.transition, syntax.Select):
        return _select(c, node.transition, states)
    span = node.span if node.transition is None else node.transition.span
    target = states["reject"] if node.transition is None else _target(c, node.transition, states)
    return core.Select((), (core.SelectCase(core.Anything(SetOf(Tuple(())), span), target, span),), span)


def _target(c: Checker, name: syntax.Name, states: dict[str, core.State]) -> core.State:
    state = states.get(name.text)
    if state is None:
        what = "is not a parser state" if c.scope.find(name.text) is not None else "is not a declared parser state"
        c.fail(name.span, f"{name.text} {what}")
    return state


def _select(c: Checker, node: syntax.Select, states: dict[str, core.State]) -> core.Select:
    expressions = tuple(c.expression(expression) for expression in node.expressions)
    for expression in expressions:
        if not _selectable(expression.type):
            c.fail(
                expression.span,
                f"select cannot match {describe(expression.type)}",
                "It matches numbers, bool and enums.",
            )
    kinds = [expression.type for expression in expressions]
    cases = []
    complete = False
    for case in node.cases:
        with c.recovery():
            if complete:
                c.warn("unreachable", case.span, "this case is never reached: a case before it matches everything")
            state = _target(c, case.state, states)
            labels = product(c, case.set, kinds, "the label")
            _check_labels(c, labels)
            cases.append(core.SelectCase(labels, state, case.span))
            complete = complete or isinstance(labels, core.Anything) or _matches_all(labels)
    return core.Select(expressions, tuple(cases), node.span)


def _check_labels(c: Checker, labels: core.Expression) -> None:
    for one in labels.elements if isinstance(labels, core.TupleValue) else ():
        if not is_known(one) and not isinstance(one.type, SetOf):
            c.fail(one.span, "a label of select must be known at compile time")
        if isinstance(one, core.MaskSet | core.RangeSet) and not is_known(one):
            c.fail(one.span, "a label of select must be known at compile time")


def _matches_all(labels: core.Expression) -> bool:
    return isinstance(labels, core.TupleValue) and all(isinstance(one, core.Anything) for one in labels.elements)


def _selectable(kind: Type) -> bool:
    if isinstance(kind, Tuple):
        return all(map(_selectable, kind.elements))
    return isinstance(kind, Bits | Enum | NewType) or kind in (BOOL, ERROR)


def _check_reach(c: Checker, parser: core.Parser, states: dict[str, core.State]) -> None:
    """Reports a parser that never ends, and warns of states that are never reached."""
    reached: set[str] = set()
    todo = ["start"]
    while todo:
        name = todo.pop()
        if name in reached or name not in states:
            continue
        reached.add(name)
        transition = states[name].transition
        if transition is not None:
            todo += [case.state.name for case in transition.cases]
    if "start" in states and not reached & {"accept", "reject"} and not c.messages.errors:
        c.error(parser.span, f"parser {parser.name} never reaches accept or reject")
    for name, state in states.items():
        if name not in reached and name not in ("accept", "reject"):
            c.warn("unreachable", state.span, f"state {name} is never reached")
