# SPDX-License-Identifier: Apache-2.0
"""A program with tracing: the same functions for the loop, each of which decides whether this packet is traced.

`parse` asks the filter in the switch's control block. A packet that is not wanted goes to the plain program's
functions, by address; one that is gets the number of its trace, which the PHV carries from then on, and goes through
the functions that leave records (`tracing.py`). Both compilations have the same layout of PHVs, so a switch changes
between them at any time, and nothing in the loop knows of it.

The PHV of a clone gets its number from `preserve`, and so does a packet that starts over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from detour.engine import phv
from detour.engine.compiler import traced_steps as steps
from detour.engine.compiler import tracing as words
from detour.engine.compiler.context import CONTROL, DEPARSE, PARSE, CompilationUnit, FunctionContext
from detour.engine.compiler.control import write_pipeline
from detour.engine.compiler.deparser import write_deparser, write_digest, write_preserve
from detour.engine.compiler.ir import Function, Value, const
from detour.engine.compiler.parser import write_parser
from detour.engine.compiler.prefetch import write_prefetch
from detour.engine.compiler.slots import TRACE_CONTROL
from detour.engine.compiler.tracing import RecordWriter, pointer

PREFIX = "traced_"
_AT_INGRESS = ("ingress_port", "instance_type", "packet_length", "ingress_global_timestamp")
_AFTER_INGRESS = ("egress_spec", "mcast_grp", "priority")
_AT_EGRESS = (
    *("egress_port", "egress_rid", "instance_type", "packet_length", "priority"),
    *("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth", "egress_global_timestamp"),
)


def write_traced(program: CompilationUnit, tracer: RecordWriter) -> None:
    inner = replace(program, trace=tracer, prefix=PREFIX)
    write_parser(inner)
    write_pipeline(inner, "ingress")
    write_pipeline(inner, "egress")
    write_deparser(inner)
    _parse(program, tracer)
    _control(program, tracer, "ingress", words.PLAIN_INGRESS, (), _AFTER_INGRESS)
    _control(program, tracer, "egress", words.PLAIN_EGRESS, _AT_EGRESS, ("egress_spec",))
    _deparse(program, tracer)
    write_preserve(program, keep_trace=True)
    write_digest(program)
    write_prefetch(program)


class _Dispatcher:
    """One function that calls the plain or the traced one."""

    def __init__(self, program: CompilationUnit, tracer: RecordWriter, name: str, head: str) -> None:
        self.ctx = FunctionContext(program, f"i64 @{name}{head}")
        self.f: Function = self.ctx.f
        self.tracer = tracer
        self.control = self.f.load_pointer(self.f.at("%sw", 8 * TRACE_CONTROL))
        self.id_at = self.f.at("%phv", self.ctx.layout.trace)

    def plain(self, word: int, arguments: str) -> None:
        """Go to the plain function, whose address is in a word of the control block."""
        to = self.f.load_pointer(self.f.at(self.control, 8 * word))
        self.f.ret(Value(64, self.f.value(f"call i64 {to}({arguments})")))

    def only_traced(self, word: int, arguments: str) -> Value:
        """Leave a packet without a number to the plain function; the number of this one."""
        f = self.f
        number = f.resize(f.load(24, self.id_at), 32)
        none, some = f.block("plain"), f.block("traced")
        f.branch(f.compare("eq", number, const(32, 0)), none, some)
        f.enter(none)
        self.plain(word, arguments)
        f.enter(some)
        return number

    def begin(self, function: str, number: Value, values: list[tuple[str, Value]], data: tuple | None = None) -> None:
        """Records that a function begins for a packet."""
        switch = self.f.load(64, self.f.at(self.control, 8 * words.SWITCH_NUMBER), 8)
        first = [("trace", number), ("switch", switch), ("phv", pointer(self.f, "%phv"))]
        self.tracer.record(self.f, "begin", [*first, *values], data, function=function)

    def end(self, function: str, values: list[tuple[str, Value]], data: tuple | None = None) -> None:
        """Record what a function left."""
        self.tracer.record(self.f, "end", values, data, function=function)


def _parse(program: CompilationUnit, tracer: RecordWriter) -> None:
    d = _Dispatcher(program, tracer, "parse", PARSE)
    f, ctx = d.f, d.ctx
    number = f.variable(32)
    again = ctx.starts_over()

    def ask() -> None:
        match = f.load_pointer(f.at(d.control, 8 * words.MATCH))
        arguments = [pointer(f, d.control), pointer(f, "%phv"), pointer(f, "%pkt"), Value(64, "%length")]
        new = f.value(f"call i64 {match}({', '.join(a.typed for a in arguments)})")
        f.store(f.resize(Value(64, new), 32), number, 4)

    # The copy of a packet that becomes a clone is parsed before its length is set; its number comes with `preserve`.
    fresh = f.compare("ne", ctx.fixed(phv.PACKET_LENGTH), const(32, 0))
    ctx.when(again, lambda: f.store(f.resize(f.load(24, d.id_at), 32), number, 4), lambda: ctx.when(fresh, ask))
    none, some = f.block("plain"), f.block("traced")
    f.branch(f.compare("eq", f.load(32, number, 4), const(32, 0)), none, some)
    f.enter(none)
    d.plain(words.PLAIN_PARSE, "ptr %sw, ptr %phv, ptr %pkt, i64 %length")
    f.enter(some)
    values = [("packet", pointer(f, "%pkt")), *steps.standard(ctx, _AT_INGRESS)]
    d.begin("parse", f.load(32, number, 4), values, ("%pkt", Value(64, "%length")))
    f.value(f"call i64 @{PREFIX}parse(ptr %sw, ptr %phv, ptr %pkt, i64 %length)")
    f.store(f.load(24, number, 4), d.id_at)
    d.end("parse", [])
    f.ret(const(64, 0))


def _control(
    program: CompilationUnit, tracer: RecordWriter, name: str, plain: int, before: Sequence[str], after: Sequence[str]
) -> None:
    """Generate the traced form of ingress or egress; `before`, `after`: the standard metadata that is recorded."""
    d = _Dispatcher(program, tracer, name, CONTROL)
    number = d.only_traced(plain, "ptr %sw, ptr %phv")
    d.begin(name, number, steps.standard(d.ctx, before))
    d.f.value(f"call i64 @{PREFIX}{name}(ptr %sw, ptr %phv)")
    d.end(name, [*steps.standard(d.ctx, after), *_decisions(d.ctx)])
    d.f.ret(const(64, 0))


def _decisions(ctx: FunctionContext) -> list[tuple[str, Value]]:
    """Return the program's decisions beside forwarding."""
    names = ("clone_session", "resubmit", "recirculate", "digest", "error")
    places = (phv.CLONE_SESSION, phv.RESUBMIT, phv.RECIRCULATE, phv.DIGEST_LIST, phv.ERROR)
    return [(name, ctx.fixed(at)) for name, at in zip(names, places, strict=True)]


def _deparse(program: CompilationUnit, tracer: RecordWriter) -> None:
    d = _Dispatcher(program, tracer, "deparse", DEPARSE)
    f = d.f
    number = d.only_traced(words.PLAIN_DEPARSE, "ptr %sw, ptr %phv, ptr %out, ptr %payload, i64 %n")
    d.begin("deparse", number, [("payload_at", pointer(f, "%payload"))], ("%payload", Value(64, "%n")))
    count = Value(64, f.value(f"call i64 @{PREFIX}deparse(ptr %sw, ptr %phv, ptr %out, ptr %payload, i64 %n)"))
    values = [("truncate", d.ctx.fixed(phv.TRUNCATE)), ("recirculate", d.ctx.fixed(phv.RECIRCULATE))]
    d.end("deparse", [*values, ("error", d.ctx.fixed(phv.ERROR))], ("%out", count))
    marks = f.load(64, f.at(d.control, 8 * words.MARKS), 8)
    d.ctx.when(f.compare("ne", marks, const(64, 0)), lambda: _mark(d, number))
    f.ret(count)


def _mark(d: _Dispatcher, number: Value) -> None:
    """Notes for the next switch that the packet in this slot of the pool is traced."""
    f = d.f
    offset = f.op("sub", pointer(f, "%payload"), f.load(64, f.at(d.control, 8 * words.POOL_BYTES), 8))
    slot = f.raw("udiv", offset, f.load(64, f.at(d.control, 8 * words.POOL_STRIDE), 8))
    f.store(number, f.at(f.load_pointer(f.at(d.control, 8 * words.MARKS)), f.shl(slot, 2)), 4)
