# SPDX-License-Identifier: Apache-2.0
"""Writes traces (docs/trace.md) as text of other people's messages (`messages`). What a message has no field for
is left out, or goes into detour's extensions; docs/trace.md says what that is."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

from detour.control.p4runtime.codec import to_bytes
from detour.fabric.tracing.messages import message_of

_Facts = dict[str, Any]
_STAGES = {"parser": "PARSER", "ingress": "CONTROL", "egress": "CONTROL", "deparser": "DEPARSER"}
_FORKS = {"clone": "CLONE", "multicast": "MULTICAST", "selector": "ACTION_SELECTOR"}
_DROPS = {
    "dropped in ingress": "MARK_TO_DROP",
    "dropped in egress": "MARK_TO_DROP",
    "an assertion failed": "ASSERTION_FAILURE",
}


def text_protos(hop: _Facts, which: str, extended: bool = False) -> list[str]:
    """A hop of a trace as messages: one of 4ward's, or one of BMv2's for each copy of the packet that ended. `hop`: as
    in docs/trace.md; `which`: of `messages.ROOTS`; `extended`: with detour's extensions."""
    from google.protobuf import json_format, text_format

    message, pool = message_of(which)
    made = [_fourward(hop)] if which == "4ward" else list(_copies(hop))
    if not extended:
        made = [_without_extensions(each) for each in made]
    parsed = [json_format.ParseDict(each, message(), descriptor_pool=pool) for each in made]
    return [text_format.MessageToString(each, descriptor_pool=pool) for each in parsed]


def _without_extensions(value: Any) -> Any:
    """An event that is nothing else goes too."""
    if isinstance(value, list):
        return [each for each in map(_without_extensions, value) if each]
    if isinstance(value, dict):
        return {name: _without_extensions(each) for name, each in value.items() if not name.startswith("[")}
    return value


def _bytes(value: int | bytes) -> str:
    return base64.b64encode(to_bytes(value) if isinstance(value, int) else value).decode()


def _size(facts: _Facts) -> int:
    """Bytes of a frame or a header; those of BMv2's and 4ward's traces are counted only."""
    return facts["bytes"] if "bytes" in facts else len(facts["hex"]) // 2


def _hop(hop: _Facts) -> _Facts:
    return {"[detour.hop]": {name: hop.get(name) for name in ("switch", "port", "at_ns", "fraction")}}


def _stage_event(name: str, direction: str) -> _Facts:
    return {"pipeline_stage": {"stage_name": name, "stage_kind": _STAGES.get(name, "CONTROL"), "direction": direction}}


def _with_stages(events: list[_Facts]) -> Iterator[tuple[_Facts, str | None]]:
    """Events with the stage that they are in; in place of `stage`s, `enter` and `exit`. The last one ends with them."""
    stage: str | None = None
    for event in events:
        if event["kind"] == "stage":
            if stage is not None:
                yield {"kind": "exit", "stage": stage}, stage
            stage = None if event["stage"] == "traffic_manager" else event["stage"]
            if stage is not None:
                yield {"kind": "enter", "stage": stage}, stage
        else:
            yield event, stage
    if stage is not None:
        yield {"kind": "exit", "stage": stage}, stage


def _ours(event: _Facts) -> _Facts | None:
    """An event that only detour's extensions have."""
    if event["kind"] == "queue":
        return {"[detour.queue]": {name: value for name, value in event.items() if name not in ("kind", "source")}}
    if event["kind"] == "assign" and "after" in event:
        before, after = _bytes(event["before"]), _bytes(event["after"])
        facts = {"field": event["field"], "before": before, "after": after, "by": event["by"]}
        return {"[detour.assignment]": facts}
    return None


# -- 4ward


def _fourward(hop: _Facts) -> _Facts:
    return _tree(hop["trace"]) | _hop(hop)


def _tree(tree: _Facts) -> _Facts:
    events: list[_Facts] = []
    for number, (event, stage) in enumerate(staged := list(_with_stages(tree["events"]))):
        if event["kind"] in ("enter", "exit"):
            events.append(_stage_event(event["stage"], event["kind"].upper()))
            continue
        make = _EVENTS.get(event["kind"])
        made = _ours(event) if make is None else make(event, stage)
        if made is None:
            continue
        if event["kind"] == "table_lookup":
            made["table_lookup"]["action_name"] = _action_behind(event, [each for each, _ in staged[number + 1 :]])
        if (source := event["source"]) is not None:
            place = {name: source[name] for name in ("file", "line", "column")}
            made["source_info"] = place | {"source_fragment": source["text"]}
        events.append(made)
    end: _Facts = {}
    if "fork" in tree:
        end = {"fork_outcome": _fork(tree["fork"])}
    elif tree["outcome"] is not None:
        end = {"packet_outcome": _outcome(tree["outcome"])}
    return {"events": events} | end


def _fork(fork: _Facts) -> _Facts:
    kind = next((word for name, word in _FORKS.items() if fork["reason"].startswith(name)), None)
    branches = [
        {"label": b["label"], "subtree": _tree(b["trace"]), "[detour.fraction]": b["fraction"]}
        for b in fork["branches"]
    ]
    return {"reason": kind, "branches": branches, "[detour.fork_reason]": fork["reason"]}


def _outcome(outcome: _Facts) -> _Facts:
    if "output" in outcome:
        output = outcome["output"]
        return {"output": {"dataplane_egress_port": output["port"], "payload": _bytes(bytes.fromhex(output["hex"]))}}
    reason = outcome["dropped"]["reason"]
    return {"drop": {"reason": _DROPS.get(reason), "[detour.reason]": reason}}


def _action_behind(lookup: _Facts, events: list[_Facts]) -> str | None:
    for event in events:
        if event["kind"] == "action" and event["table"] == lookup["table"]:
            return event["action"]
        if event["kind"] == "table_lookup":
            break
    return None


def _transition(event: _Facts, _: str | None) -> _Facts:
    key = event["key"]
    value = " ".join(part["value"] if isinstance(part["value"], str) else f"0x{part['value']:x}" for part in key)
    names = ", ".join(part["name"] for part in key)
    keyed = {"select_value": value, "select_expression": names} if key else {}
    return {"parser_transition": {"from_state": event["state"], "to_state": event["next"], **keyed}}


def _action(event: _Facts, _: str | None) -> _Facts:
    values = [{"key": name, "value": _bytes(value)} for name, value in event["parameters"].items()]
    return {"action_execution": {"action_name": event["action"], "params": values}}


def _emit(event: _Facts, _: str | None) -> _Facts:
    return {"deparser_emit": {"header_type": event["type"], "byte_length": _size(event)}}


def _clone(event: _Facts, _: str | None) -> _Facts:
    session = {"session_id": event["session"]}
    if "configured" not in event:
        return {"clone": session}
    return {
        "clone_session_lookup": session | {"session_found": event["configured"], "dataplane_egress_port": event["port"]}
    }


_EVENTS: dict[str, Callable[[_Facts, str | None], _Facts]] = {
    "packet_ingress": lambda e, _: {"packet_ingress": {"dataplane_ingress_port": e["port"]}},
    "parser_transition": _transition,
    "table_lookup": lambda e, _: {"table_lookup": {"table_name": e["table"], "hit": e["hit"]}},
    "action": _action,
    "branch": lambda e, stage: {"branch": {"control_name": stage, "taken": bool(e["value"])}},
    "extern_call": lambda e, _: {"extern_call": {"extern_instance_name": e.get("of"), "method": e["extern"]}},
    "mark_to_drop": lambda e, _: {"mark_to_drop": {"reason": "MARK_TO_DROP"}},
    "clone": _clone,
    "log_message": lambda e, _: {"log_message": {"message": e["text"]}},
    "assertion": lambda e, _: {"assertion": {"passed": bool(e["value"])}},
    "deparser_emit": _emit,
}


# -- BMv2


def _copies(hop: _Facts) -> Iterator[_Facts]:
    """A message for each way through the tree: BMv2's trees have no forks."""
    for number, (events, outcome) in enumerate(paths(hop["trace"])):
        made = []
        for event, _ in _with_stages(events):
            if event["kind"] in ("enter", "exit"):
                made.append(_stage_event(event["stage"], event["kind"].upper()))
            elif (ours := _ours(event)) is not None:
                made.append(ours)
        root: _Facts = {"events": made, **_hop(hop)}
        if outcome is not None and "output" in outcome:
            output = outcome["output"]
            root["transmit"] = {"egress_port": output["port"], "packet_size": _size(output)}
        elif outcome is not None:
            root["drop"] = {"[detour.reason]": outcome["dropped"]["reason"]}
        yield {"input": {"packet_id": number, "ingress_port": hop["port"]}, "root": root}


def paths(tree: _Facts) -> Iterator[tuple[list[_Facts], _Facts | None]]:
    """Each way through a tree: its events, and its outcome."""
    if "fork" not in tree:
        yield tree["events"], tree["outcome"]
        return
    for branch in tree["fork"]["branches"]:
        for events, outcome in paths(branch["trace"]):
            yield tree["events"] + events, outcome
