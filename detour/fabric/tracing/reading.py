# SPDX-License-Identifier: Apache-2.0
"""Reads traces of 4ward and BMv2 (text of the messages in `messages`), and those of `detour trace --json`, as the
documents of docs/trace.md. What such a document says and the file does not is missing: sizes of frames, what headers
held, keys of look-ups, shares of alternatives.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.files import read_bytes
from detour.fabric.tracing.messages import message_of
from detour.fabric.tracing.text_proto import paths

_Facts = dict[str, Any]
_FIELDS = {**dict.fromkeys(("events", "fork_outcome", "packet_outcome"), "4ward"), "input": "bmv2", "root": "bmv2"}
"""the first field of a file tells whose it is"""
_HEADING = re.compile(r"^# (\S+), port (\d+)$", re.MULTILINE)
"""what `detour trace --format` writes before each message"""
_SWITCH = "switch"
_ALTERNATIVES = "ACTION_SELECTOR"


def read_trace(file: Path) -> dict[str, Any]:
    """A packet's document: `hops` and `outcomes`. Raises `DetourError`: the file cannot be read, or is not a trace."""
    data = read_bytes(file)
    try:
        text = data.decode()
        if text.lstrip().startswith("{"):
            return _own(text)
        hops = [_hop(message, heading) for message, heading in _messages(text)]
        return {"hops": hops, "outcomes": [ending for hop in hops for ending in _endings(hop, hop is hops[-1])]}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise DetourError(f"{file}: no trace of detour, 4ward or BMv2: {reason}") from None


def _own(text: str) -> _Facts:
    document = json.loads(text)
    return {name: document[name] for name in ("hops", "outcomes")}


def _messages(text: str) -> Iterator[tuple[_Facts, re.Match[str] | None]]:
    """Messages one behind the other, each with the heading before it. Raises ValueError."""
    from google.protobuf import json_format, text_format

    headings = list(_HEADING.finditer(text))
    starts = [0] if not headings else [each.end() for each in headings]
    ends = [*(each.start() for each in headings[1:]), len(text)]
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        part = text[start:end]
        first = re.search(r"^\s*(\w+)", re.sub(r"#.*", "", part))
        if first is None or first[1] not in _FIELDS:
            raise ValueError("it begins with none of " + ", ".join(_FIELDS))
        message, pool = message_of(_FIELDS[first[1]])
        try:  # fields of a later version are skipped
            parsed = text_format.Parse(
                part, message(), allow_unknown_extension=True, allow_unknown_field=True, descriptor_pool=pool
            )
        except text_format.ParseError as error:
            raise ValueError(f"line {_line(text, start, error)}: {error}".replace("\n", " ")) from None
        facts = json_format.MessageToDict(parsed, preserving_proto_field_name=True, descriptor_pool=pool)
        yield facts, headings[number] if headings else None


def _line(text: str, start: int, error: Any) -> int:
    return text.count("\n", 0, start) + (error.GetLine() or 1)


def _hop(message: _Facts, heading: re.Match[str] | None) -> _Facts:
    root = message.get("root", {}) if "input" in message or "root" in message else message
    tree = _tree(root)
    if not root.get("events"):
        raise ValueError("there is no event in it")
    port = next((e["port"] for e in tree["events"] if e["kind"] == "packet_ingress"), 0)
    if root is not message:
        port = message.get("input", {}).get("ingress_port", 0)
        tree["events"].insert(0, {"kind": "packet_ingress", "port": port, "source": None})
    hop = {"switch": heading[1] if heading else _SWITCH, "port": int(heading[2]) if heading else port, "at_ns": 0}
    ours = root.get("[detour.hop]", {})
    return hop | ours | {"at_ns": int(ours.get("at_ns", 0)), "trace": tree}


def _endings(hop: _Facts, last: bool) -> Iterator[_Facts]:
    """Yield the packet's endings in a switch; a frame that leaves any but the last goes on to the next."""
    for _, outcome in paths(hop["trace"]):
        if outcome is None:
            continue
        if "dropped" in outcome:
            lost = {"switch": hop["switch"], **outcome["dropped"]}
            yield {"fraction": 1, "packets": [], "dropped": lost}
        elif last:
            arrived = {"switch": hop["switch"], "host": None, **outcome["output"]}
            yield {"fraction": 1, "packets": [arrived], "dropped": None}


# -- trees


def _tree(message: _Facts) -> _Facts:
    events = [made for event in message.get("events", ()) if (made := _event(event)) is not None]
    tree: _Facts = {"events": events}
    if (fork := message.get("fork_outcome")) is not None:
        return tree | {"fork": _fork(fork)}
    return tree | {"outcome": _outcome(message)}


def _fork(fork: _Facts) -> _Facts:
    kind = fork.get("reason", "")
    branches = [
        {"label": b.get("label", ""), "fraction": b.get("[detour.fraction]"), "trace": _tree(b.get("subtree", {}))}
        for b in fork.get("branches", ())
    ]
    reason = fork.get("[detour.fork_reason]") or kind.lower().replace("_", " ") or "fork"
    shares = [branch["fraction"] for branch in branches]
    return {
        "reason": reason,
        "all": kind != _ALTERNATIVES and shares.count(1) in (0, len(shares)),
        "branches": branches,
    }


def _outcome(message: _Facts) -> _Facts | None:
    outcome = message.get("packet_outcome", message)
    drop = outcome.get("drop")
    if drop is not None:
        reason = drop.get("[detour.reason]") or drop.get("reason", "").lower().replace("_", " ") or "no reason is given"
        return {"dropped": {"reason": reason, "source": None}}
    if (output := outcome.get("output")) is not None:
        payload = base64.b64decode(output.get("payload", ""))
        return {"output": {"port": output.get("dataplane_egress_port", 0), "hex": payload.hex()}}
    if (sent := outcome.get("transmit")) is not None:
        return {"output": {"port": sent.get("egress_port", 0), "hex": "", "bytes": sent.get("packet_size", 0)}}
    return None


def _event(message: _Facts) -> _Facts | None:
    source = message.get("source_info")
    place = None if source is None else {"file": "", "line": 0, "column": 0, "text": "", **_place(source)}
    for name, facts in message.items():
        if (make := _EVENTS.get(name)) is not None and (made := make(facts, place)) is not None:
            return {**made, "source": place}
    return None


def _place(source: _Facts) -> _Facts:
    return {("text" if name == "source_fragment" else name): value for name, value in source.items()}


def _stage(facts: _Facts, _: _Facts | None) -> _Facts | None:
    if facts.get("direction") == "EXIT":
        return None
    return {"kind": "stage", "stage": facts.get("stage_name", "")}


def _transition(facts: _Facts, _: _Facts | None) -> _Facts:
    value, name = facts.get("select_value"), facts.get("select_expression", "")
    key = [] if value is None else [{"name": name, "value": value}]
    return {
        "kind": "parser_transition", "state": facts.get("from_state", ""), "next": facts.get("to_state", ""),
        "case": None, "key": key, "extracted": [],
    }  # fmt: skip


def _lookup(facts: _Facts, _: _Facts | None) -> _Facts:
    matched = facts.get("p4rt_matched_entry") or facts.get("matched_entry")
    entry = None if matched is None else _entry(matched, facts.get("action_name"))
    table, hit = facts.get("table_name", ""), facts.get("hit", False)
    return {"kind": "table_lookup", "table": table, "key": [], "hit": hit, "entry": entry}


def _entry(matched: _Facts, action: str | None) -> _Facts:
    """An entry of P4Runtime without its P4Info: fields by their ids."""
    key = []
    for match in matched.get("match", ()):
        part: _Facts = {"name": f"field {match['field_id']}", "match": next(n for n in match if n != "field_id")}
        for name, value in match[part["match"]].items():
            part[name] = value if name == "prefix_len" else _number(value)
        key.append(part)
    does = matched.get("action", {})
    chosen: _Facts = {"action": action, "parameters": {}}
    if (executed := does.get("action")) is not None:
        params = executed.get("params", ())
        chosen["parameters"] = {f"parameter {p['param_id']}": _number(p.get("value", "")) for p in params}
    for name in ("member", "group"):
        if (number := does.get(f"action_profile_{name}_id")) is not None:
            chosen = {name: number}
    return {"handle": None, "key": key, "priority": matched.get("priority"), **chosen}


def _action(facts: _Facts, _: _Facts | None) -> _Facts:
    values = {each.get("key", ""): _number(each.get("value", "")) for each in facts.get("params", ())}
    return {"kind": "action", "action": facts.get("action_name", ""), "table": None, "parameters": values}


def _number(value: str) -> int:
    """Return the number of bytes in JSON's form."""
    return int.from_bytes(base64.b64decode(value), "big")


def _branch(facts: _Facts, place: _Facts | None) -> _Facts:
    name = place["text"] if place else facts.get("control_name", "")
    return {"kind": "branch", "name": name, "value": facts.get("taken", False)}


def _cloned(facts: _Facts, _: _Facts | None) -> _Facts:
    there, port = facts.get("session_found", False), facts.get("dataplane_egress_port", 0)
    return {"kind": "clone", "session": facts.get("session_id", 0), "configured": there, "port": port}


def _queue(facts: _Facts, _: _Facts | None) -> _Facts:
    return {"kind": "queue", **{name: int(value) for name, value in facts.items()}}


def _assigned(facts: _Facts, _: _Facts | None) -> _Facts:
    values = {name: _number(facts[name]) for name in ("before", "after")}
    return {"kind": "assign", "field": facts["field"], **values, "by": facts["by"]}


_EVENTS: dict[str, Callable[[_Facts, _Facts | None], _Facts | None]] = {
    "packet_ingress": lambda e, _: {"kind": "packet_ingress", "port": e.get("dataplane_ingress_port", 0)},
    "pipeline_stage": _stage,
    "parser_transition": _transition,
    "table_lookup": _lookup,
    "action_execution": _action,
    "branch": _branch,
    "extern_call": lambda e, _: {
        "kind": "extern_call", "extern": e.get("method", ""), "of": e.get("extern_instance_name"),
    },
    "mark_to_drop": lambda e, _: {"kind": "mark_to_drop"},
    "clone": lambda e, _: {"kind": "clone", "session": e.get("session_id", 0)},
    "clone_session_lookup": _cloned,
    "log_message": lambda e, _: {"kind": "log_message", "text": e.get("message", "")},
    "assertion": lambda e, _: {"kind": "assertion", "value": e.get("passed", False)},
    "deparser_emit": lambda e, _: {
        "kind": "deparser_emit", "header": e.get("header_type", ""), "type": e.get("header_type", ""), "fields": {},
        "bytes": e.get("byte_length", 0),
    },
    "[detour.queue]": _queue,
    "[detour.assignment]": _assigned,
}  # fmt: skip
