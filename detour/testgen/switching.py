# SPDX-License-Identifier: Apache-2.0
"""A packet's whole way through the switch, as `loop/switch.py` has it: parser, ingress, what that decided, egress, and
the deparser."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from detour.engine import phv
from detour.engine.compiler.covering import STATEMENT
from detour.engine.compiler.expressions import boolean
from detour.engine.compiler.ir import TRUE, Value, const
from detour.engine.compiler.layout import Layout
from detour.engine.compiler.load import find_field
from detour.engine.compiler.model import Json, Model, find
from detour.engine.compiler.slots import assign_slots
from detour.engine.compiler.values import store
from detour.testgen.anything import anything, operations
from detour.testgen.context import Conditions, Findings, SymbolicContext, either
from detour.testgen.externs import hashed, run_calls
from detour.testgen.parsing import Packet, Parser, Way
from detour.testgen.pipeline import Pipeline
from detour.testgen.state import State, z3
from detour.testgen.terms import term_of


@dataclass
class Output:
    """A frame that leaves, if its conditions hold. `headers`: whether each is there, and its fields; `truncate`: the
    length to which it is cut, 0: not at all. `group`: of multicast, with the copy's number."""

    conditions: Conditions
    port: Value
    headers: list[tuple[Value, list[Value]]]
    truncate: Value
    group: tuple[Value, Value] | None = None


@dataclass
class Execution:
    """All that can become of packets that come one way through the parser."""

    findings: Findings
    packet: Packet
    names: tuple[str, ...]
    payload_at: int
    length: Value
    port: Value
    register_bits: dict[str, int]
    outputs: list[Output] = field(default_factory=list)


Shape = tuple[frozenset[str], str]


class SymbolicSwitch:
    """Executes a program for v1model. `proves`: see `SymbolicContext`."""

    def __init__(
        self, model: Model, fixed: Mapping[str, int], most_ways: int, effort: int, proves: bool = False
    ) -> None:
        self.model = model
        self.ctx = SymbolicContext(model, Layout(model), assign_slots(model), fixed, proves)
        self.f = self.ctx.f
        self.parser = Parser(self.ctx, most_ways, effort)
        self._ingress, self._egress = (Pipeline(self.ctx, model.pipelines[name]) for name in ("ingress", "egress"))

    def shape(self, way: Way) -> Shape:
        """What controls can tell of a way beside the values of fields."""
        memory = way.state.memory
        valid = frozenset(name for name, value in memory.items() if name.endswith("$valid$") and value.const != 0)
        return (frozenset() if way.error else valid), way.error

    def execution(self, way: Way) -> Execution:
        """What becomes of packets that come a way through the parser."""
        self.parser.finish(way)
        ctx = self.ctx
        length, port = ctx.fixed(phv.PACKET_LENGTH), ctx.fixed(phv.INGRESS_PORT)
        bits = {name: array.bits for name, array in self.model.registers.items()}
        result = Execution(way.findings, way.packet, way.names, way.at, length, port, bits)
        self._verify()
        ctx.set_fixed(phv.EXITED, const(32, 0))
        self._ingress.run()
        self._after_ingress(result)
        return result

    def any_packet(self) -> Findings:
        """All that can become of packets, whatever the parser makes of them: what this does not reach no packet does.
        `not_followed` of the result says what may have been left out."""
        ctx = self.ctx
        ctx.findings, self.f.state = Findings(), State()
        uses = operations(self.model)
        again = bool(uses & {"resubmit", "recirculate"})
        anything(ctx, again)
        result = Execution(ctx.findings, Packet(), (), 0, ctx.fixed(phv.PACKET_LENGTH), ctx.fixed(phv.INGRESS_PORT), {})
        self._verify()
        self._ingress.run()
        self._after_ingress(result)
        if any(name.startswith("clone_") for name in uses):
            self.f.state = State()
            anything(ctx, True, all_headers=True)
            self._run_egress(result, self.f.resize(ctx.variable("clone port", 9), 32), None)
        return result.findings

    # -- between ingress and egress

    def _fork(self, condition: Value, text: str) -> State:
        """The state in which a condition holds; execution goes on where it does not."""
        yes, self.f.state = self.ctx.fork_on(condition, [text, f"no {text}"])
        return yes

    def _is_set(self, place: int) -> Value:
        return self.f.compare("ne", self.ctx.fixed(place), const(32, 0))

    def _stop(self, place: int, what: str) -> None:
        """Packets of which the program wants something that is not followed."""
        other = self._fork(self._is_set(place), what)
        if self.ctx.proves:
            return
        on, self.f.state = self.f.state, other
        self.ctx.give_up(f"{what} is not followed")
        self.f.state = on

    def _after_ingress(self, result: Execution) -> None:
        ctx, f = self.ctx, self.f
        if self._is_set(phv.CLONE_SESSION).const != 0 and not ctx.proves:
            ctx.findings.not_followed.add("clones")
        self._stop(phv.RESUBMIT, "resubmit")
        group = self._fork(self._is_set(phv.MCAST_GRP), "multicast")
        self._fork(f.compare("eq", ctx.fixed(phv.EGRESS_SPEC), const(32, phv.DROP_PORT)), "drop")
        if not self.f.state.dead:
            self._run_egress(result, f.resize(f.resize(ctx.fixed(phv.EGRESS_SPEC), 9), 32), None)
        if not group.dead:
            self.f.state = group
            copy, port = ctx.variable("copy", 16), ctx.variable("copy port", 9)
            ctx.always(z3.ULT(term_of(port), phv.DROP_PORT))
            number = f.resize(copy, 32)
            ctx.set_fixed(phv.EGRESS_RID, number)
            ctx.set_fixed(phv.INSTANCE_TYPE, const(32, phv.TYPE_REPLICATION))
            for place in (phv.CLONE_SESSION, phv.CLONE_FIELDS, phv.RECIRCULATE, phv.TRUNCATE):
                ctx.set_fixed(place, const(32, 0))
            self._run_egress(result, f.resize(port, 32), (ctx.fixed(phv.MCAST_GRP), number))

    def _run_egress(self, result: Execution, port: Value, group: tuple[Value, Value] | None) -> None:
        ctx, f = self.ctx, self.f
        for place, bits in ((phv.EGRESS_GLOBAL_TIMESTAMP, 64), (phv.ENQ_TIMESTAMP, 32), (phv.DEQ_TIMEDELTA, 32),
                            (phv.ENQ_QDEPTH, 32), (phv.DEQ_QDEPTH, 32)):  # fmt: skip
            ctx.set_fixed(place, ctx.variable("time", bits, free=True))
        ctx.set_fixed(phv.EGRESS_PORT, port)
        ctx.set_fixed(phv.EXITED, const(32, 0))
        ctx.set_fixed(phv.PACKET_LENGTH, ctx.fixed(phv.LENGTH_REGISTER))
        for place in (phv.EGRESS_SPEC, phv.CLONE_SESSION, phv.CLONE_FIELDS):
            ctx.set_fixed(place, const(32, 0))
        self._egress.run()
        if self._is_set(phv.CLONE_SESSION).const != 0 and not ctx.proves:
            ctx.findings.not_followed.add("clones")
        nothing = f.compare("ne", f.load(8, f.at("%phv", ctx.layout.drop_flag)), const(8, 0))
        ctx.when(nothing, lambda: ctx.set_fixed(phv.EGRESS_SPEC, ctx.drop_port()))
        self._fork(f.compare("eq", ctx.fixed(phv.EGRESS_SPEC), const(32, phv.DROP_PORT)), "drop")
        if not self.f.state.dead:
            result.outputs.append(self._deparse(port, group))

    # -- checksums and the deparser

    def _checksums(self, use: str) -> Iterator[Json]:
        return (c for c in self.model.json.get("checksums") or [] if c.get(use, True))

    def _computed(self, checksum: Json) -> Value:
        calculation = find(self.model.calculations, checksum["calculation"], "calculation", checksum)
        return hashed(self.ctx, calculation["algo"], calculation["input"], checksum)

    def _for_each(self, use: str, run: Callable[[Json], None]) -> None:
        """Runs something for each checksum whose condition holds."""
        for c in self._checksums(use):
            with self.ctx.giving_up():
                condition = boolean(self.ctx, c["if_cond"]) if c.get("if_cond") is not None else TRUE
                if use == "verify":
                    condition = self.f.op("and", self.ctx.is_valid(self.ctx.header(c["target"][0])), condition)
                place = f"{use}_checksum {'.'.join(c['target'])}"
                for conditions in self.f.state.branches(*either(condition), [place, ""])[:1]:
                    self.ctx.reach((STATEMENT, place, ""), conditions)
                self.ctx.when(condition, lambda c=c: run(c))

    def _verify(self) -> None:
        self.ctx.set_fixed(phv.CHECKSUM_ERROR, const(32, 0))

        def check(c: Json) -> None:
            ref = self.ctx.header(c["target"][0])
            spec = find_field(ref.header, c["target"][1])
            have = self.f.resize(self.ctx.load_field(ref, spec), 64, spec.signed)
            wrong = self.f.compare("ne", self._computed(c), have)
            before = self.ctx.fixed(phv.CHECKSUM_ERROR)
            self.ctx.set_fixed(phv.CHECKSUM_ERROR, self.f.op("or", before, self.f.resize(wrong, 32)))

        self._for_each("verify", check)

    def _update(self, c: Json) -> None:
        ref = self.ctx.header(c["target"][0])
        store(self.ctx, ref, find_field(ref.header, c["target"][1]), self._computed(c))

    def _deparse(self, port: Value, group: tuple[Value, Value] | None) -> Output:
        ctx = self.ctx
        self._for_each("update", self._update)
        deparsers = self.model.json.get("deparsers") or []
        chosen: dict[str, Any] = (
            next((d for d in deparsers if d["name"] == "deparser"), deparsers[0]) if deparsers else {}
        )
        run_calls(ctx, chosen.get("primitives") or [], "deparser")
        headers: list[tuple[Value, list[Value]]] = []
        for name in chosen.get("order", ()):
            ref = ctx.header(name)
            valid = ctx.is_valid(ref)
            branches = self.f.state.branches(*either(valid), [f"{name} is valid", f"{name} is not valid"])
            ctx.reach((STATEMENT, f"deparser emit {name}", ""), branches[0])
            if valid.const != 0 and not ctx.proves:
                with ctx.giving_up():
                    headers.append((valid, ctx.header_bits(ref)))
        self._stop(phv.RECIRCULATE, "recirculate")
        return Output(self.f.state.conditions, port, headers, ctx.fixed(phv.TRUNCATE), group)
