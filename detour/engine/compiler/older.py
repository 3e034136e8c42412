# SPDX-License-Identifier: Apache-2.0
"""BMv2 JSON of older compilers in the form of version 2.24, which the rest of the compiler reads.

BMv2 reads every version 2 and documents without a version. `P4Objects.cpp` gives what is missing or null a default;
the same defaults are filled in here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from detour.engine import phv
from detour.engine.compiler.layout import STANDARD
from detour.engine.compiler.model import Json, refuse

_PROFILE_SIZE = 1 << 16
"""Members of a profile that is declared by its table, which names no number; BMv2 has no limit."""
_P4_14 = {"intrinsic_metadata", "queueing_metadata"}
"""headers of P4_14 for what is in standard_metadata now"""


def in_present_form(document: Json) -> Json:
    """A copy in which every list and flag that may be missing is there. Parts that are no objects stay as they are:
    `check_shape` refuses them."""
    if not isinstance(document, dict):
        return document
    document = _filled(_standard(document), actions=[], deparsers=[], checksums=[], calculations=[])
    _each(document, "header_types", lambda kind: _filled(kind, fields=[]))
    _each(document, "headers", lambda header: _filled(header, metadata=False))
    _each(document, "parsers", _parser)
    _each(document, "deparsers", lambda deparser: _filled(deparser, order=[]))
    _each(document, "actions", lambda each: _each(_filled(each, runtime_data=[], primitives=[]), "primitives", _call))
    _each(document, "pipelines", lambda pipeline: _pipeline(pipeline, document["actions"]))
    _each(document, "calculations", lambda calculation: _filled(calculation, input=[]))
    _each(document, "checksums", lambda checksum: _checksum(document, _filled(checksum, verify=True, update=True)))
    return document


def _filled(item: Json, **defaults: Any) -> Json:
    """A copy with defaults for what is missing or null."""
    if not isinstance(item, dict):
        return item
    return {**item, **{key: default for key, default in defaults.items() if item.get(key) is None}}


def _each(item: Json, key: str, change: Callable[[Json], Json]) -> Json:
    """Put the changed elements of a list in its place."""
    if isinstance(item, dict) and isinstance(item.get(key), list):
        item[key] = [change(each) for each in item[key]]
    return item


def _call(call: Json) -> Json:
    return _filled(call, parameters=[])


def _parser(parser: Json) -> Json:
    def state(state: Json) -> Json:
        state = _filled(state, parser_ops=[], transition_key=[], transitions=[])
        return _each(_each(state, "parser_ops", _call), "transitions", _transition)

    parser = _filled(parser, parse_states=[])
    return _each({"init_state": None, **parser} if isinstance(parser, dict) else parser, "parse_states", state)


def _transition(transition: Json) -> Json:
    """Older compilers write no type, and give the default transition the value "default"."""
    transition = _filled(transition, type="hexstr", next_state=None, mask=None)
    if isinstance(transition, dict):
        if transition.get("value") == "default" and transition["type"] == "hexstr":
            transition["type"] = "default"
        if transition["type"] == "default":
            transition["value"] = None
    return transition


def _pipeline(pipeline: Json, actions: Json) -> Json:
    pipeline = _filled(pipeline, tables=[], action_profiles=[], conditionals=[], init_table=None)
    _each(pipeline, "conditionals", lambda condition: _filled(condition, true_next=None, false_next=None))
    named = [each for each in actions if isinstance(each, dict)] if isinstance(actions, list) else []
    return _each(pipeline, "tables", lambda table: _table(table, pipeline, named))


def _table(table: Json, pipeline: Json, actions: list[Json]) -> Json:
    """Older compilers name a table's actions, and their indirect tables declare action profiles of their own."""
    table = _filled(table, key=[], next_tables={}, with_counters=False, support_timeout=False)
    if not isinstance(table, dict):
        return table
    declares = "act_prof_name" in table and table.get("action_profile") is None
    if declares and isinstance(pipeline["action_profiles"], list):
        profile = {"name": table["act_prof_name"], "max_size": _PROFILE_SIZE, "selector": table.get("selector")}
        pipeline["action_profiles"] = [*pipeline["action_profiles"], profile]
        table["action_profile"] = profile["name"]
    ids = {str(each.get("name")): each.get("id") for each in reversed(actions)}
    names = {str(each.get("id")): each.get("name") for each in actions}
    if table.get("action_ids") is None and isinstance(table.get("actions"), list):
        known = [ids[str(name)] for name in table["actions"] if str(name) in ids]
        table |= {"action_ids": known} if len(known) == len(table["actions"]) else {}
    elif isinstance(table.get("action_ids"), list):
        table["actions"] = [names.get(str(number), str(number)) for number in table["action_ids"]]
    return table


def _checksum(document: Json, checksum: Json) -> Json:
    """The type "ipv4" is the sum over the target's header without the target."""
    if not isinstance(checksum, dict) or checksum.get("type") != "ipv4":
        return checksum
    try:
        header, target = checksum["target"]
        kind = next(each["header_type"] for each in document["headers"] if each["name"] == header)
        fields = next(each["fields"] for each in document["header_types"] if each["name"] == kind)
        summed = [{"type": "field", "value": [header, field[0]]} for field in fields if field[0] != target]
    except (KeyError, IndexError, StopIteration, TypeError, ValueError):
        raise refuse(f"the target of checksum '{checksum.get('name')}' is not a field of a header", checksum) from None
    name = f"${checksum.get('name')}"
    document["calculations"] = [*document["calculations"], {"name": name, "algo": "csum16", "input": summed}]
    return {**checksum, "type": "generic", "calculation": name}


def _standard(document: Json) -> Json:
    """A copy in which the fields that P4_14 has in two headers of their own, and simple_switch sets or acts upon, are
    those of standard_metadata, as in P4_16; where `field_aliases` says that they are already, nothing is done."""
    try:
        types = {each["name"]: each for each in document["header_types"]}
        kinds = {each["name"]: types[each["header_type"]] for each in document["headers"]}
        there = {field for field, *_ in kinds[STANDARD]["fields"]}
        moved = {
            (header, field): min(bits, 8 * phv.STANDARD_FIELDS[field][1])
            for header in _P4_14 & kinds.keys()
            for field, bits, *_ in kinds[header]["fields"]
            if field in phv.STANDARD_FIELDS
        }
        for alias, _ in document.get("field_aliases") or ():
            moved.pop(tuple(alias.split(".", 1)), None)
    except (AttributeError, KeyError, TypeError, ValueError):
        return document  # `check_shape` refuses it
    if not moved:
        return document
    more = [[field, bits, False] for (_, field), bits in sorted(moved.items()) if field not in there]
    kind = kinds[STANDARD]["name"]
    types[kind] = {**types[kind], "fields": [*types[kind]["fields"], *more]}
    return {**_renamed(document, moved), "header_types": list(types.values())}


def _renamed(part: Json, fields: Mapping[tuple[str, str], int]) -> Json:
    """A copy in which these fields are those of standard_metadata; keys of tables keep their names."""
    if isinstance(part, list):
        is_one = len(part) == 2 and all(isinstance(each, str) for each in part) and tuple(part) in fields
        return [STANDARD, part[1]] if is_one else [_renamed(each, fields) for each in part]
    if not isinstance(part, dict):
        return part
    copy = {key: _renamed(each, fields) for key, each in part.items()}
    if "match_type" in part and copy.get("target") != part.get("target") and not part.get("name"):
        copy["name"] = ".".join(part["target"])
    return copy
