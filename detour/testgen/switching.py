# SPDX-License-Identifier: Apache-2.0
"""A packet's whole way through the switch, as `loop/switch.py` has it: parser, ingress, what that decided, egress, and
the deparser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from detour.engine import phv
from detour.engine.compiler.calculations import update_checksums, verify_checksums
from detour.engine.compiler.covering import STATEMENT
from detour.engine.compiler.deparser import deparser_of
from detour.engine.compiler.ir import TRUE, Value, const
from detour.engine.compiler.layout import Layout
from detour.engine.compiler.model import Model
from detour.engine.compiler.slots import assign_slots
from detour.testgen.anything import anything, operations
from detour.testgen.calls import run_calls
from detour.testgen.context import Conditions, Findings, OffTrack, SymbolicContext, either
from detour.testgen.effort import Effort
from detour.testgen.hashing import hashed, product
from detour.testgen.parsing import Parser, Way
from detour.testgen.passes import Packet, keep, replicated
from detour.testgen.pipeline import Pipeline
from detour.testgen.state import State, Write
from detour.testgen.terms import NotModelled, concatenated, constants, term_of
from detour.testgen.testcase import Test

if TYPE_CHECKING:
    from detour.testgen.rules import EntryRules

MOST_WAYS = 400
MOST_PASSES = 3
"""how often a packet may be copied or start over"""
_FEW_UNITS = 300_000
"""of z3 for whether packets are copied or start over, which is followed if z3 does not know"""
_MOST_REPLAYED = 16
"""the same, where all values are known"""
_MOST_SHAPES = 16
"""of packets that start over: headers that are valid, and ways through the parser"""
_AGAIN = {
    "clone_": "clones of clones", "resubmit": "packets that are resubmitted", "recirculate": "packets that recirculate",
}  # fmt: skip
"""those that a primitive makes"""

WAITS = "what a queue does"
"""names variables that are zero for a packet that does not wait"""
_TIMES = (phv.EGRESS_GLOBAL_TIMESTAMP, "time", 64), (phv.ENQ_TIMESTAMP, "time", 32), (phv.DEQ_TIMEDELTA, WAITS, 32)


@dataclass
class Output:
    """A frame that leaves, if its conditions hold. `headers`: whether each is there, and its fields; `rest`: what
    follows (`Packet.rest`); `truncate`: the length to which it is cut, 0: not at all."""

    conditions: Conditions
    port: Value
    headers: list[tuple[Value, list[Value]]]
    rest: tuple[list[Value], int]
    truncate: Value


@dataclass
class Execution:
    """All that can become of packets that come one way through the parser; or only what the parser makes of them, if it
    is not `whole`. `ends`: states in which packets leave or are dropped."""

    findings: Findings
    packet: Packet
    names: tuple[str, ...]
    payload_at: int
    length: Value
    port: Value
    rules: EntryRules | None = None
    outputs: list[Output] = field(default_factory=list)
    ends: list[State] = field(default_factory=list)
    whole: bool = True
    path: tuple[Any, ...] = ()
    """of the packet of a test: the key of its way through the parser, and the branches that it takes from there"""

    def end(self, state: State) -> None:
        """Packets end in a state, if they come to it."""
        self.ends += [] if state.dead else [state]

    def registers(self) -> dict[str, tuple[Write, ...]]:
        """The writes to registers. Raises NotModelled: it depends on what nobody knows."""
        written = [
            [(name, *map(term_of, write)) for name, writes in state.writes.items() for write in writes]
            for state in self.ends
        ]
        if any(str(each) != str(written[0]) for each in written):
            raise NotModelled("registers that copies of a packet write")
        return self.ends[0].writes


class SymbolicSwitch:
    """Executes a program for v1model. `proves`: see `SymbolicContext`."""

    def __init__(
        self,
        model: Model,
        fixed: Mapping[str, int],
        effort: Effort,
        proves: bool = False,
        rules: EntryRules | None = None,
    ) -> None:
        self.model = model
        self.ctx = SymbolicContext(model, Layout(model), assign_slots(model), fixed, proves)
        self.ctx.rules = rules
        self.ctx.hashes = partial(hashed, self.ctx)
        self.f = self.ctx.f
        self.f.product = partial(product, self.ctx)
        self.parser, self._effort = Parser(self.ctx, effort), effort
        self.goes_round = not operations(model).isdisjoint(("resubmit", "recirculate"))
        self._ingress, self._egress = (Pipeline(self.ctx, model.pipelines[name]) for name in ("ingress", "egress"))
        self._most_passes, self.is_cut_short = 0, False
        """how often packets may start over; whether there were some that do so more often, or copies of copies"""
        read = str(model.json["actions"]) + str(model.json["pipelines"])
        self.reads_waiting = any(f"'{name}'" in read for name in ("enq_qdepth", "deq_qdepth", "deq_timedelta"))

    def ways(self) -> Iterator[Way]:
        """All ways through the parser of a packet that comes in."""
        return self.parser.ways(self.parser.first(), MOST_WAYS)

    def ways_by_headers(self) -> Iterator[tuple[Way, bool]]:
        """All ways, and whether none before has left these headers and this error, which is what controls can tell of a
        way beside the values of fields."""
        seen = set[tuple[frozenset[str], str]]()
        for way in self.ways():
            shape = way.headers, way.error
            yield way, shape not in seen
            seen.add(shape)

    def execution(self, way: Way, passes: int = MOST_PASSES) -> Execution:
        """Execute packets that come a way through the parser. `passes`: how often they may start over."""
        result = self._begun(way)
        self._most_passes = passes
        self._run(result, way)
        return result

    def beginning(self, way: Way, ingress: bool) -> Execution:
        """Execute the parser, and perhaps ingress, alone for packets that come a way through the parser."""
        result = replace(self._begun(way), whole=False)
        self.parser.finish(way)
        if ingress:
            self._run_ingress()
        return result

    def along(self, way: Way, branches: Iterable[Any]) -> Execution:
        """Execute one path: what packets come to on it, and the places to which they can leave it. `branches`: that it
        takes behind the parser."""
        ctx, self._most_passes = self.ctx, 0
        result = replace(self._begun(way), whole=False)
        ctx.guide, ctx.notes = iter(branches), False
        with suppress(OffTrack):
            self._run(result, way)
        ctx.guide, ctx.notes = None, True
        return replace(result, outputs=[])

    def _begun(self, way: Way) -> Execution:
        self.parser.enter(way)
        length = self.ctx.fixed(phv.INGRESS_LENGTH)
        return Execution(way.findings, way.packet, way.names, way.at, length, way.port, self.ctx.rules)

    def _run(self, result: Execution, way: Way) -> None:
        parsed = self.parser.finish(way)
        self._run_ingress()
        self._after_ingress(result, parsed)

    def _run_ingress(self) -> None:
        """Verify checksums and run ingress."""
        for place in (phv.CHECKSUM_ERROR, phv.EXITED):
            self.ctx.set_fixed(place, const(32, 0))
        with self.ctx.giving_up():
            self.ctx.set_fixed(phv.CHECKSUM_ERROR, self.f.resize(verify_checksums(self.ctx), 32))
        self._ingress.run()

    def any_packet(self) -> Execution:
        """All that can become of packets, whatever the parser makes of them: what this does not reach no packet does.
        `not_followed` of what is found says what may have been left out."""
        ctx = self.ctx
        ctx.findings, self.f.state = Findings(), State()
        anything(ctx, self.goes_round)
        result = Execution(ctx.findings, Packet(), (), 0, ctx.fixed(phv.INGRESS_LENGTH), ctx.fixed(phv.INGRESS_PORT))
        way = Way(State(), ctx.findings, result.packet, result.port)
        self._run_ingress()
        self._after_ingress(result, way)
        if any(name.startswith("clone_") for name in operations(self.model)):
            self.f.state = State()
            anything(ctx, True, all_headers=True)
            self._run_egress(result, way, self.f.resize(ctx.variable("clone port", 9), 32))
        return result

    def replay(self, test: Test) -> list[Execution]:
        """Execute each packet of a test. Raises NotModelled: something in it is not followed."""
        ctx, runs = self.ctx, list[Execution]()
        ctx.given, ctx.notes, ctx.f.product = test, False, None
        for packet in test.packets:
            ctx.sent = packet.frame
            state, size = State(), len(packet.frame)
            if runs:
                state.writes = runs[-1].registers()
            findings, parts = runs[-1].findings if runs else Findings(), Packet(constants(packet.frame))
            way = Way(state, findings, parts, const(32, packet.port), least=size, most=size)
            self.parser.arrive(way, const(32, size))
            ways = list(self.parser.ways(way, MOST_WAYS))
            if len(ways) != 1:  # the time is over, or a value decides that nobody knows
                raise NotModelled("the way of a packet through the parser")
            ctx.taken = []
            run = self.execution(ways[0], _MOST_REPLAYED)
            runs.append(replace(run, path=(ways[0].key, *ctx.taken)))
        return runs

    # -- between ingress and egress

    def _drop(self, result: Execution, condition: Value) -> None:
        """Packets for which a condition holds end here; execution goes on with the others."""
        self.ctx.note_lost(condition)
        result.end(self._fork(condition, "drop"))

    def _fork(self, condition: Value, text: str) -> State:
        """The state in which a condition holds; execution goes on where it does not."""
        yes, self.f.state = self.ctx.fork_on(condition, [text, f"no {text}"])
        return yes

    def _is_set(self, place: int) -> Value:
        return self.f.compare("ne", self.ctx.fixed(place), const(32, 0))

    def _after_ingress(self, result: Execution, way: Way) -> None:
        ctx, f = self.ctx, self.f
        self._clone(result, way, way.state, phv.TYPE_INGRESS_CLONE)
        again = self._fork(self._is_set(phv.RESUBMIT), "resubmit")
        group = self._fork(self._is_set(phv.MCAST_GRP), "multicast")
        self._drop(result, f.compare("eq", ctx.fixed(phv.EGRESS_SPEC), const(32, phv.DROP_PORT)))
        if not self.f.state.dead:
            ctx.set_fixed(phv.INSTANCE_TYPE, const(32, phv.TYPE_NORMAL))
            self._run_egress(result, way, f.resize(f.resize(ctx.fixed(phv.EGRESS_SPEC), 9), 32))
        if not group.dead:
            self.f.state = group
            self._multicast(result, way)
        self._start_over(result, way, again, (phv.RESUBMIT, phv.TYPE_RESUBMIT, 0, []))

    # -- copies and packets that start over

    def _multicast(self, result: Execution, way: Way) -> None:
        ctx = self.ctx
        replica = replicated(ctx, "group", ctx.fixed(phv.MCAST_GRP))
        if replica is None:
            result.end(self.f.state)
            return
        ctx.set_fixed(phv.EGRESS_RID, replica[0])
        ctx.set_fixed(phv.INSTANCE_TYPE, const(32, phv.TYPE_REPLICATION))
        for place in (phv.CLONE_SESSION, phv.CLONE_FIELDS, phv.RECIRCULATE, phv.TRUNCATE):
            ctx.set_fixed(place, const(32, 0))
        self._run_egress(result, way, replica[1])

    def _clone(self, result: Execution, way: Way, parsed: State | None, kind: int) -> None:
        """Follow a clone: of the packet as it was parsed, or as it is. Execution goes on with the packet itself."""
        ctx, on = self.ctx, self.f.state
        before, _ = ctx.followed(on.fork(*either(self._is_set(phv.CLONE_SESSION)), ["clone", "no clone"]))
        if not ctx.proves and self._may_go_on(way, before, "clone_", max(1, self._most_passes)):
            session, fields = ctx.fixed(phv.CLONE_SESSION), ctx.fixed(phv.CLONE_FIELDS)
            self.f.state = State(before.conditions, dict((parsed or before).memory), dict(before.writes), paths=0)
            with ctx.giving_up():
                keep(ctx, before, fields)
            ctx.set_fixed(phv.INSTANCE_TYPE, const(32, kind))
            replica = replicated(ctx, "session", self.f.op("sub", session, const(32, 1)))
            if replica is not None:
                self._run_egress(result, replace(way, passes=way.passes + 1), replica[1])
        self.f.state = on
        ctx.set_fixed(phv.CLONE_SESSION, const(32, 0))

    def _may_go_on(self, way: Way, state: State, op: str, most: int) -> bool:
        """Whether packets come to a state in which they are copied or start over, and not too often. `op`: by which
        primitive."""
        if self.ctx.guide is not None:
            return op == "clone_" and not state.dead
        if state.dead or not self.parser.possible(state, way.findings, units=_FEW_UNITS):
            return False
        if way.passes < most and not self._effort.is_over():
            return True
        if self.ctx.given is not None:  # then nobody knows what comes out
            raise NotModelled(_AGAIN[op])
        self.is_cut_short = True
        on, self.f.state = self.f.state, state
        calls = (call for action in self.model.actions for call in action.json["primitives"])
        self.ctx.at = next((call for call in calls if call["op"].startswith(op)), None)
        self.ctx.note_fault(f"endless loop: {_AGAIN[op]}", TRUE, stops=True)
        often = f" more than {most} times" if most else ""
        self.ctx.give_up(f"{_AGAIN[op]} are not followed{often}", is_replayed=True)
        self.f.state = on
        return False

    def _start_over(
        self, result: Execution, way: Way, before: State, how: tuple[int, int, int, list[tuple[Value, list[Value]]]]
    ) -> None:
        """Follow packets that come to the parser again. `how`: where the number of the list of fields is, the type of
        instance, how many bytes of what was parsed are gone, and the headers that stand there in their place."""
        place, kind, gone, headers = how
        op = "resubmit" if place == phv.RESUBMIT else "recirculate"
        if self.ctx.proves or not self._may_go_on(way, before, op, self._most_passes):
            return
        ctx, f = self.ctx, self.f
        there = concatenated([const(1, 0), *(valid for valid, _ in headers), const(1, 0)])
        base = replace(way, state=before)
        for one, number in self.parser.values(base, there, "the headers of a packet that recirculates", _MOST_SHAPES):
            chosen = [values for at, (_, values) in enumerate(headers) if number >> (len(headers) - at) & 1]
            packet = Packet([value for values in chosen for value in values], way.packet, 8 * gone)
            size = packet.bits // 8
            fresh = State(one.state.conditions, {}, dict(before.writes), paths=before.paths)
            start = Way(fresh, way.findings, packet, way.port, way.names,
                        least=size + max(way.least - gone, 0), most=size + way.most - gone,
                        passes=way.passes + 1)  # fmt: skip
            f.state = before
            fields = ctx.fixed(place)
            f.state = way.state
            length = f.op("add", ctx.fixed(phv.INGRESS_LENGTH), const(32, size - gone & 0xFFFFFFFF))
            f.state = start.state
            with ctx.giving_up():
                keep(ctx, before, fields)
            ctx.set_fixed(phv.INSTANCE_TYPE, const(32, kind))
            self.parser.set_length(length)
            for each in list(self.parser.ways(start, _MOST_SHAPES)):
                if self._effort.is_over():
                    way.findings.not_followed.add("the time is over")
                    return
                self._run(result, each)

    def _run_egress(self, result: Execution, way: Way, port: Value) -> None:
        ctx, f = self.ctx, self.f
        for place, name, bits in _TIMES:
            value = ctx.variable(name, bits, free=True)
            ctx.set_fixed(place, value)
            if name == WAITS and not ctx.proves and ctx.given is None:  # what holds for any time holds for none, too
                ctx.always(term_of(value) == 0)
        for place in (phv.ENQ_QDEPTH, phv.DEQ_QDEPTH):  # 0 for a packet that comes alone
            ctx.set_fixed(place, ctx.variable(WAITS, 32) if ctx.proves else const(32, 0))
        if self.reads_waiting and not ctx.proves:
            ctx.findings.not_followed.add("packets that wait in queues")
        ctx.set_fixed(phv.EGRESS_PORT, port)
        ctx.set_fixed(phv.EXITED, const(32, 0))
        ctx.set_fixed(phv.PACKET_LENGTH, ctx.fixed(phv.LENGTH_REGISTER))
        for place in (phv.EGRESS_SPEC, phv.CLONE_SESSION, phv.CLONE_FIELDS):
            ctx.set_fixed(place, const(32, 0))
        self._egress.run()
        self._clone(result, way, None, phv.TYPE_EGRESS_CLONE)
        nothing = f.compare("ne", f.load(8, f.at("%phv", ctx.layout.drop_flag)), const(8, 0))
        ctx.when(nothing, lambda: ctx.set_fixed(phv.EGRESS_SPEC, ctx.drop_port()))
        self._drop(result, f.compare("eq", ctx.fixed(phv.EGRESS_SPEC), const(32, phv.DROP_PORT)))
        if not self.f.state.dead:
            self._deparse(result, way, port)

    # -- the deparser

    def _deparse(self, result: Execution, way: Way, port: Value) -> None:
        ctx = self.ctx
        with ctx.giving_up():
            update_checksums(ctx)
        order, primitives = deparser_of(self.model, "deparser")
        run_calls(ctx, primitives, "deparser")
        headers: list[tuple[Value, list[Value]]] = []
        for name in order:
            ref = ctx.header(name)
            valid = ctx.is_valid(ref)
            branches = self.f.state.branches(*either(valid), [f"{name} is valid", f"{name} is not valid"])
            ctx.reach((STATEMENT, f"deparser emit {name}", ""), branches[0])
            if valid.const != 0 and not ctx.proves:
                with ctx.giving_up():
                    headers.append((valid, ctx.on_the_wire(ref, ref.type.fields)))
        again = self._fork(self._is_set(phv.RECIRCULATE), "recirculate")
        rest, truncate = way.packet.rest(8 * way.at), ctx.fixed(phv.TRUNCATE)
        result.end(self.f.state)
        result.outputs.append(Output(self.f.state.conditions, port, headers, rest, truncate))
        self._start_over(result, way, again, (phv.RECIRCULATE, phv.TYPE_RECIRCULATION, way.at, headers))
