# SPDX-License-Identifier: Apache-2.0
"""`@entry_restriction` and `@action_restriction`: what P4 programs demand of entries (p4-constraints).

Grammar, types and casts are those of p4lang/p4-constraints, docs/language-specification.md. A restriction is compiled
to closures when the pipeline is set, clause by clause, so that a refusal names the clause. It is of SDN values, as
there: a string counts as the big-endian number of its bytes. Of a string's `mask` the language says nothing; here it
is -1 or 0.
"""

from __future__ import annotations

import ipaddress
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from finsy.proto import p4i, p4r

from detour.engine.p4runtime import annotations
from detour.engine.p4runtime.errors import invalid

_GRAMMAR = r"""
?start: clauses
clauses: implication (";" implication)* ";"?
?implication: disjunction ("->" disjunction)?
?disjunction: conjunction ("||" conjunction)*
?conjunction: comparison ("&&" comparison)*
?comparison: unary (COMPARE unary)?
?unary: "!" unary -> negation
    | "-" unary -> minus
    | projection
?projection: primary ("::" NAME)?
?primary: BOOLEAN -> boolean
    | NUMBER -> number
    | ADDRESS -> address
    | NAME ("." NAME)* -> key
    | "::" NAME -> attribute
    | "(" clauses ")" -> inner
COMPARE: "==" | "!=" | ">=" | "<=" | ">" | "<"
BOOLEAN.2: /(true|false)\b/
NUMBER: /0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|(0[dD])?[0-9]+/
ADDRESS.2: /(ipv4|ipv6|mac)\s*\(\s*'[^']*'\s*\)/
NAME: /[_a-zA-Z][_a-zA-Z0-9]*/
%ignore /\s+/
%ignore /\/\/[^\n]*/
%ignore /\/\*(.|\n)*?\*\//
"""
_COMPARE = {
    "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le
}  # fmt: skip
_Match = p4i.MatchField.MatchType
_PARTS = {
    _Match.EXACT: ("value",),
    _Match.TERNARY: ("value", "mask"),
    _Match.OPTIONAL: ("value", "mask"),
    _Match.LPM: ("value", "prefix_length"),
    _Match.RANGE: ("low", "high"),
}

Values = dict[str, tuple[int, ...]]
"""of match fields, as the parts above, parameters and attributes"""
Evaluate = Callable[[Values], Any]


class _Type(NamedTuple):
    """`form`: bool, int (of any size), bit, or a match kind. `bits` 0: a string, or not known."""

    form: Any
    bits: int = 0

    def cast(self, value: int) -> tuple[int, ...]:
        """A number as a match that nothing else fits."""
        full = (1 << self.bits) - 1 if self.bits else -1
        value = value & full if self.bits else value
        match self.form:
            case _Match.EXACT:
                return (value,)
            case _Match.RANGE:
                return value, value
            case _Match.LPM:
                return value, self.bits
        return value, full


_BOOL, _INT = _Type("bool"), _Type("int")


@dataclass(frozen=True)
class _Clause:
    """One of the conditions that must all hold. `text`: as in the program; `keys`: what it speaks of."""

    text: str
    holds: Evaluate
    keys: tuple[str, ...]


class _Compiler:
    """From a syntax tree to (type, closure)."""

    def __init__(self, scope: dict[str, _Type], text: str) -> None:
        self._scope, self._text = scope, text
        self._keys: dict[str, None] = {}

    def clauses(self, tree: Any) -> Iterator[_Clause]:
        """The conditions that a tree demands."""
        if tree.data in ("clauses", "conjunction", "inner"):
            for child in tree.children:
                yield from self.clauses(child)
            return
        self._keys = {}
        holds = self._bool(tree)
        text = " ".join(self._text[tree.meta.start_pos : tree.meta.end_pos].split())
        yield _Clause(text, holds, tuple(self._keys))

    def _error(self, tree: Any, text: str) -> Exception:
        meta = tree.meta
        return ValueError(f"{text} in '{' '.join(self._text[meta.start_pos : meta.end_pos].split())}'")

    def _bool(self, tree: Any) -> Evaluate:
        kind, evaluate = self._compile(tree)
        if kind != _BOOL:
            raise self._error(tree, "true or false is wanted")
        return evaluate

    def _compile(self, tree: Any) -> tuple[_Type, Evaluate]:
        return getattr(self, f"_{tree.data}")(tree, *tree.children)

    def _clauses(self, _: Any, *parts: Any) -> tuple[_Type, Evaluate]:
        every = [self._bool(part) for part in parts]
        return _BOOL, every[0] if len(every) == 1 else lambda values: all(each(values) for each in every)

    _conjunction = _clauses

    def _disjunction(self, _: Any, *parts: Any) -> tuple[_Type, Evaluate]:
        every = [self._bool(part) for part in parts]
        return _BOOL, lambda values: any(each(values) for each in every)

    def _implication(self, _: Any, left: Any, right: Any) -> tuple[_Type, Evaluate]:
        given, follows = self._bool(left), self._bool(right)
        return _BOOL, lambda values: not given(values) or follows(values)

    def _negation(self, _: Any, part: Any) -> tuple[_Type, Evaluate]:
        evaluate = self._bool(part)
        return _BOOL, lambda values: not evaluate(values)

    def _minus(self, tree: Any, part: Any) -> tuple[_Type, Evaluate]:
        kind, evaluate = self._compile(part)
        if kind != _INT:
            raise self._error(tree, "only a number of any size can be negative")
        return _INT, lambda values: -evaluate(values)

    def _inner(self, _: Any, part: Any) -> tuple[_Type, Evaluate]:
        return self._compile(part.children[0] if len(part.children) == 1 else part)

    def _boolean(self, _: Any, token: str) -> tuple[_Type, Evaluate]:
        value = token == "true"
        return _BOOL, lambda _: value

    def _number(self, _: Any, token: str) -> tuple[_Type, Evaluate]:
        text = token.lower()
        value = int(text, 0) if text[1:2] in ("x", "b", "o") else int(text.removeprefix("0d"))
        return _INT, lambda _: value

    def _address(self, tree: Any, token: str) -> tuple[_Type, Evaluate]:
        form, text = token.split("(")[0].strip(), token.split("'")[1]
        try:
            if form == "mac":
                octets = [int(octet, 16) for octet in text.split(":")]
                value = int.from_bytes(bytes(octets), "big") if len(octets) == 6 else None
            else:
                value = int((ipaddress.IPv4Address if form == "ipv4" else ipaddress.IPv6Address)(text))
        except ValueError:
            value = None
        if value is None:
            raise self._error(tree, "there is no such address")
        return _INT, lambda _: value

    def _key(self, tree: Any, *names: str) -> tuple[_Type, Evaluate]:
        name = ".".join(names)
        if name not in self._scope:
            raise self._error(tree, f"there is no '{name}'")
        self._keys[name] = None
        kind = self._scope[name]
        if kind.form == "bit":
            return kind, lambda values: values[name][0]
        return kind, lambda values: values[name]

    def _attribute(self, tree: Any, name: str) -> tuple[_Type, Evaluate]:
        name = f"::{name}"
        if name not in self._scope:
            raise self._error(tree, "entries have the attribute ::priority only")
        self._keys[name] = None
        return _INT, lambda values: values[name][0]

    def _projection(self, tree: Any, part: Any, name: str) -> tuple[_Type, Evaluate]:
        kind, evaluate = self._compile(part)
        if name not in _PARTS.get(kind.form, ()):
            raise self._error(tree, f"there is no ::{name}")
        at = _PARTS[kind.form].index(name)
        return _INT if name == "prefix_length" else _Type("bit", kind.bits), lambda values: evaluate(values)[at]

    def _comparison(self, tree: Any, left: Any, sign: str, right: Any) -> tuple[_Type, Evaluate]:
        (one, evaluate_one), (other, evaluate_other) = self._compile(left), self._compile(right)
        kind = max(one, other, key=lambda each: (each.form not in ("bool", "int"), each.form in _PARTS))
        orders = sign not in ("==", "!=")
        if (one == _BOOL) != (other == _BOOL) or (orders and (kind == _BOOL or len(_PARTS.get(kind.form, "v")) > 1)):
            raise self._error(tree, "the two cannot be compared")
        forms = {one.form, other.form}
        if (forms <= {*_PARTS, "bit"} and one.bits != other.bits) or len(forms & {*_PARTS}) > 1:
            raise self._error(tree, "the two are of different types")
        compare = _COMPARE[sign]
        first, second = _as(kind, one, evaluate_one), _as(kind, other, evaluate_other)
        return _BOOL, lambda values: compare(first(values), second(values))


def _as(target: _Type, kind: _Type, evaluate: Evaluate) -> Evaluate:
    """Casts as in P4: a number of any size becomes one of some bits, and that a match of just this value."""
    if kind == target or kind.form in _PARTS:
        return evaluate
    if target.form in _PARTS:
        return lambda values: target.cast(evaluate(values))
    if target.form == "bit" and target.bits:
        mask = (1 << target.bits) - 1
        return lambda values: evaluate(values) & mask
    return evaluate


@cache
def _parser() -> Callable[[str], Any]:
    """From a text to its syntax tree; a ValueError says what is wrong. Most programs need none, so it is made late."""
    import lark

    parser = lark.Lark(_GRAMMAR, parser="lalr", propagate_positions=True)

    def parse(text: str) -> Any:
        try:
            return parser.parse(text)
        except lark.exceptions.UnexpectedInput as e:
            at = text[e.pos_in_stream or 0 :] if (e.pos_in_stream or -1) >= 0 else ""
            raise ValueError(f"syntax error at '{at.strip()[:30]}'") from None

    return parse


def _clauses(where: str, name: str, texts: Iterable[str], scope: dict[str, _Type]) -> list[_Clause]:
    """The clauses of an object's annotations of that name."""
    clauses: list[_Clause] = []
    for annotation in annotations.arguments(texts, name):
        if not (len(annotation) > 1 and annotation[0] == annotation[-1] == '"'):
            raise invalid(f"P4Info: {where}: @{name} takes a string in quotes")
        text = annotation[1:-1].replace('" "', "\n")
        try:
            clauses += _Compiler(scope, text).clauses(_parser()(text))
        except (ValueError, RecursionError) as e:
            raise invalid(f"P4Info: {where}: @{name}: {e}") from None
    return clauses


class Restrictions:
    """Those of a program's tables and actions."""

    def __init__(self, info: p4i.P4Info) -> None:
        self._fields = {t.preamble.id: {f.id: f for f in t.match_fields} for t in info.tables}
        self._params = {a.preamble.id: {p.id: p.name for p in a.params} for a in info.actions}
        self._names = {each.preamble.id: each.preamble.name for each in (*info.tables, *info.actions)}
        self._clauses: dict[int, list[_Clause]] = {}
        for table in info.tables:
            scope = {f.name: _Type(f.match_type, f.bitwidth) for f in table.match_fields} | {"::priority": _INT}
            self._add(table.preamble, "entry_restriction", scope)
        for action in info.actions:
            self._add(action.preamble, "action_restriction", {p.name: _Type("bit", p.bitwidth) for p in action.params})

    def _add(self, preamble: p4i.Preamble, name: str, scope: dict[str, _Type]) -> None:
        if clauses := _clauses(preamble.name, name, preamble.annotations, scope):
            self._clauses[preamble.id] = clauses

    def check(self, update: p4r.Update) -> None:
        """INVALID_ARGUMENT names the clause that an update does not meet; it is well formed otherwise."""
        if not self._clauses or update.type == p4r.Update.DELETE:
            return
        entity = update.entity
        if entity.HasField("table_entry"):
            entry = entity.table_entry
            if entry.table_id in self._clauses and not entry.is_default_action:
                self._demand(entry.table_id, "entry_restriction", self._of_entry(entry))
            self._check_action(entry.action.action)
            for each in entry.action.action_profile_action_set.action_profile_actions:
                self._check_action(each.action)
        elif entity.HasField("action_profile_member"):
            self._check_action(entity.action_profile_member.action)

    def _check_action(self, action: p4r.Action) -> None:
        if action.action_id in self._clauses:
            names = self._params[action.action_id]
            values = {names[p.param_id]: (int.from_bytes(p.value, "big"),) for p in action.params}
            self._demand(action.action_id, "action_restriction", values)

    def _demand(self, id_: int, name: str, values: Values) -> None:
        for clause in self._clauses[id_]:
            if not clause.holds(values):
                given = ", ".join(f"{key} = {' &&& '.join(map(hex, values[key]))}" for key in clause.keys)
                raise invalid(f"{self._names[id_]}: @{name} is not met: {clause.text} ({given})")

    def _of_entry(self, entry: p4r.TableEntry) -> Values:
        fields = self._fields[entry.table_id]
        values: Values = {"::priority": (entry.priority,)}
        for field in fields.values():
            absent = (0, (1 << field.bitwidth) - 1) if field.match_type == _Match.RANGE else (0, 0)
            values[field.name] = absent
        for m in entry.match:
            values[fields[m.field_id].name] = _element(m, fields[m.field_id].bitwidth)
        return values


def _element(m: p4r.FieldMatch, bits: int) -> tuple[int, ...]:
    """A match in the parts that the language has names for."""
    match m.WhichOneof("field_match_type"):
        case "exact":
            return (int.from_bytes(m.exact.value, "big"),)
        case "optional":
            return int.from_bytes(m.optional.value, "big"), (1 << bits) - 1 if bits else -1
        case "ternary":
            return int.from_bytes(m.ternary.value, "big"), int.from_bytes(m.ternary.mask, "big")
        case "lpm":
            return int.from_bytes(m.lpm.value, "big"), m.lpm.prefix_len
    return int.from_bytes(m.range.low, "big"), int.from_bytes(m.range.high, "big")
