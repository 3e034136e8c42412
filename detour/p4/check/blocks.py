# SPDX-License-Identifier: Apache-2.0
"""Parsers, controls and actions (specification, sections 12 to 14)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from detour.p4 import core, syntax, types
from detour.p4.check.checker import DECLARATIONS, Checker, rule
from detour.p4.check.constants import as_integer, is_known
from detour.p4.check.declarations import instance
from detour.p4.check.notes import begun
from detour.p4.check.parameters import Owner, parameters
from detour.p4.check.scope import Place
from detour.p4.check.sets import product
from detour.p4.check.statements import block, constant, declare, sequence
from detour.p4.check.tables import table
from detour.p4.check.typenames import describe, resolve
from detour.p4.types import BOOL, ERROR, SetOf, Type


@rule(DECLARATIONS, syntax.Action)
def action(c: Checker, node: syntax.Action) -> core.Action:
    result = begun(c, core.Action, node)
    with c.inner_scope(parameters=True):
        result.parameters = parameters(c, node.parameters, Owner.ACTION)
        with c.inside(Place.ACTION):
            result.body = block(c, node.body)
    c.declare(node.name, result)
    return result


# ---------------------------------------------------------------- parsers and controls


@contextmanager
def _body(c: Checker, node: syntax.BlockDeclaration, result: core.ParserOrControl) -> Iterator[None]:
    """The scope of the locals of a parser or control; declares its name afterwards."""
    name = node.name.text
    kind, place = ("parser", Place.PARSER) if isinstance(node, syntax.Parser) else ("control", Place.CONTROL)
    if name in c.top.symbols:
        c.declare(node.name, result)
    c.open_names.add(name)
    with c.inner_scope(parameters=True):
        result.variables = c.type_variables(node.type_parameters)
        result.parameters = parameters(c, node.parameters, Owner.BLOCK)
        result.constructor_parameters = parameters(c, node.constructor_parameters, Owner.CONSTRUCTOR)
        for parameter in result.constructor_parameters:
            if isinstance(parameter.type, types.Block) and parameter.type.kind != kind:
                other = parameter.type.kind
                at = parameter if kind == "parser" else node.name
                c.fail(at, f"{parameter.name}: a {other} cannot be a parameter of a {kind}'s constructor")
        with c.inner_scope(), c.inside(place):
            result.locals = tuple(c.each(node.locals, LOCALS))
            yield
    c.open_names.discard(name)
    c.declare_type(node.name, types.Block(name, result.variables, result, kind), result.variables)


@rule(DECLARATIONS, syntax.ValueSet)
def value_set(c: Checker, node: syntax.ValueSet) -> core.ValueSet:
    kind = resolve(c, node.element)
    values = types.Bits | types.Struct | types.Tuple | types.Enum
    if not isinstance(types.underlying(kind), values) and kind not in (BOOL, ERROR):
        c.fail(node.element, f"a value_set cannot have elements of {describe(kind)}")
    size = c.expression(node.size)
    if not is_known(size) or (isinstance(size, core.Literal) and as_integer(size) is None):
        c.fail(node.size, f"the size of value set {node.name.text} must be a number known at compile time")
    result = begun(c, core.ValueSet, node, type=kind, size=size)
    c.declare(node.name, result)
    return result


LOCALS: dict[type, Any] = {
    syntax.Variable: declare,
    syntax.Constant: constant,
    syntax.Instance: instance,
    syntax.Action: action,
    syntax.Table: table,
    syntax.ValueSet: value_set,
}


@rule(DECLARATIONS, syntax.Control)
def control(c: Checker, node: syntax.Control) -> core.Declaration:
    result = begun(c, core.Control, node)
    with _body(c, node, result), c.inside(Place.APPLY):
        result.body = block(c, node.body)
    return result


# ---------------------------------------------------------------- states


@rule(DECLARATIONS, syntax.Parser)
def parser(c: Checker, node: syntax.Parser) -> core.Declaration:
    result = begun(c, core.Parser, node)
    with _body(c, node, result):
        states = _declare_states(c, node)
        for written in node.states:
            state = states.get(written.name.text)
            if state is not None and state.span is written.name.span:
                with c.recovery(), c.inside(Place.STATE), c.inner_scope():
                    state.statements = sequence(c, written.statements)
                    state.transition = _transition(c, written, states)
        result.states = tuple(states.values())
    _check_reach(c, result, states)
    return result


def _declare_states(c: Checker, node: syntax.Parser) -> dict[str, core.State]:
    states: dict[str, core.State] = {}
    for written in node.states:
        name = written.name.text
        with c.recovery():
            if name in ("accept", "reject"):
                c.fail(written, f"state {name} is built in and cannot be declared")
            if name in states:
                c.fail(written.name, f"state {name} is declared already")
            states[name] = begun(c, core.State, written)
    if "start" not in states:
        c.error(node.name, f"parser {node.name.text} has no state start")
    for name in ("accept", "reject"):
        states[name] = core.State(name, node.name.span)
    return states


def _transition(c: Checker, node: syntax.State, states: dict[str, core.State]) -> core.Select:
    if isinstance(node.transition, syntax.Select):
        return _select(c, node.transition, states)
    span = node.span if node.transition is None else node.transition.span
    target = states["reject"] if node.transition is None else _target(c, node.transition, states)
    return core.Select((), (core.SelectCase(core.Anything(SetOf(types.Tuple(())), span), target, span),), span)


def _target(c: Checker, name: syntax.Name, states: dict[str, core.State]) -> core.State:
    state = states.get(name.text)
    if state is None:
        what = "is not a parser state" if c.scope.find(name.text) is not None else "is not a declared parser state"
        c.fail(name, f"{name.text} {what}")
    return state


def _select(c: Checker, node: syntax.Select, states: dict[str, core.State]) -> core.Select:
    expressions = tuple(c.expression(expression) for expression in node.expressions)
    for expression in expressions:
        if not _selectable(expression.type):
            text = f"select cannot match {describe(expression.type)}"
            c.fail(expression, text, "It matches numbers, bool and enums.")
    kinds = [expression.type for expression in expressions]
    cases = []
    complete = False
    for case in node.cases:
        with c.recovery():
            if complete:
                c.warn("unreachable", case, "this case is never reached: a case before it matches everything")
            state = _target(c, case.state, states)
            labels = product(c, case.set, kinds, "the label")
            sets = labels.elements if isinstance(labels, core.TupleValue) else (labels,)
            for one in sets:
                is_value = isinstance(one, core.MaskSet | core.RangeSet) or not isinstance(one.type, SetOf)
                if is_value and not is_known(one):
                    c.fail(one, "a label of select must be known at compile time")
            cases.append(core.SelectCase(labels, state, case.span))
            complete = complete or all(isinstance(one, core.Anything) for one in sets)
    return core.Select(expressions, tuple(cases), node.span)


def _selectable(kind: Type) -> bool:
    if isinstance(kind, types.Tuple):
        return all(map(_selectable, kind.elements))
    return isinstance(kind, types.Bits | types.Enum | types.NewType) or kind in (BOOL, ERROR)


def _check_reach(c: Checker, parser: core.Parser, states: dict[str, core.State]) -> None:
    """Report a parser that never ends, and warn of states that are never reached."""
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
        c.error(parser, f"parser {parser.name} never reaches accept or reject")
    for name, state in states.items():
        if name not in reached and name not in ("accept", "reject"):
            c.warn("unreachable", state, f"state {name} is never reached")
