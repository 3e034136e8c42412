# SPDX-License-Identifier: Apache-2.0
"""Statements (specification, section 11), and the variables and constants among them (section 10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from detour.p4 import core, syntax
from detour.p4.check.checker import STATEMENTS, Checker, rule
from detour.p4.check.constants import is_local_constant, value_of
from detour.p4.check.convert import convert, convert_stored
from detour.p4.check.notes import noted
from detour.p4.check.operators import combine
from detour.p4.check.places import require_place
from detour.p4.check.scope import Place
from detour.p4.check.typenames import describe, resolve_value_type
from detour.p4.messages import CompileError
from detour.p4.source import Span
from detour.p4.types import (
    BOOL,
    ERROR,
    INTEGER,
    STRING,
    VOID,
    Bits,
    Block,
    Enum,
    Extern,
    ListOf,
    SetOf,
    Stack,
    Type,
    underlying,
)


def block(c: Checker, node: syntax.Block) -> core.BlockStatement:
    """A block with a scope of its own."""
    with c.inner_scope():
        return core.BlockStatement(node.span, sequence(c, node.statements), noted(c, node.annotations))


def sequence(c: Checker, nodes: Iterable[syntax.Statement | syntax.Declaration]) -> tuple[core.Statement, ...]:
    """Statements in the current scope; each is checked even where others have errors."""
    result = []
    for node in nodes:
        try:
            statement = STATEMENTS[type(node)](c, node)
        except CompileError as error:
            c.recover(error)
            continue
        if statement is not None:
            result.append(statement)
    return tuple(result)


def statement(c: Checker, node: syntax.Statement) -> core.Statement:
    """One statement, as of `if` without a block."""
    result = STATEMENTS[type(node)](c, node)
    return result if result is not None else core.BlockStatement(node.span, ())


@rule(STATEMENTS, syntax.Block)
def _block(c: Checker, node: syntax.Block) -> core.Statement:
    return block(c, node)


@rule(STATEMENTS, syntax.Empty)
def _empty(_c: Checker, _node: syntax.Empty) -> None:
    return None


# ---------------------------------------------------------------- variables and constants


@rule(STATEMENTS, syntax.Variable)
def declare(c: Checker, node: syntax.Variable) -> core.Statement:
    try:
        kind = resolve_value_type(c, node.type, f"variable {node.name.text}")
        check_variable_type(c, kind, node.name.text, node.span)
    except CompileError:
        c.declare_broken(node.name)
        raise
    initial = None
    try:
        if node.value is not None:
            initial = convert_stored(c, c.expression(node.value, kind), kind, f"the initial value of {node.name.text}")
    finally:
        variable = core.Variable(node.name.text, node.name.span, noted(c, node.annotations), kind)
        c.declare(node.name.text, variable, node.name.span)
    return core.Declare(node.span, variable, initial)


def check_variable_type(c: Checker, kind: Type, name: str, span: Span) -> None:
    if isinstance(kind, Extern | Block):
        c.fail(
            span,
            f"{name} cannot be a variable of the type {describe(kind)}",
            f"Instantiate it: {kind.name}(...) {name};",
        )
    if isinstance(kind, ListOf) or kind in (INTEGER, STRING, VOID) or str(kind) == "match_kind":
        hint = "Give it a width, like bit<32>, or declare a const." if kind == INTEGER else ""
        c.fail(span, f"{name} cannot be a variable of the type {describe(kind)}", hint)


@rule(STATEMENTS, syntax.Constant)
def constant_statement(c: Checker, node: syntax.Constant) -> None:
    constant(c, node)


def constant(c: Checker, node: syntax.Constant) -> core.Constant:
    """Declares a constant. Its value is known without constructor parameters (10.1)."""
    name = node.name.text
    try:
        kind = resolve_value_type(c, node.type, f"constant {name}")
        if isinstance(kind, Extern | Block) or kind == VOID:
            c.fail(node.span, f"{name} cannot be a constant of the type {describe(kind)}")
        value = convert_stored(c, c.expression(node.value, kind), kind, f"the value of {name}")
        if not is_local_constant(value):
            c.fail(node.value.span, f"the value of constant {name} must be known at compile time")
    except CompileError:
        c.declare_broken(node.name)
        raise
    symbol = core.Constant(name, node.name.span, noted(c, node.annotations), kind, value)
    c.declare(name, symbol, node.name.span)
    return symbol


@rule(STATEMENTS, syntax.Instance)
def _instance(c: Checker, node: syntax.Instance) -> None:
    c.declare_broken(node.name)
    c.fail(
        node.span,
        f"{node.name.text} cannot be instantiated {c.place.value}",
        "Declare it before `apply` or the states.",
    )


# ---------------------------------------------------------------- assignments and calls


@rule(STATEMENTS, syntax.Assign)
def assign(c: Checker, node: syntax.Assign) -> core.Statement:
    target = c.expression(node.target)
    require_place(c, target, "assigned to")
    if isinstance(target.type, Extern | Block):
        c.fail(node.span, f"{describe(target.type)} cannot be assigned")
    value = c.expression(node.value, target.type)
    saved: list[core.Statement] = []
    if node.operator:
        target = _save_calls(target, saved)
        value = combine(c, node.operator, target, value, node.span)
    result = core.Assign(node.span, target, convert_stored(c, value, target.type, "the value"))
    return core.BlockStatement(node.span, (*saved, result)) if saved else result


def _save_calls(target: core.Expression, saved: list[core.Statement]) -> core.Expression:
    """The target of `x[f()] += y` with results of calls in variables: they are evaluated once (11.1)."""
    if isinstance(target, core.Member | core.StackMember | core.Index | core.Slice):
        target = replace(target, base=_save_calls(target.base, saved))
    if isinstance(target, core.Index) and _calls(target.index):
        return replace(target, index=_save(target.index, saved))
    if isinstance(target, core.Slice) and _calls(target.low):
        return replace(target, low=_save(target.low, saved))
    return target


def _save(value: core.Expression, saved: list[core.Statement]) -> core.Expression:
    variable = core.Variable("index", value.span, (), value.type)
    saved.append(core.Declare(value.span, variable, value))
    return core.Ref(value.type, value.span, variable)


def _calls(value: core.Expression) -> bool:
    if isinstance(value, core.CallFunction | core.CallMethod | core.Apply | core.ApplyResult):
        return True
    names = ("base", "index", "low", "operand", "left", "right", "condition", "yes", "no")
    return any(_calls(part) for name in names if isinstance(part := getattr(value, name, None), core.Expression))


@rule(STATEMENTS, syntax.CallStatement)
def call_statement(c: Checker, node: syntax.CallStatement) -> core.Statement:
    call = c.expression(node.call)
    if isinstance(call, core.Literal | core.Construct):
        if isinstance(call, core.Construct):
            c.fail(node.span, f"{describe(call.type)} cannot be instantiated {c.place.value}")
        return core.BlockStatement(node.span, ())
    return core.CallStatement(node.span, call)


# ---------------------------------------------------------------- conditions


@rule(STATEMENTS, syntax.If)
def if_statement(c: Checker, node: syntax.If) -> core.Statement:
    condition = None
    with c.recovery():
        condition = require_bool(c, node.condition, "if")
    with c.inner_scope():
        yes = statement(c, node.yes)
    no = None
    if node.no is not None:
        with c.inner_scope():
            no = statement(c, node.no)
    if condition is None:
        raise CompileError
    return core.If(node.span, condition, yes, no)


def require_bool(c: Checker, node: syntax.Expression, what: str) -> core.Expression:
    condition = c.expression(node)
    if condition.type != BOOL:
        hint = "Compare it, like x != 0." if isinstance(underlying(condition.type), Bits) else ""
        c.fail(node.span, f"the condition of {what} must be a bool, not {describe(condition.type)}", hint)
    return condition


@rule(STATEMENTS, syntax.Switch)
def switch(c: Checker, node: syntax.Switch) -> core.Statement:
    if c.place.in_parser:
        c.fail(node.span, "switch cannot be used in a parser", "Use transition select(...).")
    if isinstance(node.subject, syntax.Member) and node.subject.name.text == "action_run":
        subject = c.expression(node.subject)
    else:
        subject = c.expression(node.subject)
        kind = subject.type
        if not (isinstance(kind, Bits | Enum) or kind in (ERROR, INTEGER) or isinstance(underlying(kind), Bits)):
            c.fail(node.subject.span, f"switch is not defined on {describe(kind)}", "Use if.")
    _check_default(c, node)
    seen: set[object] = set()
    cases: list[core.SwitchCase] = []
    labels: list = []
    for case in node.cases:
        with c.recovery():
            label = _label(c, subject, case.label)
            key = label if isinstance(label, core.Action) or label is None else value_of(label)
            if key in seen:
                c.fail(case.label.span, f"label {case.label.span.text} stands twice in the switch")
            seen.add(key)
            labels.append(label)
        if case.body is not None:
            body = block(c, case.body)
            cases.append(core.SwitchCase(tuple(labels), body, case.span))
            labels = []
    if labels:
        last = node.cases[-1].span
        cases.append(core.SwitchCase(tuple(labels), core.BlockStatement(last, ()), last))
    return core.Switch(node.span, subject, tuple(cases))


def _check_default(c: Checker, node: syntax.Switch) -> None:
    defaults = [case for case in node.cases if isinstance(case.label, syntax.Default | syntax.DontCare)]
    if len(defaults) > 1:
        c.fail(node.span, "the switch has more than one `default`")
    for at, case in enumerate(node.cases):
        if defaults and case is defaults[0] and at + 1 < len(node.cases):
            c.fail(node.span, "a label stands after `default`", "Put `default` last.")


def _label(c: Checker, subject: core.Expression, node: syntax.Expression) -> core.Action | core.Expression | None:
    if isinstance(node, syntax.Default | syntax.DontCare):
        return None
    if isinstance(subject, core.ApplyResult):
        return _action_label(c, subject, node)
    value = convert(c, c.expression(node, subject.type), subject.type, "the label")
    if not is_local_constant(value):
        c.fail(node.span, "a label of switch must be known at compile time")
    return value


def _action_label(c: Checker, subject: core.ApplyResult, node: syntax.Expression) -> core.Action:
    target = subject.apply.target
    table = target.declaration if isinstance(target, core.Ref) else None
    assert isinstance(table, core.Table)
    actions = [choice.action for choice in table.actions]
    if isinstance(node, syntax.NameExpression):
        symbol = c.find(node.name, node.absolute, node.span)
        if isinstance(symbol, core.Action) and symbol in actions:
            return symbol
        for action in actions:
            if action.name == node.name:
                return action
    names = ", ".join(action.name for action in actions)
    c.fail(node.span, f"{node.span.text} is not an action of table {table.name}", f"Its actions are {names}.")


# ---------------------------------------------------------------- loops


@rule(STATEMENTS, syntax.For)
def for_statement(c: Checker, node: syntax.For) -> core.Statement:
    with c.inner_scope():
        initial = sequence(c, node.initial)
        condition = require_bool(c, node.condition, "for")
        update = sequence(c, node.update)
        body = _loop_body(c, node.body)
    return core.For(node.span, initial, condition, update, body, noted(c, node.annotations))


@rule(STATEMENTS, syntax.ForIn)
def for_in(c: Checker, node: syntax.ForIn) -> core.Statement:
    with c.inner_scope():
        name = node.variable.name
        kind = resolve_value_type(c, node.variable.type, f"variable {name.text}")
        check_variable_type(c, kind, name.text, node.variable.span)
        collection = _collection(c, node.collection, kind)
        variable = core.Variable(name.text, name.span, noted(c, node.variable.annotations), kind)
        c.declare(name.text, variable, name.span)
        body = _loop_body(c, node.body)
    return core.ForIn(node.span, variable, collection, body, noted(c, node.annotations))


def _collection(c: Checker, node: syntax.Expression, kind: Type) -> core.Expression:
    if isinstance(node, syntax.Range):
        low, high = (convert(c, c.expression(end), kind, "the range") for end in (node.low, node.high))
        return core.RangeSet(SetOf(kind), node.span, low, high)
    if isinstance(node, syntax.ListExpression):
        return convert(c, c.expression(node), ListOf(kind), "the list")
    value = c.expression(node)
    element = value.type.element if isinstance(value.type, Stack | ListOf) else None
    if element is None:
        c.fail(node.span, f"for cannot run over {describe(value.type)}", "It runs over a range, a list or a stack.")
    if element != kind:
        c.fail(node.span, f"the elements have the type {describe(element)}, the variable {describe(kind)}")
    return value


def _loop_body(c: Checker, node: syntax.Statement) -> core.Statement:
    c.loops += 1
    try:
        return statement(c, node)
    finally:
        c.loops -= 1


@rule(STATEMENTS, syntax.Break, syntax.Continue)
def leave_loop(c: Checker, node: syntax.Break | syntax.Continue) -> core.Statement:
    word, result = ("break", core.Break) if isinstance(node, syntax.Break) else ("continue", core.Continue)
    if not c.loops:
        c.fail(node.span, f"{word} can only be used in a for loop")
    return result(node.span)


# ---------------------------------------------------------------- return and exit


@rule(STATEMENTS, syntax.Return)
def return_statement(c: Checker, node: syntax.Return) -> core.Statement:
    if c.place.in_parser:
        c.fail(node.span, "return cannot be used in a parser")
    returns = c.returns or VOID
    if node.value is None:
        if returns != VOID:
            c.fail(node.span, f"return needs a value of the type {describe(returns)}")
        return core.Return(node.span, None)
    if returns == VOID:
        c.fail(node.span, f"return cannot have a value {c.place.value} that returns nothing")
    return core.Return(node.span, convert_stored(c, c.expression(node.value, returns), returns, "the value of return"))


@rule(STATEMENTS, syntax.Exit)
def exit_statement(c: Checker, node: syntax.Exit) -> core.Statement:
    if c.place.in_parser or c.place in (Place.FUNCTION, Place.METHOD):
        c.fail(node.span, f"exit cannot be used {c.place.value}")
    return core.Exit(node.span)


def always_returns(body: core.Statement | None) -> bool:
    """Whether every path through the statement ends with `return` (or `exit`)."""
    if isinstance(body, core.Return | core.Exit):
        return True
    if isinstance(body, core.BlockStatement):
        return any(map(always_returns, body.statements))
    if isinstance(body, core.If):
        if isinstance(body.condition, core.Literal):
            return always_returns(body.yes if body.condition.value else body.no)
        return always_returns(body.yes) and always_returns(body.no)
    if isinstance(body, core.Switch):
        complete = any(None in case.labels for case in body.cases)
        return complete and all(always_returns(case.body) for case in body.cases)
    return False
