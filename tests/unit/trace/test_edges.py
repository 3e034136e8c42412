# SPDX-License-Identifier: Apache-2.0
"""Traces of what is large, of what does not end and of what fails."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from finsy.proto import p4r

from detour.base.places import BUILD
from detour.control.p4runtime.pipeline import PipelineConfig
from detour.engine.bmv2api.commands.interpreter import program_of
from detour.engine.bmv2api.commands.registry import COMMANDS, CommandScope
from detour.engine.trace.build import FULL_QUEUE, TOO_DEEP
from detour.engine.trace.network import CUT
from detour.engine.trace.tree import Dropped, Event, Output, TraceTree
from detour.fabric.tracing.program import TracedProgram
from tests.unit.trace.logged import COMPILED, PROGRAMS

EDGES = PROGRAMS / "edges"


def program(folder_and_name: str) -> TracedProgram:
    return TracedProgram(PipelineConfig.given(f"{folder_and_name}.p4info.txtpb,{folder_and_name}.json"))


def trace_of(switch: TracedProgram, frame: bytes, port: int = 1) -> TraceTree:
    (hop,) = switch.trace(frame, port).hops
    assert json.loads(hop.trace.json()) == hop.trace.as_json()
    return hop.trace


def of_kind(trace: TraceTree, kind: str) -> list[Event]:
    return [event for event in trace.all_events() if event.kind == kind]


def out(trace: TraceTree) -> tuple[int, bytes]:
    """(port, frame) that left."""
    assert isinstance(trace.outcome, Output)
    return trace.outcome.port, trace.outcome.frame


Match = Callable[[int], p4r.FieldMatch]


def _exact(number: int) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=1, exact=p4r.FieldMatch.Exact(value=_key(number, 8)))


def _lpm(number: int) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=1, lpm=p4r.FieldMatch.LPM(value=_key(number, 16), prefix_len=96 + number % 32))


def _ternary(number: int) -> p4r.FieldMatch:
    mask = b"\xff\xff\xff\xff" + bytes(8) + b"\xff\xff\xff\xff"
    return p4r.FieldMatch(field_id=1, ternary=p4r.FieldMatch.Ternary(value=_key(number, 16), mask=mask))


def _key(number: int, size: int) -> bytes:
    """The number in front, so that prefixes differ; zeros behind it."""
    return (number + 1).to_bytes(4, "big") + bytes(size - 4)


@pytest.mark.parametrize("entries", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("port", "table", "match"), [(1, "by_exact", _exact), (2, "by_lpm", _lpm), (3, "by_ternary", _ternary)]
)
def test_large_tables(port: int, table: str, match: Match, entries: int) -> None:
    with program(str(BUILD / "bench_tables")) as switch:
        info = next(each for each in switch.p4info.tables if each.preamble.alias == table)

        def entry(number: int) -> p4r.Update:
            parameters = [p4r.Action.Param(param_id=1, value=bytes([number % 13]) if number % 13 else b"\0")]
            action = p4r.TableAction(
                action=p4r.Action(action_id=switch.p4info.actions[0].preamble.id, params=parameters)
            )
            priority = 1 + number if table == "by_ternary" else 0
            made = p4r.TableEntry(table_id=info.preamble.id, match=[match(number)], action=action, priority=priority)
            return p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(table_entry=made))

        switch.write([entry(number) for number in range(entries)], ["entry"] * entries)
        for number in (0, 1, entries * 7 // 9, entries - 1, entries):
            frame = b"".join(_key(number, size) for size in (8, 16, 16))
            trace = trace_of(switch, frame, port)
            (lookup,) = of_kind(trace, "table_lookup")
            assert lookup.facts["table"] == f"BenchIngress.{table}"
            assert lookup.facts["hit"] == (number < entries)
            (action,) = of_kind(trace, "action")
            assert action.facts["parameters"] == {"port": number % 13 if number < entries else 8}
            assert out(trace) == (action.facts["parameters"]["port"], frame)


@pytest.mark.parametrize("size", [1, 9_216, 65_535])
def test_packets_of_all_sizes(size: int) -> None:
    frame = bytes([6, 0, *(number % 251 for number in range(size))])[:size]
    with program(str(EDGES / "edges")) as switch:
        trace = trace_of(switch, frame)
        assert out(trace) == (1, frame)
        assert of_kind(trace, "packet_ingress")[0].facts["bytes"] == size


@pytest.mark.parametrize("what", [1, 2], ids=["recirculated", "resubmitted"])
def test_what_never_ends_is_cut(what: int) -> None:
    with program(str(EDGES / "edges")) as switch:
        trace = trace_of(switch, bytes([what, 0, 0, 0]))
        assert trace.outcome == Dropped(CUT)
        assert len([event for event in of_kind(trace, "stage") if event.facts["stage"] == "parser"]) == 65
        # It is gone: the next packet is alone.
        after = trace_of(switch, bytes(4))
        assert out(after) == (1, bytes(4))
        assert len(of_kind(after, "packet_ingress")) == 1


def test_clones_of_clones_without_end_are_cut() -> None:
    frame = bytes([3, 0, 0, 0])
    with program(str(EDGES / "edges")) as switch:
        COMMANDS["mirroring_add"].understand(["1", "5"], CommandScope(program_of(switch.api)))(switch.api, print)
        trace = trace_of(switch, frame)
        for generation in range(65):
            assert trace.fork is not None
            original, clone = trace.fork.branches
            assert (original.label, clone.label) == ("original", "clone to port 5, rid 0")
            assert out(original.trace) == (5 if generation else 1, frame)
            trace = clone.trace
        assert trace.outcome == Dropped(TOO_DEEP)
        after = trace_of(switch, bytes(4))
        assert out(after) == (1, bytes(4))


def test_copies_that_found_their_queue_full_are_told() -> None:
    """A hundred copies by one port, whose queue takes 64."""
    with program(str(COMPILED / "multicast")) as switch:
        switch.network.set_multicast_group(1, 1, [(4, rid) for rid in range(100)])
        trace = trace_of(switch, bytes([0, 1, 0, 0, 0, 0, 0, 0]))
        assert trace.fork is not None
        assert sorted(branch.label for branch in trace.fork.branches) == sorted(
            f"port 4, rid {rid}" for rid in range(100)
        )
        lost = [branch.trace.outcome for branch in trace.fork.branches if isinstance(branch.trace.outcome, Dropped)]
        assert set(map(repr, lost)) == {repr(Dropped(FULL_QUEUE))}
        assert len(lost) == switch.network.port_stats()["queue_drops"].sum()


def test_a_packet_goes_round_as_often_as_it_may() -> None:
    with program(str(EDGES / "edges")) as switch:
        trace = trace_of(switch, bytes([6, 60, 0, 0]))
        assert out(trace) == (0, bytes([6, 0, 0, 0]))


@pytest.mark.parametrize(("what", "line"), [(4, 17), (5, 19)], ids=["assert", "assume"])
def test_assertions(what: int, line: int) -> None:
    with program(str(EDGES / "edges")) as switch:
        failed = trace_of(switch, bytes([what, 0, 0, 0]))
        assert isinstance(failed.outcome, Dropped)
        assert failed.outcome.reason == "an assertion failed"
        assert failed.outcome.source is not None
        assert failed.outcome.source.line == line
        (event,) = of_kind(failed, "assertion")
        assert (event.facts["what"], event.facts["value"]) == ("assert" if what == 4 else "assume", 0)
        held = trace_of(switch, bytes([what, 0, 7, 0]))
        assert out(held) == (1, bytes([what, 0, 7, 0]))


@pytest.mark.parametrize("name", ["union_stack", "varbit_options", "stack_push", "parser_verify", "parser_stack_next"])
def test_headers_of_all_kinds(name: str) -> None:
    """Every length of a packet, so parsers run out of it at each place: what leaves is what the tree says, and each
    packet that is cut short inside a header says so."""
    errors = 0
    with program(str(COMPILED / name)) as switch:
        for first in (0x00, 0x01, 0x02, 0x03, 0x11, 0x45, 0x46, 0xFF):
            for size in range(1, 40):
                trace = trace_of(switch, bytes([first] * size))
                assert all(leaf.outcome is not None for _, leaf in trace.leaves())
                errors += sum("parser_error" in event.facts for event in trace.all_events())
    assert errors


def test_elements_of_stacks_that_are_chosen_at_run_time() -> None:
    with program(str(COMPILED / "stack_runtime_index")) as switch:
        trace = trace_of(switch, bytes.fromhex("02030405060708090a0b0c"))
        (transition,) = of_kind(trace, "parser_transition")
        headers = [each["header"] for each in transition.facts["extracted"]]
        assert headers == ["h", "stack[0]", "stack[1]", "stack[2]", "stack[3]"]
        written = [event.facts for event in of_kind(trace, "assign") if event.facts["field"].startswith("stack")]
        assert written == [{"field": "stack[2].value", "by": "assign", "before": 0x090A, "after": 0xBEEF}]


def test_elements_of_stacks_that_a_parser_goes_through() -> None:
    with program(str(COMPILED / "parser_stack_next")) as switch:
        trace = trace_of(switch, bytes.fromhex("02030405060708090a0b0c"))
        extracted = [
            each["header"] for event in of_kind(trace, "parser_transition") for each in event.facts.get("extracted", ())
        ]
        assert extracted == ["h", "stack[0]", "stack[1]"]
