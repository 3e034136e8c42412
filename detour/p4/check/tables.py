# SPDX-License-Identifier: Apache-2.0
"""Tables (specification, section 13.2): keys, actions, default action, entries and their priorities, properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from detour.p4 import core, syntax, types
from detour.p4.check.arguments import Signature, bind
from detour.p4.check.checker import Checker
from detour.p4.check.constants import as_integer, is_known, is_number, value_of
from detour.p4.check.notes import begun, noted
from detour.p4.check.scope import MatchKind, Place
from detour.p4.check.sets import product
from detour.p4.check.typenames import describe
from detour.p4.source import Located, Span
from detour.p4.types import BOOL, ERROR, MATCH_KIND, Bits, SetOf, underlying

MAX_PRIORITY = (1 << 31) - 1
WITH_PRIORITY = frozenset({"ternary", "range", "optional"})
"""Match kinds by which several entries can match."""


def table(c: Checker, node: syntax.Table) -> core.Table:
    """Declare a table."""
    result = begun(c, core.Table, node)
    properties = {one.name.text: one for one in node.properties}
    _check_order(c, node)
    c.table_name = node.name.text
    try:
        with c.inside(Place.TABLE):
            _properties(c, result, node, properties)
        if "default_action" not in properties:
            _add_no_action(c, result, node.name)
    finally:
        c.table_name = ""
    c.declare(node.name, result)
    return result


def _check_order(c: Checker, node: syntax.Table) -> None:
    seen = set()
    for one in node.properties:
        name = one.name.text
        if name in seen:
            c.fail(one, f"table {node.name.text} has two properties {name}")
        if isinstance(one, syntax.ListProperty) and name == "entries" and "key" not in seen and one.elements:
            later = any(other.name.text == "key" for other in node.properties)
            what = "must stand after the key" if later else "need a key"
            c.fail(one if later else node.name, f"entries of table {node.name.text} {what}")
        if name == "default_action" and "actions" not in seen:
            c.fail(node.name, f"table {node.name.text} has no list of actions before its default action")
        seen.add(name)


def _properties(
    c: Checker,
    result: core.Table,
    node: syntax.Table,
    properties: dict[str, syntax.Property | syntax.ListProperty],
) -> None:
    """Keys and actions first: entries and the default action refer to them."""
    for one in node.properties:
        if isinstance(one, syntax.ListProperty) and one.name.text == "key":
            result.keys = tuple(_key(c, element) for element in one.elements)
        elif isinstance(one, syntax.ListProperty) and one.name.text == "actions":
            result.actions = _actions(c, one)
    for name, one in properties.items():
        with c.recovery():
            notes = noted(c, one)
            if notes:
                result.property_annotations[name] = notes
            if isinstance(one, syntax.ListProperty):
                if name == "entries":
                    _entries(c, result, one, node)
            elif name == "default_action":
                _default_action(c, result, one)
            else:
                _property(c, result, one)
    if "actions" not in properties:
        c.fail(node.name, f"table {result.name} has no actions", "Add actions = { NoAction; }.")


def _key(c: Checker, node: syntax.KeyElement) -> core.Key:
    with c.inside(Place.APPLY):
        expression = c.expression(node.expression)
    match_kind = node.match_kind.text
    symbol = c.top.symbols.get(match_kind)
    if symbol is None:
        c.fail(node.match_kind, f"match kind {match_kind} is not declared", "exact, ternary, lpm are.")
    if not isinstance(symbol, MatchKind):
        c.fail(node.match_kind, f"{match_kind} is not a match kind")
    kind = expression.type
    if not isinstance(kind, Bits | types.Enum | types.NewType | types.Varbits) and kind not in (BOOL, ERROR):
        hint = "Use its fields." if not isinstance(kind, SetOf) and kind != MATCH_KIND else ""
        c.fail(node.expression, f"a key cannot have the type {describe(kind)}", hint)
    notes = noted(c, node)
    if not core.annotation(notes, "name") and not _has_name(expression):
        c.fail(node.expression, "a computed key needs a name", 'Write @name("...") after it.')
    return core.Key(expression, match_kind, notes, node.span)


def _has_name(key: core.Expression) -> bool:
    """Return whether the key is written so that the control plane's name follows (18.3.1.3)."""
    if isinstance(key, core.Member | core.StackMember | core.Index | core.Slice):
        return _has_name(key.base)
    if isinstance(key, core.Binary):
        return key.operator == "&" and _has_name(key.left)
    return not isinstance(key, core.Unary | core.Conditional | core.Cast | core.CallFunction | core.CallMethod)


# ---------------------------------------------------------------- actions


def _find_action(c: Checker, name: syntax.NameExpression) -> core.Action:
    symbol = c.find(name)
    if not isinstance(symbol, core.Action):
        c.fail(name, f"{name.name} is not an action")
    return symbol


def _actions(c: Checker, node: syntax.ListProperty) -> tuple[core.ActionChoice, ...]:
    choices: dict[str, core.ActionChoice] = {}
    for one in node.elements:
        action = _find_action(c, one.name)
        if action.name in choices:
            c.fail(one, f"the list has two actions {action.name}")
        directed = tuple(parameter for parameter in action.parameters if parameter.direction)
        given = one.arguments or ()
        if len(directed) < len(given) <= len(action.parameters):
            data = action.parameters[len(directed)].name
            text = f"parameter {data} of {action.name} is set by the control plane"
            c.fail(given[len(directed)], text, "Leave it away.")
        if len(given) < len(directed):
            missing = directed[len(given)].name
            c.fail(one, f"the table must give an argument for {missing} of action {action.name}")
        bound = bind(c, Signature(action.name, directed, action=True), (), given, one)
        notes = noted(c, one)
        choices[action.name] = core.ActionChoice(action, bound.arguments, notes, one.span)  # type: ignore[arg-type]
    return tuple(choices.values())


def _use(
    c: Checker,
    result: core.Table,
    name: syntax.NameExpression,
    given: tuple[syntax.Argument, ...] | None,
    span: Span,
) -> core.ActionUse:
    """An action with all arguments, as of an entry; those with a direction are the ones of the actions list."""
    action = _find_action(c, name)
    choice = _choice(result, action)
    if choice is None:
        other = any(one.action.name == action.name for one in result.actions)
        hint = "The list has another action of this name." if other else "Add it to the list of actions."
        c.fail(span, f"{action.name} is not an action of table {result.name}", hint)
    listed = choice.arguments
    if given is None:
        rest = action.parameters[len(listed) :]
        if rest:
            c.fail(span, f"action {action.name} needs an argument for {rest[0].name}")
        return core.ActionUse(action, listed, span)
    bound = bind(c, Signature(action.name, action.parameters, action=True), (), given, span)
    for mine, theirs in zip(bound.arguments, listed, strict=False):
        if mine is not None and "".join(mine.span.text.split()) != "".join(theirs.span.text.split()):
            c.fail(mine, f"{mine.span.text} is not the argument in the list of actions, {theirs.span.text}")
    data = bound.arguments[len(listed) :]
    for value in data:
        if value is not None and not is_known(value):
            c.fail(value, f"an argument of action {action.name} must be known at compile time")
    return core.ActionUse(action, (*listed, *data), span)


def _choice(result: core.Table, action: core.Action) -> core.ActionChoice | None:
    return next((choice for choice in result.actions if choice.action is action), None)


def _has_note(result: core.Table, action: core.Action, name: str) -> bool:
    choice = _choice(result, action)
    return choice is not None and core.annotation(choice.annotations, name) is not None


def _default_action(c: Checker, result: core.Table, node: syntax.Property) -> None:
    value = node.value
    name, given = (value.function, value.arguments) if isinstance(value, syntax.Call) else (value, None)
    if not isinstance(name, syntax.NameExpression):
        c.fail(value, "a default action is an action's name, with its arguments")
    use = result.default_action = _use(c, result, name, given, value.span)
    if _has_note(result, use.action, "tableonly"):
        c.fail(value, f"action {use.action.name} is @tableonly and cannot be the default action")
    result.default_is_constant = node.constant


def _add_no_action(c: Checker, result: core.Table, at: syntax.Name) -> None:
    """Make NoAction the default action of a table that names none (13.2.1.3)."""
    action = c.top.symbols.get("NoAction")
    if not isinstance(action, core.Action) or action.parameters:
        text = "a table without a default action needs the action NoAction() of core.p4"
        c.fail(action or at, text, "#include <core.p4>")
    c.used.add(action)
    if result.keys:
        c.warn("default", at, f"table {result.name} has no default action: a packet without an entry passes it")
    if _choice(result, action) is None:
        choice = core.ActionChoice(action, (), (core.Annotation("defaultonly"),), at.span)
        result.actions = (*result.actions, choice)
    result.default_action = core.ActionUse(action, (), at.span)


# ---------------------------------------------------------------- other properties


def _property(c: Checker, result: core.Table, node: syntax.Property) -> None:
    name = node.name.text
    value = c.expression(node.value)
    number = as_integer(value)
    if name == "size":
        if not is_number(underlying(value.type)) or not is_known(value) or (number is not None and number < 0):
            c.fail(node.value, "size must be a number that is known at compile time, not negative")
        result.size = number
        if number is not None:
            return
    if name == "largest_priority_wins" and value.type != BOOL:
        c.fail(node.value, f"{name} must be true or false")
    if name == "priority_delta" and (number or 0) <= 0:
        c.fail(node.value, f"{name} must be a positive number that is known at compile time")
    result.properties[name] = value


# ---------------------------------------------------------------- entries


def _entries(c: Checker, result: core.Table, node: syntax.ListProperty, table: syntax.Table) -> None:
    if not result.keys and node.elements:
        c.fail(table.name, f"entries of table {result.name} need a key")
    result.has_entries, result.entries_are_constant = True, node.constant
    entries = []
    for entry in node.elements:
        with c.recovery():
            entries.append(_entry(c, result, entry, node.constant))
    result.entries = tuple(entries)
    _check_duplicates(c, result)
    if not node.constant and len(entries) == len(node.elements):
        result.entries = _with_priorities(c, result, node, table)


def _entry(c: Checker, result: core.Table, node: syntax.Entry, constant: bool) -> core.Entry:
    kinds = [key.expression.type for key in result.keys]
    labels = product(c, node.set, kinds, "the entry")
    if isinstance(labels, core.TupleValue):
        sets = labels.elements
    else:
        sets = tuple(core.Anything(SetOf(kind), node.set.span) for kind in kinds)
    for key, one in zip(result.keys, sets, strict=True):
        _check_set(c, key, one)
    use = _use(c, result, node.action.name, node.action.arguments, node.action.span)
    if _has_note(result, use.action, "defaultonly"):
        c.fail(node, f"action {use.action.name} is @defaultonly and cannot be the action of an entry")
    priority = None
    if node.priority is not None:
        if constant:
            c.fail(node.priority, "const entries cannot have priorities: their order decides")
        priority = as_integer(c.expression(node.priority))
        if priority is None or priority < 0:
            c.fail(node.priority, "a priority must be a number that is known at compile time, not negative")
    return core.Entry(sets, use, priority, constant or node.constant, noted(c, node), node.span)


SET_NAMES: dict[type, tuple[str, tuple[str, ...]]] = {
    core.MaskSet: ("a mask", ("lpm", "ternary")),
    core.RangeSet: ("a range", ("range",)),
}
"""Match kinds of the language that take such sets."""


def _check_set(c: Checker, key: core.Key, one: core.Expression) -> None:
    name, match_kinds = SET_NAMES.get(type(one), ("", ()))
    if name and key.match_kind in ("exact", "lpm", *WITH_PRIORITY) and key.match_kind not in match_kinds:
        c.fail(one, f"{name} cannot be matched by a key of the match kind {key.match_kind}")
    if isinstance(one, core.MaskSet) and key.match_kind == "lpm":
        mask, kind = as_integer(one.mask), underlying(key.expression.type)
        zeros = ~mask & ((1 << kind.width) - 1) if mask is not None and isinstance(kind, Bits) else 0
        if zeros & (zeros + 1):
            c.fail(one, "the mask of an lpm key must be a prefix: ones, then zeros")
    if not is_known(one):
        c.fail(one, "the keys of an entry must be known at compile time")


def _check_duplicates(c: Checker, result: core.Table) -> None:
    """Report entries of exact keys with the same values: only one could match."""
    if any(key.match_kind != "exact" for key in result.keys):
        return
    seen: set[object] = set()
    for entry in result.entries:
        values = tuple(map(value_of, entry.keys))
        if None not in values and values in seen:
            c.error(entry, "another entry has the same keys")
        seen.add(values)


def _with_priorities(
    c: Checker, result: core.Table, node: syntax.ListProperty, table: syntax.Table
) -> tuple[core.Entry, ...]:
    """Entries with the priorities that the source leaves out (13.2.1.4.1)."""
    written = [entry.priority for entry in result.entries]
    has_priorities = any(priority is not None for priority in written)
    if not any(key.match_kind in WITH_PRIORITY for key in result.keys):
        if has_priorities:
            at: Located = next(one for one in table.properties if one.name.text == "key")
            c.fail(at, "a table without ternary, range or optional keys has no priorities")
        return result.entries
    if has_priorities and written[0] is None:
        c.fail(node.elements[0], "the first entry needs a priority, since others have one")
    delta_of, largest_of = result.properties.get("priority_delta"), result.properties.get("largest_priority_wins")
    delta = 1 if delta_of is None else as_integer(delta_of) or 1
    largest = not (isinstance(largest_of, core.Literal) and largest_of.value is False)
    priorities = _fill(written, delta, largest)
    for priority, entry in zip(priorities, node.elements, strict=True):
        if not 0 <= priority <= MAX_PRIORITY:
            text = f"priority {priority} of {entry.span.text} is out of range"
            c.fail(table.name, text, f"Priorities are 0 to {MAX_PRIORITY}.")
    _warn_of_order(c, result.entries, priorities, largest)
    pairs = zip(result.entries, priorities, strict=True)
    return tuple(replace(entry, priority=priority) for entry, priority in pairs)


def _fill(written: Sequence[int | None], delta: int, largest: bool) -> list[int]:
    if all(priority is None for priority in written):
        rising = [1 + delta * at for at in range(len(written))]
        return rising[::-1] if largest else rising
    result: list[int] = []
    for priority in written:
        result.append(priority if priority is not None else result[-1] + (-delta if largest else delta))
    return result


def _warn_of_order(c: Checker, entries: Sequence[core.Entry], priorities: list[int], largest: bool) -> None:
    seen: set[int] = set()
    for at, (priority, entry) in enumerate(zip(priorities, entries, strict=True)):
        if priority in seen:
            c.warn("duplicate-priorities", entry, f"another entry has the priority {priority} too")
        seen.add(priority)
        before = priorities[at - 1] if at else priority
        if before < priority if largest else before > priority:
            c.warn("entries-out-of-priority-order", entry, "this entry comes before the one that stands before it")
