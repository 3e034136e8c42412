# SPDX-License-Identifier: Apache-2.0
"""`@entry_restriction` and `@action_restriction`: what P4 programs demand of entries (p4-constraints).

Grammar, types and casts are those of p4lang/p4-constraints, docs/language-specification.md. A restriction becomes
closures when the pipeline is set, one a clause, so that a refusal names the clause. It is of SDN values, as there: a
string counts as the big-endian number of its bytes; its mask is -1 or 0.
"""

from __future__ import annotations

import ipaddress
import operator
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from finsy.proto import p4i, p4r

from detour.engine.p4runtime import annotations
from detour.engine.p4runtime.errors import invalid
from detour.engine.p4runtime.match import numbers

_GRAMMAR = r"""
clauses: implication (";" implication)* ";"?
?implication: disjunction ("->" disjunction)?
?disjunction: conjunction ("||" conjunction)*
?conjunction: comparison ("&&" comparison)*
?comparison: unary (COMPARE unary)?
?unary: "!" unary -> negation | "-" unary -> minus | projection
?projection: primary ("::" NAME)?
?primary: BOOLEAN -> boolean | NUMBER -> number | ADDRESS -> address
    | NAME ("." NAME)* -> key | "::" NAME -> attribute | "(" clauses ")" -> inner
COMPARE: "==" | "!=" | ">=" | "<=" | ">" | "<"
BOOLEAN.2: /(true|false)\b/
NUMBER: /0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|(0[dD])?[0-9]+/
ADDRESS.2: /ipv[46]\s*\(\s*'[^']*'\s*\)|mac\s*\(\s*'([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}'\s*\)/
NAME: /[_a-zA-Z][_a-zA-Z0-9]*/
%ignore /\s+|\/\/[^\n]*|\/\*(.|\n)*?\*\//
"""
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le
}  # fmt: skip
_Match = p4i.MatchField.MatchType
_PARTS: dict[Any, tuple[str, ...]] = {
    _Match.EXACT: ("value",),
    _Match.TERNARY: ("value", "mask"),
    _Match.OPTIONAL: ("value", "mask"),
    _Match.LPM: ("value", "prefix_length"),
    _Match.RANGE: ("low", "high"),
}

Values = dict[str, tuple[Any, ...]]
"""of match fields, as the parts above, parameters and attributes: numbers, or what a `Logic` has in their place"""
Evaluate = Callable[[Values], Any]


class Logic(NamedTuple):
    """Rules of joining clauses; other ones make terms of them. `compare`: by one of the operators' functions."""

    every: Callable[[list[Any]], Any] = all
    some: Callable[[list[Any]], Any] = any
    no: Callable[[Any], Any] = operator.not_
    compare: Callable[[Any, Any, Any], Any] = lambda sign, a, b: sign(a, b)


class _Type(NamedTuple):
    """`form`: bool, int (of any size), bit, or a match kind. `bits` 0: a string, or none."""

    form: Any
    bits: int = 0

    @property
    def full(self) -> int:
        """The largest number, of all ones."""
        return (1 << self.bits) - 1 if self.bits else -1

    def cast(self, value: int) -> Any:
        """As in P4: a number of any size becomes one of some bits, and that a match of just this value."""
        value &= self.full
        parts = _PARTS.get(self.form)
        if parts is None or len(parts) == 1:
            return (value,) if parts else value
        return value, {"mask": self.full, "prefix_length": self.bits, "high": value}[parts[1]]


_BOOL, _INT = _Type("bool"), _Type("int")


class _Clause(NamedTuple):
    """One of the conditions that must all hold. `text`: as in the program; `keys`: what it speaks of."""

    text: str
    holds: Evaluate
    keys: tuple[str, ...]


class _Compiler:
    """From a syntax tree to types and closures; a ValueError says what is wrong."""

    def __init__(self, scope: dict[str, _Type], text: str, logic: Logic) -> None:
        self._scope, self._text, self._logic = scope, text, logic
        self._keys: dict[str, None] = {}

    def clauses(self, tree: Any) -> Iterator[_Clause]:
        """The conditions that a tree demands."""
        if tree.data in ("clauses", "conjunction", "inner"):
            for child in tree.children:
                yield from self.clauses(child)
        else:
            self._keys = {}
            holds = self._bool(tree)
            yield _Clause(self._quote(tree), holds, tuple(self._keys))

    def _quote(self, tree: Any) -> str:
        return " ".join(self._text[tree.meta.start_pos : tree.meta.end_pos].split())

    def _demand(self, met: bool, tree: Any, text: str) -> None:
        if not met:
            raise ValueError(f"{text} in '{self._quote(tree)}'")

    def _bool(self, tree: Any) -> Evaluate:
        kind, evaluate = self._compile(tree)
        self._demand(kind == _BOOL, tree, "true or false is wanted")
        return evaluate

    def _compile(self, tree: Any) -> tuple[_Type, Evaluate]:
        logic = self._logic
        match tree.data, tree.children:
            case "inner", [part]:
                return self._compile(part)
            case "clauses" | "conjunction", parts:
                every = [self._bool(part) for part in parts]
                return _BOOL, lambda values: logic.every([each(values) for each in every])
            case "disjunction", parts:
                some = [self._bool(part) for part in parts]
                return _BOOL, lambda values: logic.some([each(values) for each in some])
            case "implication", [left, right]:
                given, follows = self._bool(left), self._bool(right)
                return _BOOL, lambda values: logic.some([logic.no(given(values)), follows(values)])
            case "negation", [part]:
                holds = self._bool(part)
                return _BOOL, lambda values: logic.no(holds(values))
            case "minus", [part]:
                kind, evaluate = self._compile(part)
                self._demand(kind == _INT, tree, "only a number of any size can be negative")
                return _INT, lambda values: -evaluate(values)
            case "comparison", [left, sign, right]:
                return self._comparison(tree, left, _COMPARE[sign], right)
            case "projection", [part, name]:
                kind, evaluate = self._compile(part)
                parts = _PARTS.get(kind.form, ())
                self._demand(name in parts, tree, f"there is no ::{name}")
                at = parts.index(name)
                return _INT if name == "prefix_length" else _Type("bit", kind.bits), lambda values: evaluate(values)[at]
            case "boolean" | "number" | "address", [token]:
                value = _constant(token)
                return _BOOL if tree.data == "boolean" else _INT, lambda _: value
        return self._name(tree, ("::" if tree.data == "attribute" else "") + ".".join(tree.children))

    def _name(self, tree: Any, name: str) -> tuple[_Type, Evaluate]:
        self._demand(name in self._scope, tree, f"there is no '{name}'")
        self._keys[name] = None
        kind = self._scope[name]
        return kind, (lambda values: values[name]) if kind.form in _PARTS else (lambda values: values[name][0])

    def _comparison(self, tree: Any, left: Any, compare: Any, right: Any) -> tuple[_Type, Evaluate]:
        sides = [self._compile(left), self._compile(right)]
        one, other = (kind for kind, _ in sides)
        kind = max(one, other, key=lambda each: (each.form not in ("bool", "int"), each.form in _PARTS))
        orders = compare not in (operator.eq, operator.ne)
        self._demand((one == _BOOL) == (other == _BOOL), tree, "the two cannot be compared")
        self._demand(not orders or len(_PARTS.get(kind.form, " ")) == 1 != kind, tree, "the two have no order")
        forms = {one.form, other.form}
        same = _INT in (one, other) or (one.bits == other.bits and len(forms & {*_PARTS}) < 2)
        self._demand(same, tree, "the two are of different types")
        first, second = (
            evaluate if each.form == kind.form else lambda values, evaluate=evaluate: kind.cast(evaluate(values))
            for each, evaluate in sides
        )
        return _BOOL, lambda values: self._logic.compare(compare, first(values), second(values))


def _constant(token: str) -> int:
    if "'" in token:
        text = token.split("'")[1]
        return int(text.replace(":", ""), 16) if token.startswith("mac") else int(ipaddress.ip_address(text))
    text = token.lower().removeprefix("0d")
    return text == "true" if text.isalpha() else int(text, 0 if text[1:2] in ("x", "b", "o") else 10)


@cache
def _parser() -> Callable[[str], Any]:
    """From a text to its syntax tree. Most programs need none, so it is made late."""
    import lark

    parser = lark.Lark(_GRAMMAR, start="clauses", parser="lalr", propagate_positions=True)

    def parse(text: str) -> Any:
        try:
            return parser.parse(text)
        except lark.exceptions.UnexpectedInput as e:
            raise ValueError(f"syntax error at '{text[e.pos_in_stream or 0 :].strip()[:30]}'") from None

    return parse


class Restrictions:
    """Restrictions on the entries of a program's tables and actions."""

    def __init__(self, info: p4i.P4Info, logic: Logic | None = None) -> None:
        self._logic = logic or Logic()
        self._fields = {t.preamble.id: {f.id: f for f in t.match_fields} for t in info.tables}
        self._params = {a.preamble.id: {p.id: p.name for p in a.params} for a in info.actions}
        self._clauses: dict[int, tuple[str, list[_Clause]]] = {}
        for table in info.tables:
            scope = {f.name: _Type(f.match_type, f.bitwidth) for f in table.match_fields} | {"::priority": _INT}
            self._add(table.preamble, "entry_restriction", scope)
        for action in info.actions:
            self._add(action.preamble, "action_restriction", {p.name: _Type("bit", p.bitwidth) for p in action.params})

    def _add(self, preamble: p4i.Preamble, name: str, scope: dict[str, _Type]) -> None:
        where = f"{preamble.name}: @{name}"
        for annotation in annotations.arguments(preamble.annotations, name):
            if not (len(annotation) > 1 and annotation[0] == annotation[-1] == '"'):
                raise invalid(f"P4Info: {where} takes a string in quotes")
            text = annotation[1:-1].replace('" "', "\n")
            try:
                clauses = [*_Compiler(scope, text, self._logic).clauses(_parser()(text))]
            except (ValueError, RecursionError) as e:
                raise invalid(f"P4Info: {where}: {e}") from None
            self._clauses.setdefault(preamble.id, (where, []))[1].extend(clauses)

    def terms(self, id_: int, values: Values) -> list[Any]:
        """Return whether each clause of a table or action holds."""
        return [clause.holds(values) for clause in self._clauses.get(id_, ("", []))[1]]

    def check(self, update: p4r.Update) -> None:
        """INVALID_ARGUMENT names the clause that an update does not meet; it is well formed otherwise."""
        if not self._clauses or update.type == p4r.Update.DELETE:
            return
        entry = update.entity.table_entry
        if entry.table_id in self._clauses and not entry.is_default_action:
            self._check(entry.table_id, self._of_entry(entry))
        one_shot = entry.action.action_profile_action_set.action_profile_actions
        for action in (entry.action.action, update.entity.action_profile_member.action, *(a.action for a in one_shot)):
            if action.action_id in self._clauses:
                names = self._params[action.action_id]
                values = {names[p.param_id]: (int.from_bytes(p.value, "big"),) for p in action.params}
                self._check(action.action_id, values)

    def _check(self, id_: int, values: Values) -> None:
        where, clauses = self._clauses[id_]
        for clause in clauses:
            if not clause.holds(values):
                given = ", ".join(f"{key} = {' &&& '.join(map(hex, values[key]))}" for key in clause.keys)
                raise invalid(f"{where} is not met: {clause.text} ({given})")

    def _of_entry(self, entry: p4r.TableEntry) -> Values:
        fields = self._fields[entry.table_id]
        values: Values = {"::priority": (entry.priority,)}
        for field in fields.values():
            values[field.name] = 0, _Type("", field.bitwidth).full if field.match_type == _Match.RANGE else 0
        for m in entry.match:
            field = fields[m.field_id]
            full = (_Type("", field.bitwidth).full,) if m.HasField("optional") else ()
            values[field.name] = numbers(m) + full
        return values
