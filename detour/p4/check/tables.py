# SPDX-License-Identifier: Apache-2.0
"""Tables (specification, section 13.2): keys, actions, default action, entries and their priorities, properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from detour.p4 import core, syntax
from detour.p4.check.arguments import Signature, bind
from detour.p4.check.checker import Checker
from detour.p4.check.constants import as_integer, is_known, is_number, value_of
from detour.p4.check.notes import noted
from detour.p4.check.scope import MatchKind, Place
from detour.p4.check.sets import product
from detour.p4.check.typenames import describe
from detour.p4.messages import CompileError
from detour.p4.source import Span
from detour.p4.types import BOOL, ERROR, MATCH_KIND, Bits, Enum, NewType, SetOf, Type, Varbits, underlying

MAX_PRIORITY = (1 << 31) - 1
WITH_PRIORITY = frozenset({"ternary", "range", "optional"})
"""Match kinds by which several entries can match."""


@dataclass(slots=True)
class Draft:
    """A table while it is checked."""

    result: core.Table
    node: syntax.Table
    choices: dict[core.Action, core.ActionChoice] = field(default_factory=dict)
    has_actions: bool = False


def table(c: Checker, node: syntax.Table) -> core.Table:
    """Declares a table."""
    draft = Draft(core.Table(node.name.text, node.name.span), node)
    try:
        draft.result.annotations = noted(c, node.annotations)
        _check_twice(c, node)
        c.table_name = node.name.text
        with c.inside(Place.TABLE):
            _properties(c, draft)
        _default(c, draft)
        draft.result.actions = tuple(draft.choices.values())
    except CompileError:
        c.declare_broken(node.name)
        raise
    finally:
        c.table_name = ""
    c.declare(node.name.text, draft.result, node.name.span)
    return draft.result


PROPERTY_NAMES: dict[type, str] = {
    syntax.KeyProperty: "key",
    syntax.ActionsProperty: "actions",
    syntax.EntriesProperty: "entries",
}


def _property_name(node: syntax.Node) -> str:
    return node.name.text if isinstance(node, syntax.Property) else PROPERTY_NAMES[type(node)]


def _check_twice(c: Checker, node: syntax.Table) -> None:
    seen = set()
    for one in node.properties:
        name = _property_name(one)
        if name in seen:
            c.fail(one.span, f"table {node.name.text} has two properties {name}")
        if isinstance(one, syntax.EntriesProperty) and "key" not in seen and one.entries:
            later = any(isinstance(other, syntax.KeyProperty) for other in node.properties)
            what = "must stand after the key" if later else "need a key"
            c.fail(one.span if later else node.name.span, f"entries of table {node.name.text} {what}")
        if name == "default_action" and "actions" not in seen:
            c.fail(node.name.span, f"table {node.name.text} has no list of actions before its default action")
        seen.add(name)


def _properties(c: Checker, draft: Draft) -> None:
    """Keys and actions first: entries and the default action refer to them."""
    later = []
    for node in draft.node.properties:
        if isinstance(node, syntax.KeyProperty):
            draft.result.keys = tuple(_key(c, element) for element in node.elements)
        elif isinstance(node, syntax.ActionsProperty):
            draft.has_actions = True
            _actions(c, draft, node)
        else:
            later.append(node)
    for node in later:
        with c.recovery():
            if isinstance(node, syntax.EntriesProperty):
                _entries(c, draft, node)
            elif node.name.text == "default_action":
                _default_action(c, draft, node)
            else:
                _property(c, draft, node)
    if not draft.has_actions:
        c.fail(draft.node.name.span, f"table {draft.result.name} has no actions", "Add actions = { NoAction; }.")


def _key(c: Checker, node: syntax.KeyElement) -> core.Key:
    with c.inside(Place.APPLY):
        expression = c.expression(node.expression)
    symbol = c.top.symbols.get(node.match_kind.text)
    if symbol is None:
        c.fail(node.match_kind.span, f"match kind {node.match_kind.text} is not declared", "exact, ternary, lpm are.")
    if not isinstance(symbol, MatchKind):
        c.fail(node.match_kind.span, f"{node.match_kind.text} is not a match kind")
    kind = expression.type
    if not (isinstance(kind, Bits | Enum | NewType | Varbits) or kind in (BOOL, ERROR)):
        hint = "Use its fields." if not isinstance(kind, SetOf) and kind != MATCH_KIND else ""
        c.fail(node.expression.span, f"a key cannot have the type {describe(kind)}", hint)
    notes = noted(c, node.annotations)
    if not core.annotation(notes, "name") and not _has_name(expression):
        c.fail(node.expression.span, "a computed key needs a name", 'Write @name("...") after it.')
    return core.Key(expression, symbol.name, notes, node.span)


def _has_name(key: core.Expression) -> bool:
    """Whether the key is written so that the control plane's name follows (18.3.1.3)."""
    if isinstance(key, core.Member | core.StackMember | core.Index | core.Slice):
        return _has_name(key.base)
    if isinstance(key, core.Binary):
        return key.operator == "&" and _has_name(key.left)
    return not isinstance(key, core.Unary | core.Conditional | core.Cast | core.CallFunction | core.CallMethod)


# ---------------------------------------------------------------- actions


def _find_action(c: Checker, name: syntax.NameExpression) -> core.Action:
    symbol = c.find(name.name, name.absolute, name.span)
    if not isinstance(symbol, core.Action):
        c.fail(name.span, f"{name.name} is not an action")
    return symbol


def _actions(c: Checker, draft: Draft, node: syntax.ActionsProperty) -> None:
    names: dict[str, Span] = {}
    for one in node.actions:
        action = _find_action(c, one.name)
        if action.name in names:
            c.fail(one.span, f"the list has two actions {action.name}")
        names[action.name] = one.span
        directed = tuple(parameter for parameter in action.parameters if parameter.direction)
        given = one.arguments or ()
        if len(given) > len(directed):
            extra = given[len(directed)]
            data = action.parameters[len(directed)].name if len(given) <= len(action.parameters) else ""
            if data:
                c.fail(extra.span, f"parameter {data} of {action.name} is set by the control plane", "Leave it away.")
        missing = directed[len(given)].name if len(given) < len(directed) else ""
        if missing:
            c.fail(one.span, f"the table must give an argument for {missing} of action {action.name}")
        bound = bind(c, Signature(action.name, directed, action=True), (), given, one.span)
        choice = core.ActionChoice(action, bound.arguments, noted(c, one.annotations), one.span)  # type: ignore[arg-type]
        draft.choices[action] = choice


def _use(
    c: Checker, draft: Draft, name: syntax.NameExpression, given: tuple[syntax.Argument, ...] | None, span: Span
) -> core.ActionUse:
    """An action with all arguments, as of an entry; those with a direction are the ones of the actions list."""
    action = _find_action(c, name)
    choice = draft.choices.get(action)
    if choice is None:
        if not draft.has_actions:
            c.fail(span, f"table {draft.result.name} has no list of actions")
        other = any(one.name == action.name for one in draft.choices)
        c.fail(
            span,
            f"{action.name} is not an action of table {draft.result.name}",
            "The list has another action of this name." if other else "Add it to the list of actions.",
        )
    listed = choice.arguments
    if given is None:
        rest = action.parameters[len(listed) :]
        if rest:
            c.fail(span, f"action {action.name} needs an argument for {rest[0].name}")
        return core.ActionUse(action, listed, span)
    bound = bind(c, Signature(action.name, action.parameters, action=True), (), given, span)
    for mine, theirs in zip(bound.arguments, listed, strict=False):
        if mine is not None and not _same_text(mine.span, theirs.span):
            c.fail(mine.span, f"{mine.span.text} is not the argument in the list of actions, {theirs.span.text}")
    for value in bound.arguments[len(listed) :]:
        if value is not None and not is_known(value):
            c.fail(value.span, f"an argument of action {action.name} must be known at compile time")
    return core.ActionUse(action, (*listed, *bound.arguments[len(listed) :]), span)


def _same_text(one: Span, other: Span) -> bool:
    return "".join(one.text.split()) == "".join(other.text.split())


def _called(c: Checker, node: syntax.Expression) -> tuple[syntax.NameExpression, tuple[syntax.Argument, ...] | None]:
    if isinstance(node, syntax.Call) and isinstance(node.function, syntax.NameExpression):
        return node.function, node.arguments
    if isinstance(node, syntax.NameExpression):
        return node, None
    c.fail(node.span, "a default action is an action's name, with its arguments")


def _default_action(c: Checker, draft: Draft, node: syntax.Property) -> None:
    name, given = _called(c, node.value)
    use = _use(c, draft, name, given, node.value.span)
    choice = draft.choices[use.action]
    if core.annotation(choice.annotations, "tableonly"):
        c.fail(node.value.span, f"action {use.action.name} is @tableonly and cannot be the default action")
    draft.result.default_action = use
    draft.result.default_is_constant = node.constant
    notes = noted(c, node.annotations)
    if notes:
        draft.result.property_annotations["default_action"] = notes


def _default(c: Checker, draft: Draft) -> None:
    """Sets the default action to NoAction where the table names none (13.2.1.3)."""
    if draft.result.default_action is not None or any(
        isinstance(node, syntax.Property) and node.name.text == "default_action" for node in draft.node.properties
    ):
        return
    action = c.top.symbols.get("NoAction")
    span = draft.node.name.span
    if not isinstance(action, core.Action) or action.parameters:
        at = span if action is None else action.span
        c.fail(at, "a table without a default action needs the action NoAction() of core.p4", "#include <core.p4>")
    c.used.add(action)
    if draft.result.keys:
        c.warn("default", span, f"table {draft.result.name} has no default action: a packet without an entry passes it")
    if action not in draft.choices:
        note = core.Annotation("defaultonly")
        draft.choices[action] = core.ActionChoice(action, (), (note,), span)
    draft.result.default_action = core.ActionUse(action, (), span)


# ---------------------------------------------------------------- other properties


def _property(c: Checker, draft: Draft, node: syntax.Property) -> None:
    name = node.name.text
    value = c.expression(node.value)
    notes = noted(c, node.annotations)
    if notes:
        draft.result.property_annotations[name] = notes
    if name == "size":
        size = as_integer(value)
        if not is_number(value.type) or not is_known(value) or (size is not None and size < 0):
            c.fail(node.value.span, "size must be a number that is known at compile time, not negative")
        draft.result.size = size
        if size is not None:
            return
    if name == "largest_priority_wins" and value.type != BOOL:
        c.fail(node.value.span, f"{name} must be true or false")
    if name == "priority_delta" and (as_integer(value) or 0) <= 0:
        c.fail(node.value.span, f"{name} must be a positive number that is known at compile time")
    draft.result.properties[name] = value


# ---------------------------------------------------------------- entries


def _entries(c: Checker, draft: Draft, node: syntax.EntriesProperty) -> None:
    result = draft.result
    if not result.keys and node.entries:
        c.fail(draft.node.name.span, f"entries of table {result.name} need a key")
    result.has_entries, result.entries_are_constant = True, node.constant
    notes = noted(c, node.annotations)
    if notes:
        result.property_annotations["entries"] = notes
    entries = []
    for entry in node.entries:
        with c.recovery():
            entries.append(_entry(c, draft, entry, node.constant))
    result.entries = tuple(entries)
    _check_duplicates(c, result)
    if not node.constant and len(entries) == len(node.entries):
        result.entries = _with_priorities(c, draft, node)


def _entry(c: Checker, draft: Draft, node: syntax.Entry, constant: bool) -> core.Entry:
    keys = draft.result.keys
    kinds: Sequence[Type] = [key.expression.type for key in keys]
    labels = product(c, node.set, kinds, "the entry")
    if isinstance(labels, core.TupleValue):
        sets = labels.elements
    else:
        sets = tuple(core.Anything(SetOf(kind), node.set.span) for kind in kinds)
    for key, one in zip(keys, sets, strict=True):
        _check_set(c, key, one)
    use = _use(c, draft, node.action.name, node.action.arguments, node.action.span)
    if core.annotation(draft.choices[use.action].annotations, "defaultonly"):
        c.fail(node.span, f"action {use.action.name} is @defaultonly and cannot be the action of an entry")
    priority = None
    if node.priority is not None:
        if constant:
            c.fail(node.priority.span, "const entries cannot have priorities: their order decides")
        priority = as_integer(c.expression(node.priority))
        if priority is None or priority < 0:
            c.fail(node.priority.span, "a priority must be a number that is known at compile time, not negative")
    return core.Entry(sets, use, priority, constant or node.constant, noted(c, node.annotations), node.span)


ALLOWED: dict[str, tuple[type, ...]] = {
    "exact": (core.Anything,),
    "lpm": (core.Anything, core.MaskSet),
    "ternary": (core.Anything, core.MaskSet),
    "optional": (core.Anything,),
    "range": (core.Anything, core.RangeSet),
}
SET_NAMES: dict[type, str] = {core.MaskSet: "a mask", core.RangeSet: "a range"}


def _check_set(c: Checker, key: core.Key, one: core.Expression) -> None:
    name = SET_NAMES.get(type(one))
    allowed = ALLOWED.get(key.match_kind)
    if name and allowed is not None and type(one) not in allowed:
        c.fail(one.span, f"{name} cannot be matched by a key of the match kind {key.match_kind}")
    if isinstance(one, core.MaskSet) and key.match_kind == "lpm":
        mask = as_integer(one.mask)
        kind = underlying(key.expression.type)
        if mask is not None and isinstance(kind, Bits) and not _is_prefix(mask, kind.width):
            c.fail(one.span, "the mask of an lpm key must be a prefix: ones, then zeros")
    if not is_known(one):
        c.fail(one.span, "the keys of an entry must be known at compile time")


def _is_prefix(mask: int, width: int) -> bool:
    """Whether the ones of the mask are its highest bits."""
    zeros = ~mask & ((1 << width) - 1)
    return zeros & (zeros + 1) == 0


def _check_duplicates(c: Checker, result: core.Table) -> None:
    """Reports entries of exact keys with the same values: only one could match."""
    if any(key.match_kind != "exact" for key in result.keys):
        return
    seen: set[object] = set()
    for entry in result.entries:
        values = tuple(map(value_of, entry.keys))
        if None not in values and values in seen:
            c.error(entry.span, "another entry has the same keys")
        seen.add(values)


def _with_priorities(c: Checker, draft: Draft, node: syntax.EntriesProperty) -> tuple[core.Entry, ...]:
    """Entries with the priorities that the source leaves out (13.2.1.4.1)."""
    result = draft.result
    written = [entry.priority for entry in result.entries]
    if not any(key.match_kind in WITH_PRIORITY for key in result.keys):
        if any(entry.priority is not None for entry in node.entries):
            at = next(one.span for one in draft.node.properties if isinstance(one, syntax.KeyProperty))
            c.fail(at, "a table without ternary, range or optional keys has no priorities")
        return result.entries
    if written and written[0] is None and any(priority is not None for priority in written):
        c.fail(node.entries[0].span, "the first entry needs a priority, since others have one")
    delta_of, largest_of = result.properties.get("priority_delta"), result.properties.get("largest_priority_wins")
    delta = 1 if delta_of is None else as_integer(delta_of) or 1
    largest = largest_of.value is not False if isinstance(largest_of, core.Literal) else True
    priorities = _fill(written, delta, largest)
    for priority, entry in zip(priorities, node.entries, strict=True):
        if not 0 <= priority <= MAX_PRIORITY:
            c.fail(
                draft.node.name.span,
                f"priority {priority} of {entry.span.text} is out of range",
                f"Priorities are 0 to {MAX_PRIORITY}.",
            )
    _warn_of_order(c, result, priorities, largest)
    return tuple(
        core.Entry(entry.keys, entry.use, priority, entry.constant, entry.annotations, entry.span)
        for entry, priority in zip(result.entries, priorities, strict=True)
    )


def _fill(written: list[int | None], delta: int, largest: bool) -> list[int]:
    count = len(written)
    if all(priority is None for priority in written):
        rising = [1 + delta * at for at in range(count)]
        return rising[::-1] if largest else rising
    result: list[int] = []
    for priority in written:
        if priority is None:
            priority = result[-1] + (-delta if largest else delta)
        result.append(priority)
    return result


def _warn_of_order(c: Checker, result: core.Table, priorities: list[int], largest: bool) -> None:
    silent = {
        value
        for note in result.property_annotations.get("entries", ())
        if note.name.lower() == "nowarn"
        for value in note.values
    }
    seen: set[int] = set()
    for at, (priority, entry) in enumerate(zip(priorities, result.entries, strict=True)):
        if priority in seen and "duplicate_priorities" not in silent:
            c.warn("duplicate_priorities", entry.span, f"another entry has the priority {priority} too")
        seen.add(priority)
        before = priorities[at - 1] if at else priority
        if (before < priority if largest else before > priority) and "entries_out_of_priority_order" not in silent:
            c.warn("entries_out_of_priority_order", entry.span, "this entry comes before the one that stands before it")
