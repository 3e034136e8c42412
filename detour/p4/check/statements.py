# SPDX-License-Identifier: Apache-2.0
"""Statements (specification, section 11), and the variables and constants among them (section 10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from detour.p4 import core, syntax, types
from detour.p4.check.checker import STATEMENTS, Checker, rule
from detour.p4.check.constants import CALLS, is_local_constant, value_of
from detour.p4.check.convert import convert, convert_stored
from detour.p4.check.notes import begun, noted
from detour.p4.check.operators import combine
from detour.p4.check.places import PARTS, require_place
from detour.p4.check.scope import Place
from detour.p4.check.typenames import describe, resolve_value_type
from detour.p4.messages import CompileError
from detour.p4.types import BOOL, ERROR, INTEGER, MATCH_KIND, STRING, VOID, Type


@rule(STATEMENTS, syntax.Block)
def block(c: Checker, node: syntax.Block) -> core.BlockStatement:
    """A block with a scope of its own."""
    notes = noted(c, node)
    with c.inner_scope():
        return core.BlockStatement(node.span, sequence(c, node.statements), notes)


def sequence(c: Checker, nodes: Iterable[syntax.Statement | syntax.Declaration]) -> tuple[core.Statement, ...]:
    """Statements in the current scope; each is checked even where others have errors."""
    return tuple(c.each(nodes, STATEMENTS))


def statement(c: Checker, node: syntax.Statement) -> core.Statement:
    """One statement, as of `if` without a block."""
    result = STATEMENTS[type(node)](c, node)
    return result if result is not None else core.BlockStatement(node.span, ())


# ---------------------------------------------------------------- variables and constants


@rule(STATEMENTS, syntax.Variable)
def declare(c: Checker, node: syntax.Variable) -> core.Statement:
    kind = _variable_type(c, node)
    initial = None
    try:
        if node.value is not None:
            initial = convert_stored(c, c.expression(node.value, kind), kind, f"the initial value of {node.name.text}")
    finally:
        variable = begun(c, core.Variable, node, type=kind)
        c.declare(node.name, variable)
    return core.Declare(node.span, variable, initial)


def _variable_type(c: Checker, node: syntax.Variable) -> Type:
    name = node.name.text
    kind = resolve_value_type(c, node.type, f"variable {name}")
    hint = "Give it a width, like bit<32>, or declare a const." if kind == INTEGER else ""
    is_object = isinstance(kind, types.Extern | types.Block)
    if is_object:
        hint = f"Instantiate it: {kind.name}(...) {name};"
    if is_object or isinstance(kind, types.ListOf) or kind in (INTEGER, STRING, VOID, MATCH_KIND):
        c.fail(node, f"{name} cannot be a variable of the type {describe(kind)}", hint)
    return kind


@rule(STATEMENTS, syntax.Constant)
def constant_statement(c: Checker, node: syntax.Constant) -> None:
    constant(c, node)


def constant(c: Checker, node: syntax.Constant) -> core.Constant:
    """Declare a constant. Its value is known without constructor parameters (10.1)."""
    name = node.name.text
    kind = resolve_value_type(c, node.type, f"constant {name}")
    if isinstance(kind, types.Extern | types.Block) or kind == VOID:
        c.fail(node, f"{name} cannot be a constant of the type {describe(kind)}")
    value = convert_stored(c, c.expression(node.value, kind), kind, f"the value of {name}")
    if not is_local_constant(value):
        c.fail(node.value, f"the value of constant {name} must be known at compile time")
    symbol = begun(c, core.Constant, node, type=kind, value=value)
    c.declare(node.name, symbol)
    if isinstance(node.value, syntax.Call):
        c.used.add(symbol)  # a static_assert, which is what the constant is there for
    return symbol


@rule(STATEMENTS, syntax.Instance)
def stray_instance(c: Checker, node: syntax.Instance) -> None:
    text = f"{node.name.text} cannot be instantiated {c.place.value}"
    c.fail(node, text, "Declare it before `apply` or the states.")


# ---------------------------------------------------------------- assignments and calls


@rule(STATEMENTS, syntax.Assign)
def assign(c: Checker, node: syntax.Assign) -> core.Statement:
    target = c.expression(node.target)
    require_place(c, target, "assigned to")
    if isinstance(target.type, types.Extern | types.Block):
        c.fail(node, f"{describe(target.type)} cannot be assigned")
    value = c.expression(node.value, target.type)
    saved: list[core.Statement] = []
    if node.operator:
        target = _save_calls(target, saved)
        value = combine(c, node.operator, target, value, node.span)
    result = core.Assign(node.span, target, convert_stored(c, value, target.type))
    return core.BlockStatement(node.span, (*saved, result)) if saved else result


def _save_calls(target: core.Expression, saved: list[core.Statement]) -> core.Expression:
    """The target of `x[f()] += y` with results of calls in variables: they are evaluated once (11.1)."""
    if isinstance(target, PARTS):
        target = replace(target, base=_save_calls(target.base, saved))
    if isinstance(target, core.Index):
        return replace(target, index=_saved(target.index, saved))
    return replace(target, low=_saved(target.low, saved)) if isinstance(target, core.Slice) else target


def _saved(value: core.Expression, saved: list[core.Statement]) -> core.Expression:
    """The value, from a variable if a call is in it."""
    if not any(isinstance(part, CALLS) for part in core.walk(value)):
        return value
    variable = core.Variable("index", value.span, (), value.type)
    saved.append(core.Declare(value.span, variable, value))
    return core.Ref(value.type, value.span, variable)


@rule(STATEMENTS, syntax.CallStatement)
def call_statement(c: Checker, node: syntax.CallStatement) -> core.Statement:
    call = c.expression(node.call)
    if isinstance(call, core.Construct):
        c.fail(node, f"{describe(call.type)} cannot be instantiated {c.place.value}")
    if isinstance(call, core.Literal):
        return core.BlockStatement(node.span, ())
    return core.CallStatement(node.span, call)


# ---------------------------------------------------------------- conditions


@rule(STATEMENTS, syntax.If)
def if_statement(c: Checker, node: syntax.If) -> core.Statement:
    condition = no = None
    with c.recovery():
        condition = _condition(c, node.condition, "if")
    with c.inner_scope():
        yes = statement(c, node.yes)
    if node.no is not None:
        with c.inner_scope():
            no = statement(c, node.no)
    if condition is None:
        raise CompileError
    return core.If(node.span, condition, yes, no)


def _condition(c: Checker, node: syntax.Expression, what: str) -> core.Expression:
    condition = c.expression(node)
    if condition.type != BOOL:
        hint = "Compare it, like x != 0." if isinstance(types.underlying(condition.type), types.Bits) else ""
        c.fail(node, f"the condition of {what} must be a bool, not {describe(condition.type)}", hint)
    return condition


@rule(STATEMENTS, syntax.Switch)
def switch(c: Checker, node: syntax.Switch) -> core.Statement:
    if c.place.in_parser:
        c.fail(node, "switch cannot be used in a parser", "Use transition select(...).")
    subject = c.expression(node.subject)
    kind = subject.type
    on_action = isinstance(subject, core.ApplyResult) and subject.name == "action_run"
    on_value = isinstance(types.underlying(kind), types.Bits | types.Enum) or kind in (ERROR, INTEGER)
    if not on_action and not on_value:
        c.fail(node.subject, f"switch is not defined on {describe(kind)}", "Use if.")
    _check_default(c, node)
    seen: set[object] = set()
    cases: list[core.SwitchCase] = []
    labels: list[core.Action | core.Expression | None] = []
    for case in node.cases:
        with c.recovery():
            label = _label(c, subject, case.label)
            key = value_of(label) if isinstance(label, core.Expression) else label
            if key in seen:
                c.fail(case.label, f"label {case.label.span.text} stands twice in the switch")
            seen.add(key)
            labels.append(label)
        if case.body is not None:
            cases.append(core.SwitchCase(tuple(labels), block(c, case.body), case.span))
            labels = []
    if labels:
        last = node.cases[-1].span
        cases.append(core.SwitchCase(tuple(labels), core.BlockStatement(last, ()), last))
    return core.Switch(node.span, subject, tuple(cases))


def _is_default(label: syntax.Expression) -> bool:
    return isinstance(label, syntax.Sign) and label.is_anything


def _check_default(c: Checker, node: syntax.Switch) -> None:
    defaults = [case for case in node.cases if _is_default(case.label)]
    if len(defaults) > 1:
        c.fail(node, "the switch has more than one `default`")
    if defaults and defaults[0] is not node.cases[-1]:
        c.fail(node, "a label stands after `default`", "Put `default` last.")


def _label(c: Checker, subject: core.Expression, node: syntax.Expression) -> core.Action | core.Expression | None:
    if _is_default(node):
        return None
    if isinstance(subject, core.ApplyResult):
        return _action_label(c, subject, node)
    value = convert(c, c.expression(node, subject.type), subject.type, "the label")
    if not is_local_constant(value):
        c.fail(node, "a label of switch must be known at compile time")
    return value


def _action_label(c: Checker, subject: core.ApplyResult, node: syntax.Expression) -> core.Action:
    target = subject.apply.target
    table = target.declaration if isinstance(target, core.Ref) else None
    assert isinstance(table, core.Table)
    actions = [choice.action for choice in table.actions]
    if isinstance(node, syntax.NameExpression):
        symbol = c.find(node)
        if isinstance(symbol, core.Action) and symbol in actions:
            return symbol
        for action in actions:
            if action.name == node.name:
                return action
    names = ", ".join(action.name for action in actions)
    c.fail(node, f"{node.span.text} is not an action of table {table.name}", f"Its actions are {names}.")


# ---------------------------------------------------------------- loops


@rule(STATEMENTS, syntax.For)
def for_statement(c: Checker, node: syntax.For) -> core.Statement:
    with c.inner_scope():
        initial = sequence(c, node.initial)
        condition = _condition(c, node.condition, "for")
        update = sequence(c, node.update)
        body = _loop_body(c, node.body)
    return core.For(node.span, initial, condition, update, body, noted(c, node))


@rule(STATEMENTS, syntax.ForIn)
def for_in(c: Checker, node: syntax.ForIn) -> core.Statement:
    with c.inner_scope():
        kind = _variable_type(c, node.variable)
        collection = _collection(c, node.collection, kind)
        variable = begun(c, core.Variable, node.variable, type=kind)
        c.declare(node.variable.name, variable)
        c.used.add(variable)
        body = _loop_body(c, node.body)
    return core.ForIn(node.span, variable, collection, body, noted(c, node))


def _collection(c: Checker, node: syntax.Expression, kind: Type) -> core.Expression:
    if isinstance(node, syntax.Binary) and node.operator == "..":
        low, high = (convert(c, c.expression(end), kind, "the range") for end in (node.left, node.right))
        return core.RangeSet(types.SetOf(kind), node.span, low, high)
    value = c.expression(node)
    if isinstance(node, syntax.ListExpression):
        return convert(c, value, types.ListOf(kind), "the list")
    element = value.type.element if isinstance(value.type, types.Stack | types.ListOf) else None
    if element is None:
        c.fail(node, f"for cannot run over {describe(value.type)}", "It runs over a range, a list or a stack.")
    if element != kind:
        c.fail(node, f"the elements have the type {describe(element)}, the variable {describe(kind)}")
    return value


def _loop_body(c: Checker, node: syntax.Statement) -> core.Statement:
    c.loops += 1
    try:
        return statement(c, node)
    finally:
        c.loops -= 1


# ---------------------------------------------------------------- return, exit, break and continue


@rule(STATEMENTS, syntax.Return)
def return_statement(c: Checker, node: syntax.Return) -> core.Statement:
    if c.place.in_parser:
        c.fail(node, "return cannot be used in a parser")
    returns = c.returns or VOID
    if node.value is None:
        if returns != VOID:
            c.fail(node, f"return needs a value of the type {describe(returns)}")
        return core.Return(node.span, None)
    if returns == VOID:
        c.fail(node, f"return cannot have a value {c.place.value} that returns nothing")
    value = convert_stored(c, c.expression(node.value, returns), returns, "the value of return")
    return core.Return(node.span, value)


@rule(STATEMENTS, syntax.Jump)
def jump(c: Checker, node: syntax.Jump) -> core.Statement | None:
    if node.word == "exit" and (c.place.in_parser or c.place is Place.FUNCTION):
        c.fail(node, f"exit cannot be used {c.place.value}")
    if node.word in ("break", "continue") and not c.loops:
        c.fail(node, f"{node.word} can only be used in a for loop")
    made = {"exit": core.Exit, "break": core.Break, "continue": core.Continue}.get(node.word)
    return made(node.span) if made else None


def always_returns(body: core.Statement | None) -> bool:
    """Return whether every path through the statement ends with `return` (or `exit`)."""
    match body:
        case core.Return() | core.Exit():
            return True
        case core.BlockStatement():
            return any(map(always_returns, body.statements))
        case core.If(condition=core.Literal(value=holds)):
            return always_returns(body.yes if holds else body.no)
        case core.If():
            return always_returns(body.yes) and always_returns(body.no)
        case core.Switch():
            complete = any(None in case.labels for case in body.cases)
            return complete and all(always_returns(case.body) for case in body.cases)
    return False
