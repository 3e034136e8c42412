# SPDX-License-Identifier: Apache-2.0
"""The shape of BMv2 JSON: which members an object has and of what types, before anything is made of it.

The format is p4c's (docs/JSON_format.md of p4lang/behavioral-model). A document that passes has everything where the
compiler looks for it, so what fails later is either refused there, by name, or a mistake of the compiler. Members that
the compiler does not read are not looked at.

General validators take a multiple of the compiler's own time for the documents of large programs; these closures a
few milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from detour.engine.compiler.model import Json, one_line, refuse

Check = Callable[[Json], object]
_LONGEST_HEX = 1 << 12
"""Digits: more than the widest value has (`ir.MAX_VALUE_BITS`)."""


class _Wrong(Exception):
    """A part is not what it should be; `name` and `at` are of the innermost object that has a name."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.at: Json = None


def check_shape(document: Json) -> None:
    """Raises `DetourError` naming the first thing that is missing or has another type."""
    try:
        _document(document)
    except _Wrong as e:
        name = e.at.get("name") if isinstance(e.at, dict) else None
        where = "the BMv2 JSON" if name is None else f"'{one_line(name)}' in the BMv2 JSON"
        raise refuse(f"{where} {e.what}", e.at) from None


# -- what checks are made of


def _is(what: str, *types: type) -> Check:
    def check(value: Json) -> None:
        if type(value) not in types:
            raise _Wrong(f"is malformed: {_shown(value)} is not {what}")

    return check


def _shown(value: Json) -> str:
    names = {dict: "an object", list: "a list", type(None): "null"}
    return names.get(type(value)) or one_line(repr(value))[:60]


_text = _is("a text", str)
_number = _is("a whole number", int)
_truth = _is("true or false", bool, int)  # p4c writes 0 for false now and then


def _anything(_: Json) -> None:
    pass


def _hex(value: Json) -> None:
    _text(value)
    try:
        int(value, 16)
    except ValueError:
        raise _Wrong(f"is malformed: {_shown(value)} is not a hexadecimal number") from None
    if len(value) > _LONGEST_HEX:
        raise _Wrong(f"has a number of {len(value)} digits")


def _maybe(inner: Check) -> Check:
    """null is as good."""

    def check(value: Json) -> None:
        if value is not None:
            inner(value)

    return check


def _list(inner: Check) -> Check:
    def check(value: Json) -> None:
        if type(value) is not list:
            raise _Wrong(f"is malformed: {_shown(value)} is not a list")
        for item in value:
            inner(item)

    return check


def _row(*inner: Check, more: Iterable[Check] = ()) -> Check:
    """A list with one element a check; those of `more` may be missing at its end."""
    rest = tuple(more)

    def check(value: Json) -> None:
        if type(value) is not list or not len(inner) <= len(value) <= len(inner) + len(rest):
            raise _Wrong(f"is malformed: {_shown(value)} is not a list of {len(inner)}")
        for item, one in zip(value, (*inner, *rest), strict=False):
            one(item)

    return check


def _mapping(inner: Check) -> Check:
    def check(value: Json) -> None:
        if type(value) is not dict:
            raise _Wrong(f"is malformed: {_shown(value)} is not an object")
        for item in value.values():
            inner(item)

    return check


def _object(must: dict[str, Check], may: dict[str, Check] | None = None) -> Check:
    """An object with the members of `must`; those of `may` may be missing or null."""
    have, allowed = tuple(must.items()), tuple((may or {}).items())

    def check(value: Json) -> None:
        if type(value) is not dict:
            raise _Wrong(f"is malformed: {_shown(value)} is not an object")
        try:
            for key, one in have:
                if key not in value:
                    raise _Wrong(f"lacks '{key}'")
                one(value[key])
            for key, one in allowed:
                if value.get(key) is not None:
                    one(value[key])
        except _Wrong as e:
            if e.at is None or "name" not in e.at:
                e.at = value if "name" in value or "source_info" in value else e.at
            raise

    return check


# -- expressions


def _operation(v: Json) -> None:
    """What is behind an expression with an operator; which operands it needs depends on that."""
    op = v["op"]
    _text(op)
    for side in _OPERANDS.get(op, ()):
        if v.get(side) is None:
            raise _Wrong(f"is malformed: the operator '{one_line(op)}' lacks '{side}'")
    if op in _MEMBERS:
        _number(v["right"])
        _expression(v["left"])
        return
    for side in ("left", "right", "cond"):
        if v.get(side) is not None:
            _expression(v[side])


_BINARY = ("left", "right")
_MEMBERS = ("access_field", "access_union_header")
_OPERANDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("+", "-", "*"), ("right",)),  # also with one operand
    **dict.fromkeys(("~", "not", "d2b", "b2d", "valid", "valid_union", "last_stack_index", "size_stack"), ("right",)),
    **dict.fromkeys(("&", "|", "^", "<<", ">>", "/", "%", "==", "!=", "<", "<=", ">", ">=", "and", "or"), _BINARY),
    **dict.fromkeys(("two_comp_mod", "usat_cast", "sat_cast", *_MEMBERS), _BINARY),
    **dict.fromkeys(("dereference_header_stack", "dereference_stack", "dereference_union_stack"), _BINARY),
    "?": ("cond", "left", "right"),
}


def _inner(v: Json) -> None:
    """The value of an expression: an operation, or p4c's second wrapping of another expression."""
    if type(v) is not dict:
        raise _Wrong(f"is malformed: {_shown(v)} is not an expression")
    if "op" in v:
        _operation(v)
    else:
        _expression(v)


def _field(v: Json) -> None:
    """Header and field; the header may be an operation (an element chosen at run time)."""
    _row(_anything, _text)(v)
    if type(v[0]) is dict:
        if "op" not in v[0]:
            raise _Wrong("lacks 'op'")
        _operation(v[0])
    else:
        _text(v[0])


_VALUES: dict[str, Check] = {
    "hexstr": _hex,
    "bool": _truth,
    "field": _field,
    "stack_field": _row(_text, _text),
    "union_stack_field": _row(_text, _text, _text),
    "local": _number,
    "runtime_data": _number,
    "expression": _inner,
    "lookahead": _row(_number, _number),
    "string": _text,
    "regular": _text,
    "union_stack": _row(_text, _text),
    "parameters_vector": lambda v: v == {} or _list(_expression)(v),  # p4c writes an empty one like that
    **dict.fromkeys(("header", "header_stack", "header_union", "header_union_stack", "stack"), _text),
    **dict.fromkeys(("calculation", "counter_array", "meter_array", "register_array"), _text),
}


def _expression(e: Json) -> None:
    """A value, or whatever else a parameter may be. Types that are not known are refused where they are used."""
    if type(e) is not dict:
        raise _Wrong(f"is malformed: {_shown(e)} is not an expression")
    for key in ("type", "value"):
        if key not in e:
            raise _Wrong(f"is malformed: an expression lacks '{key}'")
    kind = e["type"]
    _text(kind)
    check = _VALUES.get(kind)
    if check is not None:
        check(e["value"])


# -- the parts of a document

_call = _object({"op": _text, "parameters": _list(_expression)})
_ids = _list(_number)
_input = _object({"type": _text}, {"value": _anything})
_named = {"name": _text}


def _parser_operation(op: Json) -> None:
    """A primitive's parameter is a call; the size of a shift is a number, an error may be one."""
    _object({"op": _text, "parameters": _list(_anything)})(op)
    kind, parameters = op["op"], op["parameters"]
    checks = _PARSER_OPERATIONS.get(kind)
    if checks is None:
        return  # refused by name, if its state is compiled
    if len(parameters) != len(checks):
        raise _Wrong(f"is malformed: the parser operation '{kind}' takes {len(checks)} parameters")
    for one, check in zip(parameters, checks, strict=True):
        check(one)


def _error(e: Json) -> None:
    if type(e) is not int:
        _expression(e)


def _key_type(kind: str) -> Check:
    """The target of a table's key: what is valid by name, anything else as a list, which `load` looks into."""
    return _text if kind == "valid" else _anything


def _table_key(k: Json) -> None:
    _object({"match_type": _text, "target": _anything}, {"name": _text, "mask": _hex})(k)
    _key_type(k["match_type"])(k["target"])


def _transition(t: Json) -> None:
    _object({"type": _text, "value": _anything, "next_state": _maybe(_text)})(t)
    if t["type"] == "parse_vset":
        _text(t["value"])
    elif t["type"] != "default" and not (t["type"] == "hexstr" and t["value"] == "default"):
        _hex(t["value"])
        _maybe(_hex)(t.get("mask"))


def _hash_input(i: Json) -> None:
    """A part of what is hashed; other types are refused where they are used."""
    _input(i)
    if i["type"] == "hexstr":
        _object({"value": _hex, "bitwidth": _number})(i)
    elif i["type"] in ("field", "header"):
        _object({"value": _row(_text, _text) if i["type"] == "field" else _text})(i)


def _element(e: Json) -> None:
    """A part of a digest or a field list."""
    _input(e)
    if e["type"] == "hexstr":
        _object({"value": _hex}, {"bitwidth": _number})(e)
    elif e["type"] == "field":
        _object({"value": _row(_text, _text)})(e)


_PARSER_OPERATIONS: dict[str, tuple[Check, ...]] = {
    "extract": (_expression,),
    "extract_VL": (_expression, _expression),
    "set": (_expression, _expression),
    "verify": (_expression, _error),
    "primitive": (_call,),
    "shift": (_number,),
    "advance": (_expression,),
}

_action_entry = _object({"action_id": _number, "action_data": _list(_hex)})
_MATCHES: dict[str, Check] = {
    "exact": _object({"key": _hex}),
    "valid": _object({"key": _truth}),
    "lpm": _object({"key": _hex, "prefix_length": _number}),
    "ternary": _object({"key": _hex, "mask": _hex}),
    "range": _object({"start": _hex, "end": _hex}),
}


def _match(m: Json) -> None:
    _object({"match_type": _text})(m)
    check = _MATCHES.get(m["match_type"])
    if check is None:
        raise _Wrong(f"is malformed: there is no match kind '{one_line(m['match_type'])}'")
    check(m)


_width = _anything  # `check.check_width` says what is possible
_selector = _object({"algo": _text, "input": _list(_hash_input)})
_table = _object(
    {
        **_named,
        "type": _text,
        "match_type": _text,
        "key": _list(_table_key),
        "next_tables": _mapping(_maybe(_text)),
    },
    {
        "action_ids": _ids,
        "actions": _list(_text),
        "action_profile": _text,
        "max_size": _number,
        "support_timeout": _truth,
        "with_counters": _truth,
        "direct_meters": _text,
        "base_default_next": _text,
        "default_entry": _object(
            {"action_id": _number, "action_data": _list(_hex)}, {"action_const": _truth, "action_entry_const": _truth}
        ),
        "entries": _list(_object({"match_key": _list(_match), "action_entry": _action_entry}, {"priority": _number})),
    },
)
_pipeline = _object(
    _named,
    {
        "init_table": _text,
        "tables": _list(_table),
        "action_profiles": _list(_object({**_named, "max_size": _number}, {"selector": _selector})),
        "conditionals": _list(
            _object({**_named, "expression": _expression}, {"true_next": _text, "false_next": _text})
        ),
        "action_calls": _list(_object({**_named, "action_id": _number}, {"next_node": _text})),
    },
)
_state = _object(
    {
        **_named,
        "parser_ops": _list(_parser_operation),
        "transition_key": _list(_expression),
        "transitions": _list(_transition),
    }
)
_array = _object(
    _named,
    {
        "size": _number,
        "is_direct": _truth,
        "type": _text,
        "rate_count": _number,
        "binding": _text,
        "result_target": _row(_text, _text),
    },
)
_element_list = _list(_object({"id": _anything, "elements": _list(_element)}, _named))

_document = _object(
    {
        "header_types": _list(
            _object({**_named, "fields": _list(_row(_text, _width, more=(_truth, _truth)))}, {"max_length": _number})
        ),
        "headers": _list(_object({**_named, "id": _number, "metadata": _truth, "header_type": _text})),
        "parsers": _list(_object({**_named, "init_state": _maybe(_text), "parse_states": _list(_state)})),
        "actions": _list(
            _object(
                {
                    **_named,
                    "id": _number,
                    "runtime_data": _list(_object({**_named, "bitwidth": _width})),
                    "primitives": _list(_call),
                }
            )
        ),
        "pipelines": _list(_pipeline),
    },
    {
        "__meta__": _object({}, {"version": _row(_number, _number)}),
        "header_stacks": _list(_object({**_named, "header_type": _text, "header_ids": _ids})),
        "header_union_types": _list(_object({**_named, "headers": _list(_row(_text, _text))})),
        "header_unions": _list(_object({**_named, "id": _number, "union_type": _text, "header_ids": _ids})),
        "header_union_stacks": _list(_object({**_named, "header_union_ids": _ids})),
        "errors": _list(_row(_text, _number)),
        "deparsers": _list(_object({**_named, "order": _list(_text)}, {"primitives": _list(_call)})),
        "checksums": _list(
            _object(
                {"type": _text, "target": _row(_text, _text), "calculation": _text},
                {"verify": _truth, "update": _truth, "if_cond": _expression},
            )
        ),
        "calculations": _list(_object({**_named, "algo": _text, "input": _list(_hash_input)})),
        "counter_arrays": _list(_array),
        "meter_arrays": _list(_array),
        "register_arrays": _list(_array),
        "learn_lists": _list(_object({**_named, "id": _anything, "elements": _list(_element)})),
        "field_lists": _element_list,
        "parse_vsets": _list(_object({**_named, "compressed_bitwidth": _width}, {"max_size": _number})),
        "extern_instances": _list(_object({**_named, "type": _text})),
    },
)
