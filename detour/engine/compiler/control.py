# SPDX-License-Identifier: Apache-2.0
"""Ingress and egress: tables, conditions and direct calls as a graph of basic blocks."""

from __future__ import annotations

from detour.engine import phv
from detour.engine.compiler import intrinsics, slots, trail
from detour.engine.compiler import traced_steps as steps
from detour.engine.compiler.actions import run_action
from detour.engine.compiler.calculations import hash_of
from detour.engine.compiler.context import CONTROL, CompilationUnit, FunctionContext
from detour.engine.compiler.covering import TABLE_OUTCOME
from detour.engine.compiler.expressions import boolean
from detour.engine.compiler.ir import FALSE, Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.lookup import lookup_function, pack_key
from detour.engine.compiler.model import ActionIr, ActionProfileIr, Json, PipelineIr, TableIr, refuse
from detour.engine.compiler.slots import key_layout, record_head
from detour.engine.compiler.values import store

_NO_ACTION = "NoAction"
"""what a table does by default, which BMv2 JSON does not say of indirect ones"""


def write_pipeline(program: CompilationUnit, name: str) -> None:
    """Write the function `ingress` or `egress`: (sw, phv) -> 0."""
    ctx = FunctionContext(program, f"i64 @{program.prefix}{name}{CONTROL}")
    f = ctx.f
    ctx.make_frame(name)
    ctx.set_fixed(phv.EXITED, const(32, 0))
    # The switch's clock goes forward to the packet's timestamp.
    clock = f.at("%sw", 8 * slots.NOW)
    timestamp = phv.INGRESS_GLOBAL_TIMESTAMP if name == "ingress" else phv.EGRESS_GLOBAL_TIMESTAMP
    before, now = f.load(64, clock, 8), ctx.fixed(timestamp, 64)
    f.store(f.select(f.compare("ugt", now, before), now, before), clock, 8)
    if name == "egress":
        # As simple_switch: the length as changed so far, a port that is not the drop port, no clone yet.
        ctx.set_fixed(phv.PACKET_LENGTH, ctx.fixed(phv.LENGTH_REGISTER))
        beside = f.op("and", f.op("add", ctx.drop_port(), const(32, 1)), const(32, 0x1FF))
        ctx.set_fixed(phv.EGRESS_SPEC, beside)
        ctx.set_fixed(phv.CLONE_SESSION, const(32, 0))
        ctx.set_fixed(phv.CLONE_FIELDS, const(32, 0))
    intrinsics.before_control(ctx, name)
    _Graph(ctx, program.model.pipelines[name]).write()
    intrinsics.after_control(ctx, name)
    if name == "egress":
        # A packet truncated to nothing is dropped.
        nothing = f.compare("ne", f.load(8, f.at("%phv", ctx.layout.drop_flag)), const(8, 0))
        ctx.when(nothing, lambda: ctx.set_fixed(phv.EGRESS_SPEC, ctx.drop_port()))
    f.ret(const(64, 0))


class _Graph:
    """One pipeline; every node is a block, in the order in which the JSON reaches them."""

    def __init__(self, ctx: FunctionContext, pipeline: PipelineIr) -> None:
        self.ctx, self.pipeline = ctx, pipeline
        self.end = ctx.f.block("end")
        self.labels: dict[str, str] = {}
        self.queue: list[str] = []

    def label(self, name: str | None) -> str:
        """Return where a node's block is; null is the end of the pipeline."""
        if name is None:
            return self.end
        if name not in self.labels:
            self.labels[name] = self.ctx.f.block("node")
            self.queue.append(name)
        return self.labels[name]

    def write(self) -> None:
        f = self.ctx.f
        f.jump(self.label(self.pipeline.init))
        while self.queue:
            name = self.queue.pop(0)
            f.enter(self.labels[name])
            if name in self.pipeline.tables:
                self._table(self.pipeline.tables[name])
            elif name in self.pipeline.conditionals:
                self._condition(self.pipeline.conditionals[name])
            elif name in self.pipeline.calls:
                self._call(self.pipeline.calls[name])
            else:
                raise refuse(f"there is no table or condition '{name}'")
        f.enter(self.end)

    def _condition(self, c: Json) -> None:
        yes, no = self.label(c.get("true_next")), self.label(c.get("false_next"))
        value = boolean(self.ctx, c["expression"])
        if self.ctx.trace:
            self.ctx.trace.record(self.ctx.f, "branch", [("value", value)], at=c, name=c["name"])
        if self.ctx.cover:
            self.ctx.cover.decided(self.ctx.f, value, c["name"], c)
        self.ctx.f.branch(value, yes, no)

    def _call(self, call: Json) -> None:
        action = next((a for a in self.ctx.model.actions if a.id == call["action_id"]), None)
        if action is None:
            raise refuse(f"there is no action with id {call['action_id']}", call)
        if action.params:
            raise refuse(f"action '{action.name}' is called without arguments", call)
        self._run(action, None, self.label(call.get("next_node")))

    def _run(self, action: ActionIr, arguments: str | None, to: str, table: TableIr | None = None) -> None:
        """Run an action and go on, to the end if it exits."""
        ctx, f = self.ctx, self.ctx.f
        if ctx.trace and table and arguments is not None:
            steps.action(ctx, action, arguments, table)
        if ctx.cover and table:
            ctx.cover.reached(f, TABLE_OUTCOME, table.name, action.name, table.json)
        run_action(ctx, action, arguments)
        if any(p["op"] == "exit" for p in action.json["primitives"]):
            f.branch(f.compare("ne", ctx.fixed(phv.EXITED), const(32, 0)), self.end, to)
        else:
            f.jump(to)

    # -- tables

    def _table(self, table: TableIr) -> None:
        if table.is_statement:
            assert table.default is not None
            self._run(table.default.action, None, self._followers(table, table.default.action)[1])
            return
        ctx, f = self.ctx, self.ctx.f
        base = ctx.slot(ctx.slots.tables[table.name] + slots.RECORDS)
        record, hit = base, FALSE
        if table.key:
            record = self._look_up(table, base)
            hit = Value(1, f.value(f"icmp ne ptr {record}, {base}"))
            ctx.when(hit, lambda: self._on_hit(table, record, base))
        if ctx.trace:
            steps.lookup(ctx, table, record, base, hit)
        if ctx.cover:
            ctx.cover.looked_up(f, hit, table.name, table.json)
        if table.profile:
            self._indirect(table, table.profile, record, hit)
        else:
            arguments = f.at(record, 8 * record_head(table))
            self._dispatch(table, f.load(32, f.at(record, 8 * slots.ACTION), 8), arguments, hit)

    def _look_up(self, table: TableIr, base: str) -> str:
        """The record that matches, else the one at `base`. For an empty table, as most of a fabric's are, not even the
        key is put together."""
        ctx, f = self.ctx, self.ctx.f
        match = f.alloca("ptr")

        def search() -> None:
            words = pack_key(ctx, table, key_layout(table.key))
            args = ", ".join(["ptr %sw", *(w.typed for w in words)])
            record = f.value(f"call ptr @{lookup_function(ctx.program, table)}({args})")
            f.line(f"store ptr {record}, ptr {match}, align 8")

        f.line(f"store ptr {base}, ptr {match}, align 8")
        filled = ctx.word(ctx.slots.tables[table.name] + slots.GROUP_COUNT)
        ctx.when(f.compare("ne", filled, const(64, 0)), search)
        return f.load_pointer(match)

    def _on_hit(self, table: TableIr, record: str, base: str) -> None:
        ctx, f = self.ctx, self.ctx.f
        if table.support_timeout:
            f.store(f.load(64, f.at("%sw", 8 * slots.NOW), 8), f.at(record, 8 * slots.TOUCHED), 8)
        if table.with_counters:
            at = 8 * slots.entry_counter(table)
            ctx.count_at(f.at(record, at), f.at(record, at + 8))
        if table.direct_meter:
            array = ctx.model.meters[table.direct_meter]
            row = steps.row_of(f, table, record, base)
            meters = ctx.slot(ctx.slots.tables[table.name] + slots.METERS)
            colour = ctx.meter_at(f.at(meters, f.op("mul", row, const(64, 8 * slots.METER_WORDS))), array.unit)
            assert array.target is not None
            ref = ctx.header(array.target[0])
            store(ctx, ref, find_field(ref.header, array.target[1]), colour)
            if ctx.trace:
                values = [("colour", colour)]
                ctx.trace.record(f, "extern_call", values, at=table.json, extern="direct_meter", of=array.name)

    def _followers(self, table: TableIr, action: ActionIr | None) -> tuple[str, str]:
        """Return where the pipeline goes after an action of the table, or none: on a hit and on a miss."""
        return self.label(table.next_node(action, hit=True)), self.label(table.next_node(action, hit=False))

    def _dispatch(self, table: TableIr, number: Value, arguments: str, hit: Value) -> None:
        """Run the action with that number; none (an indirect table's missing default) goes on at once."""
        f = self.ctx.f
        forks: list[tuple[str, str, str]] = []
        blocks = {a.name: f.block("action") for a in table.actions}
        cases = {a.index: blocks[a.name] for a in table.all_actions if a.name in blocks}
        nothing = f.block("no_action")
        f.switch(number, nothing, cases.items())
        for action in {a.name: a for a in reversed(table.actions)}.values():
            f.enter(blocks[action.name])
            yes, no = self._followers(table, action)
            if yes != no and hit.const is None:
                forks.append((f.block("hit_or_miss"), yes, no))
                yes = forks[-1][0]
            self._run(action, arguments, no if hit.const == 0 else yes, table)
        f.enter(nothing)
        self._skip(table, hit)
        for here, yes, no in forks:
            f.enter(here)
            f.branch(hit, yes, no)

    def _skip(self, table: TableIr, hit: Value) -> None:
        """Go on after a table that runs no action."""
        yes, no = self._followers(table, None)
        if yes == no:
            self.ctx.f.jump(yes)
        else:
            self.ctx.f.branch(hit, yes, no)

    def _indirect(self, table: TableIr, profile: ActionProfileIr, record: str, hit: Value) -> None:
        """Follow a record to its member, through a group if the table has a selector."""
        ctx, f = self.ctx, self.ctx.f
        slot = ctx.slots.profiles[profile.name]
        where = f.load(32, f.at(record, 8 * slots.ACTION), 8)
        member = f.alloca("i64")
        f.store(f.resize(where, 64), member, 8)
        empty, run = f.block("empty"), f.block("member")
        # NO_ACTION_ID: no default was set.
        unset = f.block("default") if any(a.name == _NO_ACTION for a in table.actions) else empty
        f.branch(f.compare("eq", where, const(32, -1)), unset, some := f.block("set"))
        f.enter(some)
        if profile.selector:
            group = f.compare("ne", f.load(32, f.at(record, 8 * slots.ACTION + 4), 4), const(32, 0))
            choose = f.block("choose")
            f.branch(group, choose, run)
            f.enter(choose)
            self._choose(profile, slot, where, member, empty)
        f.enter(run)
        words = 1 + max((a.words for a in profile.actions.values()), default=0)
        if ctx.trace:
            ctx.trace.record(f, "member", [("member", f.load(64, member, 8))], profile=profile.name)
        row = f.op("mul", f.load(64, member, 8), const(64, 8 * words))
        at = f.at(ctx.slot(slot + slots.MEMBERS), row)
        trail.leave(f, ctx.slots, at)
        self._dispatch(table, f.load(32, at, 8), f.at(at, 8), hit)
        if unset != empty:
            f.enter(unset)
            if ctx.cover:
                ctx.cover.reached(f, TABLE_OUTCOME, table.name, _NO_ACTION, table.json)
        f.enter(empty)
        self._skip(table, hit)

    def _choose(self, profile: ActionProfileIr, slot: int, group: Value, member: str, empty: str) -> None:
        """Member hash % size of the group, as BMv2: the hash is cut to 32 bits first. A group's only member needs no
        hash."""
        ctx, f, selector = self.ctx, self.ctx.f, profile.selector
        assert selector is not None
        row = f.at(ctx.slot(slot + slots.PROFILE_GROUPS), f.shl(f.resize(group, 64), 4))
        trail.leave(f, ctx.slots, row)
        size = f.load(64, f.at(row, 8), 8)
        some = f.block("some")
        f.branch(f.compare("eq", size, const(64, 0)), empty, some)
        f.enter(some)
        number = f.variable(64)

        def draw() -> None:
            h = hash_of(ctx, selector.algorithm, selector.inputs)
            n = f.raw("urem", f.resize(h, 32), f.resize(size, 32))
            if ctx.trace:
                facts = {"profile": profile.name, "algorithm": selector.algorithm}
                n = ctx.trace.choice(f, "selector", f.resize(n, 64), size, **facts)
            f.store(f.resize(n, 64), number, 8)

        if ctx.trace or selector.algorithm == "random":  # it moves the switch's generator on
            draw()
        else:
            ctx.when(f.compare("ne", size, const(64, 1)), draw)
        at = f.op("add", f.load(64, row, 8), f.load(64, number, 8))
        listed = f.at(ctx.slot(slot + slots.GROUP_MEMBERS), f.shl(at, 3))
        trail.leave(f, ctx.slots, listed)
        f.store(f.load(64, listed, 8), member, 8)
