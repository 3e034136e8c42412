# SPDX-License-Identifier: Apache-2.0
"""Traces as text of other people's protobuf messages: 4ward's `fourward.sim.TraceTree` and BMv2's `p4.bm.PacketTrace`.

Both are written from the documents of docs/trace.md. What a message has no field for is left out; docs/trace.md says
what that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

TEXT_FORMATS = ("4ward", "bmv2")
_Facts = dict[str, Any]
_STAGES = {"parser": "PARSER", "ingress": "CONTROL", "egress": "CONTROL", "deparser": "DEPARSER"}
_FORKS = {"clone": "CLONE", "multicast": "MULTICAST", "selector": "ACTION_SELECTOR"}
_DROPS = {"dropped in ingress": "MARK_TO_DROP", "dropped in egress": "MARK_TO_DROP"}
_ASSERTION = "an assertion failed"


@dataclass(frozen=True)
class _Word:
    """A name of an enumeration."""

    text: str


@dataclass(frozen=True)
class _Message:
    """Fields in order; one that is None is left out."""

    fields: tuple[tuple[str, Any], ...]

    def lines(self, depth: int = 0) -> Iterator[str]:
        blanks = "  " * depth
        for name, value in self.fields:
            if isinstance(value, _Message):
                yield f"{blanks}{name} {{"
                yield from value.lines(depth + 1)
                yield f"{blanks}}}"
            elif value is not None:
                yield f"{blanks}{name}: {_scalar(value)}"


def text_protos(hop: _Facts, which: str) -> list[str]:
    """A hop of a trace as messages: one of 4ward's, or one of BMv2's for each copy of the packet that ended. `hop`: as
    in docs/trace.md; `which`: of `TEXT_FORMATS`."""
    if which == "4ward":
        return ["\n".join(_tree(hop["trace"]).lines()) + "\n"]
    return ["\n".join(each.lines()) + "\n" for each in _copies(hop)]


def _message(**fields: Any) -> _Message:
    return _Message(tuple(fields.items()))


def _scalar(value: Any) -> str:
    if isinstance(value, _Word):
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    data = value.encode() if isinstance(value, str) else value
    return '"' + "".join(_escaped(byte) for byte in data) + '"'


def _escaped(byte: int) -> str:
    if byte in b'"\\':
        return "\\" + chr(byte)
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"


def _stage_event(name: str, direction: str) -> _Message:
    kind = _Word(_STAGES[name])
    return _message(pipeline_stage=_message(stage_name=name, stage_kind=kind, direction=_Word(direction)))


def _with_stages(events: list[_Facts]) -> Iterator[tuple[_Facts, str | None]]:
    """Events with the stage that they are in; in place of `stage`s, `enter` and `exit`. The last one ends with them."""
    stage: str | None = None
    for event in events:
        if event["kind"] == "stage":
            if stage is not None:
                yield {"kind": "exit", "stage": stage}, stage
            stage = event["stage"] if event["stage"] in _STAGES else None
            if stage is not None:
                yield {"kind": "enter", "stage": stage}, stage
        else:
            yield event, stage
    if stage is not None:
        yield {"kind": "exit", "stage": stage}, stage


# -- 4ward


def _tree(tree: _Facts) -> _Message:
    fields: list[tuple[str, Any]] = []
    events = tree["events"]
    for number, (event, stage) in enumerate(staged := list(_with_stages(events))):
        if event["kind"] in ("enter", "exit"):
            fields.append(("events", _stage_event(event["stage"], event["kind"].upper())))
            continue
        make = _EVENTS.get(event["kind"])
        if make is None:
            continue
        name, body = make(event, stage)
        if event["kind"] == "table_lookup":
            body = _Message(
                (*body.fields, ("action_name", _action_behind(event, [e for e, _ in staged[number + 1 :]])))
            )
        source = event["source"]
        fields.append(("events", _Message(((name, body), ("source_info", None if source is None else _place(source))))))
    if "fork" in tree:
        fields.append(("fork_outcome", _fork(tree["fork"])))
    elif tree["outcome"] is not None:
        fields.append(("packet_outcome", _outcome(tree["outcome"])))
    return _Message(tuple(fields))


def _place(source: _Facts) -> _Message:
    return _message(file=source["file"], line=source["line"], column=source["column"], source_fragment=source["text"])


def _fork(fork: _Facts) -> _Message:
    kind = next((word for name, word in _FORKS.items() if fork["reason"].startswith(name)), None)
    reason = None if kind is None else _Word(kind)
    branches = [("branches", _message(label=b["label"], subtree=_tree(b["trace"]))) for b in fork["branches"]]
    return _Message((("reason", reason), *branches))


def _outcome(outcome: _Facts) -> _Message:
    if "output" in outcome:
        output = outcome["output"]
        return _message(output=_message(dataplane_egress_port=output["port"], payload=bytes.fromhex(output["hex"])))
    reason = outcome["dropped"]["reason"]
    word = "ASSERTION_FAILURE" if reason == _ASSERTION else _DROPS.get(reason)
    return _message(drop=_message(reason=None if word is None else _Word(word)))


def _action_behind(lookup: _Facts, events: list[_Facts]) -> str | None:
    for event in events:
        if event["kind"] == "action" and event["table"] == lookup["table"]:
            return event["action"]
        if event["kind"] == "table_lookup":
            break
    return None


def _transition(event: _Facts, _: str | None) -> tuple[str, _Message]:
    key = event["key"]
    value = " ".join(f"0x{part['value']:x}" for part in key) or None
    names = ", ".join(part["name"] for part in key) or None
    body = _message(from_state=event["state"], to_state=event["next"], select_value=value, select_expression=names)
    return "parser_transition", body


def _action(event: _Facts, _: str | None) -> tuple[str, _Message]:
    values = []
    for name, value in event["parameters"].items():
        data = value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
        values.append(("params", _message(key=name, value=data)))
    return "action_execution", _Message((("action_name", event["action"]), *values))


_Make = Callable[[_Facts, str | None], tuple[str, _Message]]
_EVENTS: dict[str, _Make] = {
    "packet_ingress": lambda e, _: ("packet_ingress", _message(dataplane_ingress_port=e["port"])),
    "parser_transition": _transition,
    "table_lookup": lambda e, _: ("table_lookup", _message(table_name=e["table"], hit=e["hit"])),
    "action": _action,
    "branch": lambda e, stage: ("branch", _message(control_name=stage, taken=bool(e["value"]))),
    "extern_call": lambda e, _: ("extern_call", _message(extern_instance_name=e.get("of"), method=e["extern"])),
    "mark_to_drop": lambda e, _: ("mark_to_drop", _message(reason=_Word("MARK_TO_DROP"))),
    "clone": lambda e, _: ("clone", _message(session_id=e["session"])),
    "log_message": lambda e, _: ("log_message", _message(message=e["text"])),
    "assertion": lambda e, _: ("assertion", _message(passed=bool(e["value"]))),
    "deparser_emit": lambda e, _: ("deparser_emit", _message(header_type=e["type"], byte_length=len(e["hex"]) // 2)),
}


# -- BMv2


def _copies(hop: _Facts) -> Iterator[_Message]:
    """A message for each way through the tree: BMv2's trees have no forks."""
    for number, (events, outcome) in enumerate(_paths(hop["trace"], [])):
        stages = [
            ("events", _stage_event(event["stage"], event["kind"].upper()))
            for event, _ in _with_stages(events)
            if event["kind"] in ("enter", "exit")
        ]
        end: tuple[tuple[str, Any], ...] = ()
        if outcome is not None and "output" in outcome:
            output = outcome["output"]
            sent = _message(egress_port=output["port"], packet_size=len(output["hex"]) // 2)
            end = (("transmit", sent),)
        elif outcome is not None:
            end = (("drop", _message()),)
        given = _message(packet_id=number, ingress_port=hop["port"])
        yield _message(input=given, root=_Message((*stages, *end)))


def _paths(tree: _Facts, before: list[_Facts]) -> Iterator[tuple[list[_Facts], _Facts | None]]:
    events = before + tree["events"]
    if "fork" not in tree:
        yield events, tree["outcome"]
        return
    for branch in tree["fork"]["branches"]:
        yield from _paths(branch["trace"], events)
