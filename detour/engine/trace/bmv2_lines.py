# SPDX-License-Identifier: Apache-2.0
"""The messages that BMv2's simple_switch logs of a packet, from what the functions of a traced program recorded.

Wording, levels and order are those of BMv2 1.15.5; docs/switch.md lists what differs. Lines come in the order in which
functions ran, so that copies of packets and packets that wait in queues stand where they do in BMv2's log.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from detour.engine import phv
from detour.engine.compiler.model import MAX_PRIORITY, ActionIr, Json, Model, PipelineIr, TableIr, parse_hex
from detour.engine.compiler.tracing import source_of
from detour.engine.trace import LOG_TRACE
from detour.engine.trace.events import EventReader, RecordedEvent
from detour.engine.trace.records import Execution
from detour.engine.trace.tree import Event, SourcePlace

_NAME_WIDTH, _KIND_WIDTH = 20, 10
_FIRST = {phv.TYPE_NORMAL}
_PRIORITISED = {"ternary", "range", "optional"}
_NODES = {"table_lookup", "action", "branch"}
_JUMPS = {"_jump", "_jump_if_zero"}
_EXTERNS = {
    "modify_field_with_hash_based_offset": "hash", "modify_field_rng_uniform": "random", "execute_meter": "meter"
}  # fmt: skip
"""of primitives: those that traces call otherwise"""
_Checksum = tuple[str, SourcePlace | None]
_Replicas = Mapping[int, Sequence[tuple[int, int]]]


class LogLine(NamedTuple):
    """One message: its level, as `logging` counts, and its text, which may have several lines."""

    level: int
    text: str


class _Copies:
    """BMv2's numbers for the copies of a packet: 0 is the one that arrived."""

    def __init__(self, port: int) -> None:
        """`port`: by which the packet came."""
        self.port = port
        self.numbers = itertools.count(1)
        self.current = self.arrived = 0
        """which copy was at ingress last: it starts over under a new number"""
        self.reserved: dict[int, list[int]] = {}
        """numbers of copies that wait for their egress, by kind"""
        self.parsed: list[LogLine] = []
        """what the parser said last: an ingress clone is parsed once more"""

    def reserve(self, kind: int) -> None:
        """Give a copy its number, which has it from when it is made."""
        self.reserved.setdefault(kind, []).append(next(self.numbers))

    def at_egress(self, kind: int) -> int:
        """The number of a copy that comes to its egress."""
        if kind in _FIRST:
            return self.arrived
        waiting = self.reserved.get(kind)
        return waiting.pop(0) if waiting else next(self.numbers)


class PacketLines:
    """Turns the executions of one switch into lines."""

    def __init__(self, model: Model, reader: EventReader, drop_port: int, first: int = 0) -> None:
        """`first`: number of the first packet."""
        self._first = first
        self._model, self._reader, self._drop_port = model, reader, drop_port
        self._copies: dict[int, _Copies] = {}
        self._actions = {action.id: action for action in model.actions}
        self._parser, self._deparser = (_stage(model.json[kind]) for kind in ("parsers", "deparsers"))
        self._states: dict[str, Json] = {state["name"]: state for state in self._parser.get("parse_states", ())}
        stacks = (model.json.get(kind, []) for kind in ("header_stacks", "header_union_stacks"))
        self._stack_ids = {stack["name"]: stack["id"] for each in stacks for stack in each}
        self._ports: dict[int, int] = {}
        """out of which port the packet goes whose egress ran last, by trace"""
        self.replication: Callable[[], tuple[_Replicas, _Replicas]] = lambda: ({}, {})
        """what groups and clone sessions replicate to"""

    def lines(self, run: Execution) -> Iterator[LogLine]:
        """Yield the lines that BMv2 logs for the same execution."""
        copies = self._copies.get(run.trace)
        if copies is None:
            copies = self._copies[run.trace] = _Copies(run.begin["ingress_port"])
            self._copies.pop(run.trace - _REMEMBERED, None)
        if run.function == "parse" and run.begin["instance_type"] not in _FIRST:
            copies.current = copies.arrived = next(copies.numbers)
        elif run.function == "egress":
            copies.current = copies.at_egress(run.begin["instance_type"])
        for level, text in getattr(self, f"_{run.function}")(run):
            prefix = f"[{self._first + run.trace - 1}.{copies.current}] [cxt 0] "
            yield LogLine(level, text if level == logging.INFO else prefix + text)

    # -- parser

    def _parse(self, run: Execution) -> Iterator[LogLine]:
        name = self._parser["name"]
        # Also when it starts over, although the program finds another port then.
        yield _debug(f"Processing packet received on port {self._copies[run.trace].port}")
        parsed = self._copies[run.trace].parsed = list(self._parsed(run, name))
        yield from parsed

    def _parsed(self, run: Execution, name: str) -> Iterator[LogLine]:
        yield _debug(f"Parser '{name}': start")
        state: str | None = self._parser.get("init_state")
        events: list[RecordedEvent] = []
        position = 0
        extracted: list[str] = []
        verified: dict[_Checksum, Event] = {}
        for event in self._reader.steps(run):
            if event.kind == "parser_transition" and event.facts.get("parser_error"):
                error = event.facts["parser_error"]
                yield _debug(f"Parser '{name}' entering state '{state}'")
                yield from self._operations(state, events, extracted, error)
                yield LogLine(logging.ERROR, f"Exception while parsing: {error}")
                state, events = None, []
            elif event.kind == "parser_transition":
                yield _debug(f"Parser '{name}' entering state '{state}'")
                yield from self._operations(state, events, extracted)
                yield _left(event)
                position += sum(len(each.data) for each in events if each.kind == "extract")
                position += sum(each.facts["bytes"] for each in events if _advances(each))
                yield _trace(f"Bytes parsed: {position}")
                state, events = event.facts["next"], []
            elif event.kind == "extern_call" and event.facts["extern"] == "verify_checksum":
                verified[event.facts["of"], event.source] = event
            else:
                events.append(event)
        for checksum in self._model.json["checksums"]:
            if checksum["verify"]:
                yield from self._verified(checksum, verified.get(_checksum(checksum)), set(extracted))
        yield _debug(f"Parser '{name}': end")

    def _operations(
        self, state: str | None, events: list[RecordedEvent], extracted: list[str], error: str | None = None
    ) -> Iterator[LogLine]:
        """Yield a state's operations; the recorded events say which of them were reached. `extracted`: headers so far,
        to which its own are added. `error`: the error that ended the parser there."""
        waiting = list(events)
        for op in self._states.get(state or "", {}).get("parser_ops", ()):
            kind, parameters = op["op"], op["parameters"]
            if kind not in _OPERATIONS:
                continue
            event = _taken(waiting, kind, parameters)
            if kind in ("extract", "extract_VL"):
                if event is None and error == "StackOutOfBounds":
                    return
                yield _debug(self._extracted(kind, parameters[0], extracted))
                if event is not None:
                    extracted.append(event.facts["header"])
            if event is None:
                return  # the packet was too short
            if kind == "set":
                yield _debug(_parser_set(parameters, event))
            elif kind == "advance":
                yield _debug(f"Advancing by {event.facts['bytes']} bytes")
            elif kind == "primitive":
                name = parameters[0]["op"]
                yield _debug(f"Executing method {name}")
                yield _trace(f"Action {name}")
                yield _trace("Primitive (no source info)")

    def _extracted(self, kind: str, parameter: Json, before: list[str]) -> str:
        if parameter["type"] == "regular":
            return f"Extracting {'variable-sized ' if kind == 'extract_VL' else ''}header '{parameter['value']}'"
        union = parameter["type"] == "union_stack"
        stack, member = parameter["value"] if union else (parameter["value"], "")
        header = f"{stack}[{sum(name.startswith(f'{stack}[') for name in before)}]{f'.{member}' if union else ''}"
        ids = {each["name"]: each["id"] for each in self._model.json["headers"]}
        what = "header union stack" if union else "header stack"
        return f"Extracting to {what} {self._stack_ids[stack]}, next header is {ids.get(header, 0)}"

    def _verified(self, checksum: Json, event: Event | None, extracted: set[str]) -> Iterator[LogLine]:
        name = checksum["name"]
        if event is None:
            why = "condition not met" if checksum["target"][0] in extracted else "target field invalid"
            yield _trace(f"Skipping checksum '{name}' verification because {why}")
            return
        computed, have = event.facts["computed"], event.facts["have"]
        yield _debug(f"Checksum '{name}': computed {computed:#x} - actual {have:#x}")
        yield _debug(f"Verified checksum '{name}': {'passed' if computed == have else 'failed'}")
        if computed != have:
            yield LogLine(logging.ERROR, f"Checksum '{name}' is not correct")

    # -- pipelines

    def _ingress(self, run: Execution) -> Iterator[LogLine]:
        yield from self._pipeline(run, "ingress")
        if run.after("error"):
            return
        yield from self._cloned(run, "ingress")
        if run.after("resubmit"):
            yield _debug("Resubmitting packet")
        elif run.after("mcast_grp"):
            yield _debug("Multicast requested for packet")
            replicas = self.replication()[0].get(run.after("mcast_grp"), ())
            yield from _replicated(replicas, self._copies[run.trace], phv.TYPE_REPLICATION)
        else:
            yield _debug(f"Egress port is {run.after('egress_spec')}")
            if run.after("egress_spec") == self._drop_port:
                yield _debug("Dropping packet at the end of ingress")

    def _egress(self, run: Execution) -> Iterator[LogLine]:
        self._ports[run.trace] = run.begin["egress_port"]
        yield from self._pipeline(run, "egress")
        if run.after("error"):
            return
        yield from self._cloned(run, "egress")
        if run.after("egress_spec") == self._drop_port:
            del self._ports[run.trace]
            yield _debug("Dropping packet at the end of egress")

    def _cloned(self, run: Execution, where: str) -> Iterator[LogLine]:
        if not run.after("clone_session"):
            return
        yield _debug(f"Cloning packet at {where}")
        copies = self._copies[run.trace]
        groups, sessions = self.replication()
        session = run.after("clone_session") - 1
        replicas = tuple(sessions.get(session, ()))
        if not replicas:
            return
        kind = phv.TYPE_INGRESS_CLONE if where == "ingress" else phv.TYPE_EGRESS_CLONE
        original, clone = copies.current, next(copies.numbers)
        if where == "ingress":
            copies.current = clone
            yield from copies.parsed
            copies.current = original
        if len(replicas) == 1 and replicas[0][1] == 0:
            copies.reserved.setdefault(kind, []).append(clone)
            yield _debug(f"Cloning packet to egress port {replicas[0][0]}")
            return
        same = (number for number, each in groups.items() if tuple(each) == replicas)
        yield _debug(f"Cloning packet to MGID {next(same, _GROUPS_OF_SESSIONS + session)}")
        copies.current = clone
        yield from _replicated(replicas, copies, kind)
        copies.current = original

    def _pipeline(self, run: Execution, name: str) -> Iterator[LogLine]:
        """Go the packet's way from node to node, since statements between tables leave no record of their own."""
        yield _debug(f"Pipeline '{name}': start")
        pipeline, steps = self._model.pipelines[name], deque(self._reader.steps(run))
        node = pipeline.init
        while node is not None:
            if node in pipeline.conditionals:
                if not steps or steps[0].kind != "branch":
                    break  # an error has ended the packet
                event = steps.popleft()
                value = "true" if event.facts["value"] else "false"
                text = event.facts["name"] if event.source is None else event.source.text
                yield _trace(f'{_where(event.source)}Condition "{text}" ({event.facts["name"]}) is {value}')
                node = pipeline.conditionals[node][f"{value}_next"]
                continue
            node, exited = yield from self._apply(pipeline, node, steps)
            if exited and node is not None:
                yield _debug("Packet is marked for exit, interrupting pipeline")
                break
        yield _debug(f"Pipeline '{name}': end")

    def _apply(
        self, pipeline: PipelineIr, node: str, steps: deque[RecordedEvent]
    ) -> Generator[LogLine, None, tuple[str | None, bool]]:
        """A table, a statement or the call of an action. Returns where it goes on, and if the packet has exited."""
        table = pipeline.tables.get(node)
        hit, values, following = False, (), None
        if table is None:
            call = pipeline.calls[node]
            action = self._actions[call["action_id"]]
            following = call.get("next_node")
        elif table.is_statement:
            assert table.default is not None
            action = table.default.action
            yield _trace(f"Applying table '{node}'")
            yield _debug("Looking up key:\n")
            yield _debug(f"Table '{node}': miss")
        else:
            if not steps or steps[0].kind != "table_lookup":
                return None, False
            event = steps.popleft()
            hit = event.facts["hit"]
            yield from self._lookup(event)
            while steps and steps[0].kind == "extern_call":
                steps.popleft()  # the choice of a member, a direct meter
            if not steps or steps[0].kind != "action":  # a miss, and no action for it
                yield _debug("Action entry is NULL")
                return table.next_node(None, hit), False
            event = steps.popleft()
            # A name means one action within a table; others may have actions of the same name.
            action = next(each for each in table.actions if each.name == event.facts["action"])
            values = tuple(event.facts["parameters"].values())
        if table is not None:
            yield _debug(f"Action entry is {_entry_of(action.name, values)}")
            following = table.next_node(action, hit)
        events = _events_of(action, steps)
        yield from self._performed(action, events)
        return following, any(event.facts.get("extern") == "exit" for event in events)

    def _lookup(self, event: RecordedEvent) -> Iterator[LogLine]:
        facts = event.facts
        yield _trace(f"Applying table '{facts['table']}'")
        bits = [each.bits for each in event.form.reader.form.values]
        names = [part["name"] for part in facts["key"]]
        parts = zip(names, facts["key"], bits, strict=False)  # behind the key are row and hit
        shown = [_key_line(name, "", _hex(part["value"], width), names) for name, part, width in parts]
        yield _debug("Looking up key:\n" + "".join(shown))
        if not facts["hit"]:
            yield _debug(f"Table '{facts['table']}': miss")
            return
        entry = facts["entry"]
        if entry is None:
            yield _debug(f"Table '{facts['table']}': hit with an entry that is deleted since")
        else:
            yield _debug(f"Table '{facts['table']}': hit with handle {entry['handle']}")
            yield _debug(_dumped(self._model.tables[facts["table"]], entry, bits))

    def _performed(self, action: ActionIr, events: list[Event]) -> Iterator[LogLine]:
        """An action's primitives, and what they say themselves."""
        yield _trace(f"{_where(_source_in(action.json))}Action {action.name}")
        primitives = action.json["primitives"]
        if any(each["op"] in _JUMPS for each in primitives):
            for source, event in _executed(primitives, events):
                yield _trace(f"{_where(source)}Primitive {_text(source)}")
                if event is not None:
                    yield from self._own_lines(event)
            return
        left = list(events)
        for primitive in primitives:
            source = _source_in(primitive)
            yield _trace(f"{_where(source)}Primitive {_text(source)}")
            at = next((i for i, event in enumerate(left) if _belongs(event, primitive["op"])), None)
            if at is not None:
                yield from self._own_lines(left.pop(at))

    def _own_lines(self, event: Event) -> Iterator[LogLine]:
        """Yield a primitive's own log lines."""
        facts = event.facts
        if event.kind == "log_message":
            yield LogLine(logging.INFO, facts["text"])
        if event.kind != "extern_call":
            return
        arrays = {"count": self._model.counters, "meter": self._model.meters}
        array = arrays.get(facts["extern"], self._model.registers).get(str(facts.get("of")))
        if array is not None and facts["index"] >= array.size:
            what = _BOUNDS[facts["extern"]].format(facts["of"], array.size, facts["index"])
            yield LogLine(logging.ERROR, f"Attempted to {what}")
            return
        if facts["extern"] == "meter":
            yield _debug(f"Executing meter {facts['of']}[{facts['index']}]")
            what = f"Updated meter '{facts['of']}' at index {facts['index']},"
            yield _trace(f"{what} assigning dest field the color result {facts.get('result')}")
        if facts["extern"] in _EXTERN_LINES:
            yield _trace(_EXTERN_LINES[facts["extern"]].format_map({"result": None, **facts}))

    # -- deparser

    def _deparse(self, run: Execution) -> Iterator[LogLine]:
        name = self._deparser["name"]
        yield _debug(f"Deparser '{name}': start")
        events = self._reader.steps(run)
        by = [event for event in events if event.facts.get("by") == "update_checksum"]
        updated = {(event.facts["field"], event.source) for event in by}
        for checksum in self._model.json["checksums"]:
            if checksum["update"] and _checksum(checksum) in updated:
                yield _debug(f"Updating checksum '{checksum['name']}'")
            elif checksum["update"]:
                yield _trace(f"Skipping checksum '{checksum['name']}' update because condition not met")
        for event in events:
            if event.kind == "deparser_emit":
                yield _debug(f"Deparsing header '{event.facts['header']}'")
        yield _debug(f"Deparser '{name}': end")
        if run.after("error"):
            return
        if run.after("recirculate"):
            yield _debug("Recirculating packet")
            return
        length = len(run.end.data) + len(run.begin.data)
        size = min(length, run.after("truncate") or length)
        yield _debug(f"Transmitting packet of size {size} out of port {self._ports.pop(run.trace, 0)}")


_GROUPS_OF_SESSIONS = 1 << 15
"""P4Runtime's clone sessions are multicast groups of simple_switch_grpc from here on"""
_REMEMBERED = 1 << 14
"""packets back, of which copies may still come"""


def _stage(stages: Sequence[Json]) -> Json:
    """The parser or deparser of a v1model program, which has one; its name if it has none."""
    return stages[0] if stages else {"name": ""}


def _source_in(json: Json) -> SourcePlace | None:
    info = source_of(json)
    return None if info is None else SourcePlace(**info)


def _checksum(json: Json) -> _Checksum:
    """Return what identifies a checksum: several may be of one field, each under its condition."""
    return ".".join(json["target"]), _source_in(json)


def _replicated(replicas: Sequence[tuple[int, int]], copies: _Copies, kind: int) -> Iterator[LogLine]:
    for port, _ in replicas:
        yield _debug(f"Replicating packet on port {port}")
        copies.reserve(kind)


_OPERATIONS = ("extract", "extract_VL", "set", "advance", "primitive")
_VALIDITY = ("setValid", "setInvalid")


def _taken(waiting: list[RecordedEvent], kind: str, parameters: Json) -> RecordedEvent | None:
    """Take the event of an operation of the parser, if it was come to."""

    def fits(event: RecordedEvent) -> bool:
        by = event.facts.get("by") if event.kind == "assign" else None
        if kind == "set":
            return by is not None and by not in _VALIDITY
        if kind == "advance":
            return _advances(event)
        if kind == "primitive":
            return by in _VALIDITY or (event.kind == "extern_call" and event.facts["extern"] == parameters[0]["op"])
        return event.kind == "extract"

    event = next(filter(fits, waiting), None)
    if event is not None:
        waiting.remove(event)
    return event


def _advances(event: RecordedEvent) -> bool:
    return event.kind == "extern_call" and event.facts["extern"] == "advance"


def _events_of(action: ActionIr, steps: deque[RecordedEvent]) -> list[Event]:
    """Take the events of an action that has begun."""
    places = [_source_in(each) for each in action.json["primitives"]]
    events = []
    while steps and steps[0].kind not in _NODES and (steps[0].source is None or steps[0].source in places):
        events.append(steps.popleft())
    return events


def _executed(primitives: Sequence[Json], events: Sequence[Event]) -> list[tuple[SourcePlace | None, Event | None]]:
    """The primitives of an action with jumps that have run, with their events. Traces do not record jumps: of all ways
    through the action the first one that explains the events counts, and without one the events alone."""
    dead: set[tuple[int, int]] = set()
    ways: list[tuple[int, int, tuple[Any, ...]]] = [(0, 0, ())]  # next primitive, next event, what has run: a chain
    while ways:
        at, used, before = ways.pop()
        if at >= len(primitives):
            if used == len(events):
                return _unchained(before)
            continue
        if (at, used) in dead:
            continue
        dead.add((at, used))
        op, source = primitives[at]["op"], _source_in(primitives[at])
        if op in _JUMPS:
            chain = (before, (source, None))
            ways.append((parse_hex(primitives[at]["parameters"][-1]["value"]), used, chain))
            if op == "_jump_if_zero":
                ways.append((at + 1, used, chain))
        elif used < len(events) and events[used].source == source:
            ways.append((at + 1, used + 1, (before, (source, events[used]))))
        elif op == "no_op":
            ways.append((at + 1, used, (before, (source, None))))
    return [(event.source, event) for event in events]


def _unchained(chain: tuple[Any, ...]) -> list[tuple[SourcePlace | None, Event | None]]:
    steps = []
    while chain:
        chain, step = chain
        steps.append(step)
    return steps[::-1]


_EXTERN_LINES = {
    "hash": "hash(base={base}, max={max}) = {result}",
    "random": "random(lo={low}, hi={high}) = {result}",
    "count": "Updated counter '{of}' at index {index}",
    "register_read": "Read register '{of}' at index {index} read value {result}",
    "register_write": "Wrote register '{of}' at index {index} with value {value}",
}
_BOUNDS = {
    "count": "update counter '{}' with size {} at out-of-bounds index {}.  No counters were updated.",
    "meter": "update meter '{}' with size {} at out-of-bounds index {}.  No meters were updated, and neither was"
    " dest field.",
    "register_read": "read register '{}' with size {} at out-of-bounds index {}.  Dest field was not updated.",
    "register_write": "write register '{}' with size {} at out-of-bounds index {}."
    "  No register array elements were updated.",
}


def _debug(text: str) -> LogLine:
    return LogLine(logging.DEBUG, text)


def _trace(text: str) -> LogLine:
    return LogLine(LOG_TRACE, text)


def _where(source: SourcePlace | None) -> str:
    return "" if source is None else f"{source.file}({source.line}) "


def _text(source: SourcePlace | None) -> str:
    return "(no source info)" if source is None else source.text


def _left(event: RecordedEvent) -> LogLine:
    state = event.facts["state"]
    if not event.facts["key"]:
        return _debug(f"Parser state '{state}' has no switch, going to default next state")
    bits = [each.bits for each in event.form.reader.form.values]
    key = "".join(_hex(part["value"], width) for part, width in zip(event.facts["key"], bits, strict=True))
    return _debug(f"Parser state '{state}': key is {key}")


def _parser_set(parameters: Json, event: Event) -> str:
    field, value = event.facts["field"], event.facts.get("after", 0)
    kind, given = parameters[1]["type"], parameters[1]["value"]
    if kind == "field":
        return f"Parser set: setting field '{field}' from field '{'.'.join(given)}' ({value})"
    if kind == "lookahead":
        return f"Parser set: setting field '{field}' from lookahead ({given[0]}, {given[1]}), new value is {value}"
    if kind == "expression":
        return f"Parser set: setting field '{field}' from expression, new value is {value}"
    return f"Parser set: setting field '{field}' to {value}"


def _hex(value: int, bits: int) -> str:
    """As BMv2 dumps bytes."""
    return f"{value & ((1 << bits) - 1):0{2 * ((bits + 7) // 8)}x}"


def _key_line(name: str, kind: str, value: str, names: Sequence[str]) -> str:
    width = max(_NAME_WIDTH, *map(len, names), 0)
    return f"* {name:<{width}}: {kind}{value}\n"


def _dumped(table: TableIr, entry: dict[str, Any], bits: Sequence[int]) -> str:
    """An entry as BMv2 dumps it."""
    names = [part["name"] for part in entry["key"]]
    lines = [f"Dumping entry {entry['handle']}\nMatch key:\n"]
    for part, width in zip(entry["key"], bits, strict=False):
        kind = "TERNARY" if part["match"] == "optional" else part["match"].upper()
        lines.append(_key_line(part["name"], f"{kind:<{_KIND_WIDTH}}", _matched(part, width), names))
    if any(spec.match_type in _PRIORITISED for spec in table.key):
        lines.append(f"Priority: {MAX_PRIORITY - entry['priority']}\n")
    if "action" in entry:
        lines.append(f"Action entry: {_entry_of(entry['action'], entry['parameters'].values())}\n")
    else:
        what = f"group({entry['group']})" if "group" in entry else f"member({entry.get('member')})"
        lines.append(f"Index: {what}\n")
    return "".join(lines)


def _matched(part: dict[str, Any], bits: int) -> str:
    if "prefix_len" in part:
        return f"{_hex(part['value'], bits)}/{part['prefix_len']}"
    if "low" in part:
        return f"{_hex(part['low'], bits)} -> {_hex(part['high'], bits)}"
    if part["match"] in ("ternary", "optional"):
        mask = part.get("mask", 0 if part.get("any") else (1 << bits) - 1)
        return f"{_hex(part.get('value', 0), bits)} &&& {_hex(mask, bits)}"
    return _hex(part["value"], bits)


def _entry_of(action: str, values: Any) -> str:
    return f"{action} - " + "".join(f"{value:x}," for value in values)


def _belongs(event: Event, op: str) -> bool:
    """Return whether an event is one of which a primitive says more than that it ran."""
    if event.kind == "log_message":
        return op == "log_msg"
    return event.kind == "extern_call" and _EXTERNS.get(op, op) == event.facts["extern"]
