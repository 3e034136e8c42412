# SPDX-License-Identifier: Apache-2.0
"""BMv2 JSON of older compilers in the form of version 2.24, which the rest of the compiler reads.

BMv2 reads every version 2 and documents without a version. `P4Objects.cpp` gives what is missing or null a default;
the same defaults are filled in here. What only P4_14's programs have is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from detour.engine.compiler.model import Json, refuse

_PROFILE_SIZE = 1 << 16
"""Members of a profile that is declared by its table, which names no number; BMv2 has no limit."""
_P4_14 = {
    "intrinsic_metadata": "mcast_grp egress_rid priority ingress_global_timestamp egress_global_timestamp",
    "queueing_metadata": "enq_timestamp enq_qdepth deq_timedelta deq_qdepth qid",
}
"""Headers of P4_14, and the fields of them that simple_switch sets or acts upon."""


def in_present_form(document: Json) -> Json:
    """A copy in which every list and flag that may be missing is there. Parts that are no objects stay as they are:
    `check_shape` refuses them."""
    if not isinstance(document, dict):
        return document
    _refuse_p4_14(document)
    document = _filled(document, actions=[], deparsers=[], checksums=[], calculations=[])
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


def _refuse_p4_14(document: Json) -> None:
    """Refuse a program that has such a field; P4_16's programs have them in standard_metadata, with aliases."""
    named, aliases = json.dumps(document), json.dumps(document.get("field_aliases"))
    for header, fields in _P4_14.items():
        for field in fields.split():
            name = f"{header}.{field}"
            if json.dumps([header, field]) in named and f'"{name}"' not in aliases:
                raise refuse(f"it uses '{name}', which is P4_14's; P4_16 has it in standard_metadata")
