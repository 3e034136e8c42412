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
    """A part is not what it should be; `at` is the innermost object that has a name."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.at: Json = None


def check_shape(document: Json) -> None:
    """Raise `DetourError` naming the first thing that is missing or has another type."""
    try:
        _CHECKS["document"](document)
    except _Wrong as e:
        name = e.at.get("name") if isinstance(e.at, dict) else None
        where = "the BMv2 JSON" if name is None else f"'{one_line(name)}' in the BMv2 JSON"
        raise refuse(f"{where} {e.what}", e.at) from None


# -- what checks are made of


def _malformed(value: Json, what: str) -> _Wrong:
    names = {dict: "an object", list: "a list", type(None): "null"}
    shown = names.get(type(value)) or one_line(repr(value))[:60]
    return _Wrong(f"is malformed: {shown} is not {what}")


def _is(what: str, *types: type) -> Check:
    def check(value: Json) -> None:
        if type(value) not in types:
            raise _malformed(value, what)

    return check


_text = _is("a text", str)
_number = _is("a whole number", int)
_is_list = _is("a list", list)
_is_object = _is("an object", dict)


def _hex(value: Json) -> None:
    _text(value)
    try:
        int(value, 16)
    except ValueError:
        raise _malformed(value, "a hexadecimal number") from None
    if len(value) > _LONGEST_HEX:
        raise _Wrong(f"has a number of {len(value)} digits")


def _list(inner: Check) -> Check:
    def check(value: Json) -> None:
        _is_list(value)
        for item in value:
            inner(item)

    return check


def _row(*inner: Check, more: Iterable[Check] = ()) -> Check:
    """A list with one element a check; those of `more` may be missing at its end."""
    rest = tuple(more)

    def check(value: Json) -> None:
        if type(value) is not list or not len(inner) <= len(value) <= len(inner) + len(rest):
            raise _malformed(value, f"a list of {len(inner)}")
        for item, check_item in zip(value, (*inner, *rest), strict=False):
            check_item(item)

    return check


def _object(members: str, more: str = "") -> Check:
    """An object with the members `name:type`; those of `more` may be missing or null. Types are the names of `_CHECKS`,
    `[type]` is a list of them, and `type?` may be null."""
    have, allowed = ([_member(word) for word in words.split()] for words in (members, more))

    def check(value: Json) -> None:
        _is_object(value)
        try:
            for key, check_value in have:
                if key not in value:
                    raise _Wrong(f"lacks '{key}'")
                check_value(value[key])
            for key, check_value in allowed:
                if value.get(key) is not None:
                    check_value(value[key])
        except _Wrong as e:
            if e.at is None or "name" not in e.at:
                e.at = value if "name" in value or "source_info" in value else e.at
            raise

    return check


def _member(word: str) -> tuple[str, Check]:
    key, _, kind = word.partition(":")
    inner = _CHECKS[kind.strip("[]?")]
    if kind.startswith("["):
        return key, _list(inner)
    return key, (lambda value: value is None or inner(value)) if kind.endswith("?") else inner


# -- expressions


def _operation(v: Json) -> None:
    """Check the operands of an expression; which ones it needs depends on the operator."""
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
        raise _malformed(v, "an expression")
    (_operation if "op" in v else _expression)(v)


def _field(v: Json) -> None:
    """Header and field; the header may be an operation (an element chosen at run time)."""
    _row(_anything, _text)(v)
    if type(v[0]) is dict:
        if "op" not in v[0]:
            raise _Wrong("lacks 'op'")
        _operation(v[0])
    else:
        _text(v[0])


def _anything(_: Json) -> None:
    pass


def _expression(e: Json) -> None:
    """A value, or whatever else a parameter may be. Types that are not known are refused where they are used."""
    if type(e) is not dict:
        raise _malformed(e, "an expression")
    for key in ("type", "value"):
        if key not in e:
            raise _Wrong(f"is malformed: an expression lacks '{key}'")
    _text(e["type"])
    _VALUES.get(e["type"], _anything)(e["value"])


_truth = _is("true or false", bool, int)  # p4c writes 0 for false now and then
_pair = _row(_text, _text)
_VALUES: dict[str, Check] = {
    "hexstr": _hex,
    "bool": _truth,
    "field": _field,
    "union_stack_field": _row(_text, _text, _text),
    "expression": _inner,
    "lookahead": _row(_number, _number),
    "parameters_vector": lambda v: v == {} or _list(_expression)(v),  # p4c writes an empty one like that
    **dict.fromkeys(("stack_field", "union_stack"), _pair),
    **dict.fromkeys(("local", "runtime_data"), _number),
    **dict.fromkeys(("header", "header_stack", "header_union", "header_union_stack", "stack", "regular"), _text),
    **dict.fromkeys(("string", "calculation", "counter_array", "meter_array", "register_array"), _text),
}


# -- the parts of a document


def _call(call: Json) -> None:
    """A primitive. PNA's `add_entry` has a list among its parameters."""
    if type(call) is dict and call.get("op") == "add_entry":
        raise refuse("add_entry: entries added by packets are not supported", call)
    _CHECKS["primitive"](call)


def _parser_operation(op: Json) -> None:
    """A primitive's parameter is a call; the size of a shift is a number, an error may be one."""
    _CHECKS["parser_op"](op)
    kind, parameters = op["op"], op["parameters"]
    checks = _PARSER_OPERATIONS.get(kind)
    if checks is None:
        return  # refused by name, if its state is compiled
    if len(parameters) != len(checks):
        raise _Wrong(f"is malformed: the parser operation '{kind}' takes {len(checks)} parameters")
    for parameter, check in zip(parameters, checks, strict=True):
        check(parameter)


def _table_key(k: Json) -> None:
    """The target: what is valid by name, anything else as a list, which `load` looks into."""
    _CHECKS["key"](k)
    if k["match_type"] == "valid":
        _text(k["target"])


def _transition(t: Json) -> None:
    _CHECKS["transition"](t)
    if t["type"] == "default":
        return
    (_text if t["type"] == "parse_vset" else _hex)(t["value"])
    if t.get("mask") is not None:
        _hex(t["mask"])


def _hash_input(i: Json) -> None:
    """A part of what is hashed; other types are refused where they are used."""
    _CHECKS["input"](i)
    if i["type"] in ("hexstr", "field", "header"):
        _CHECKS[f"hashed_{i['type']}"](i)


def _element(e: Json) -> None:
    """A part of a digest or a field list."""
    _CHECKS["input"](e)
    if e["type"] in ("hexstr", "field"):
        _CHECKS[f"listed_{e['type']}"](e)


def _match(m: Json) -> None:
    _CHECKS["match_type"](m)
    if m["match_type"] not in ("exact", "valid", "lpm", "ternary", "range"):
        raise _Wrong(f"is malformed: there is no match kind '{one_line(m['match_type'])}'")
    _CHECKS[m["match_type"]](m)


def _next_tables(value: Json) -> None:
    _is_object(value)
    for name in value.values():
        if name is not None:
            _text(name)


_CHECKS: dict[str, Check] = {
    "any": _anything,  # of widths: `check.check_width` says what is possible
    "text": _text,
    "number": _number,
    "truth": _truth,
    "hex": _hex,
    "pair": _pair,
    "error": _row(_text, _number),
    "version": _row(_number, _number),
    "field": _row(_text, _anything, more=(_truth, _truth)),
    "expression": _expression,
    "call": _call,
    "parser_operation": _parser_operation,
    "table_key": _table_key,
    "state_transition": _transition,
    "hash_input": _hash_input,
    "element": _element,
    "match": _match,
    "next_tables": _next_tables,
}
for _name, *_members in (
    ("primitive", "op:text parameters:[expression]"),
    ("parser_op", "op:text parameters:[any]"),
    ("key", "match_type:text target:any", "name:text mask:hex"),
    ("transition", "type:text value:any next_state:text?"),
    ("input", "type:text", "value:any"),
    ("hashed_hexstr", "value:hex bitwidth:number"),
    ("hashed_field", "value:pair"),
    ("hashed_header", "value:text"),
    ("listed_hexstr", "value:hex", "bitwidth:number"),
    ("listed_field", "value:pair"),
    ("match_type", "match_type:text"),
    ("exact", "key:hex"),
    ("valid", "key:truth"),
    ("lpm", "key:hex prefix_length:number"),
    ("ternary", "key:hex mask:hex"),
    ("range", "start:hex end:hex"),
    ("action_entry", "action_id:number action_data:[hex]"),
    ("default", "action_id:number action_data:[hex]", "action_const:truth action_entry_const:truth"),
    ("entry", "match_key:[match] action_entry:action_entry", "priority:number"),
    (
        "table",
        "name:text type:text match_type:text key:[table_key] next_tables:next_tables",
        "action_ids:[number] actions:[text] action_profile:text max_size:number support_timeout:truth"
        " with_counters:truth direct_meters:text base_default_next:text default_entry:default entries:[entry]",
    ),
    ("selector", "algo:text input:[hash_input]"),
    ("action_profile", "name:text max_size:number", "selector:selector"),
    ("conditional", "name:text expression:expression", "true_next:text false_next:text"),
    ("action_call", "name:text action_id:number", "next_node:text"),
    (
        "pipeline",
        "name:text",
        "init_table:text tables:[table] action_profiles:[action_profile] conditionals:[conditional]"
        " action_calls:[action_call]",
    ),
    ("state", "name:text parser_ops:[parser_operation] transition_key:[expression] transitions:[state_transition]"),
    ("array", "name:text", "size:number is_direct:truth type:text rate_count:number binding:text result_target:pair"),
    ("header_type", "name:text fields:[field]", "max_length:number"),
    ("header", "name:text id:number metadata:truth header_type:text"),
    ("parser", "name:text init_state:text? parse_states:[state]"),
    ("parameter", "name:text bitwidth:any"),
    ("action", "name:text id:number runtime_data:[parameter] primitives:[call]"),
    ("meta", "", "version:version"),
    ("stack", "name:text header_type:text header_ids:[number]"),
    ("union_type", "name:text headers:[pair]"),
    ("union", "name:text id:number union_type:text header_ids:[number]"),
    ("union_stack", "name:text header_union_ids:[number]"),
    ("deparser", "name:text order:[text]", "primitives:[call]"),
    ("checksum", "type:text target:pair calculation:text", "verify:truth update:truth if_cond:expression"),
    ("calculation", "name:text algo:text input:[hash_input]"),
    ("digest", "name:text id:any elements:[element]"),
    ("field_list", "id:any elements:[element]", "name:text"),
    ("value_set", "name:text compressed_bitwidth:any", "max_size:number"),
    ("extern", "name:text type:text"),
    (
        "document",
        "header_types:[header_type] headers:[header] parsers:[parser] actions:[action] pipelines:[pipeline]",
        "__meta__:meta header_stacks:[stack] header_union_types:[union_type] header_unions:[union]"
        " header_union_stacks:[union_stack] errors:[error] deparsers:[deparser] checksums:[checksum]"
        " calculations:[calculation] counter_arrays:[array] meter_arrays:[array] register_arrays:[array]"
        " learn_lists:[digest] field_lists:[field_list] parse_vsets:[value_set] extern_instances:[extern]",
    ),
):
    _CHECKS[_name] = _object(*_members)
_PARSER_OPERATIONS: dict[str, tuple[Check, ...]] = {
    "extract": (_expression,),
    "extract_VL": (_expression, _expression),
    "set": (_expression, _expression),
    "verify": (_expression, lambda e: type(e) is int or _expression(e)),
    "primitive": (_CHECKS["call"],),
    "shift": (_number,),
    "advance": (_expression,),
}
