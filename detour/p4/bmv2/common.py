# SPDX-License-Identifier: Apache-2.0
"""Common parts of the three architectures: pipelines, deparsers, and what tables have attached to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from detour.p4 import core, ir
from detour.p4.bmv2.externs import ExternCall, Handler, Primitive, algorithm, argument, member_of, size_of
from detour.p4.bmv2.values import call as call_of
from detour.p4.elaborate import Block as Instance
from detour.p4.ir import Json, Named
from detour.p4.lower.builder import simplify
from detour.p4.lower.calls import declare_locals
from detour.p4.lower.context import NOTHING, Context, Frame
from detour.p4.lower.places import Operand, Place
from detour.p4.lower.tables import lower_unreached


def _verify(call: ExternCall) -> None:
    if not call.ctx.parsing:
        raise call.refuse("BMv2 does not have the function verify here")
    call.ctx.call("verify", *(call.ctx.scalar(value) for value in call.values))


class Target:
    """Base of the architectures."""

    SWITCH = "BMv2"
    FUNCTIONS: ClassVar[dict[str, Handler]] = {
        "verify": _verify,
        "static_assert": lambda _: ir.Truth(True),
        "assert": Primitive("assert", argument(0)),
        "assume": Primitive("assume", argument(0)),
    }
    METHODS: ClassVar[dict[tuple[str, str], Handler]] = {}
    PROPERTIES: ClassVar[frozenset[str]] = frozenset()
    """Properties of tables that name objects."""
    TIMEOUTS: ClassVar[frozenset[str]] = frozenset()
    """Properties of tables that say whether entries time out."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}
        """Tables of direct counters."""
        self.profiles: dict[str, Json] = {}
        self.profile_list: list[Json] = []
        """Action profiles of the pipeline."""

    def build(self, ctx: Context, main: Instance) -> None:
        """Lower the parsers and controls of the package."""
        raise NotImplementedError

    # -- controls

    def laid_out(self, ctx: Context, parameter: core.Variable, root: str, prefix: str = "") -> Place:
        """Headers or metadata of the user. Names of their parts begin with the prefix."""
        kind, storage = parameter.type, ctx.storage
        return storage.place(kind, (root, prefix), str(kind), prefix, parameter.span, storage.unique)

    def pipeline(self, ctx: Context, name: str, block: Instance) -> None:
        before = len(ctx.tables)
        ctx.unreached.clear()
        entry = self.control_body(ctx, block)
        lower_unreached(ctx)
        tables = [each.table for each in list(ctx.tables.values())[before:]]
        ctx.program.pipelines.append(ir.Pipeline(name, block.declaration.span, entry, tables, self.profile_list))
        self.profile_list = []

    def control_body(self, ctx: Context, block: Instance) -> ir.Block:
        """The graph of a control of the architecture, whose parameters are bound."""
        control = block.declaration
        assert isinstance(control, core.Control)
        ctx.instance = block
        entry, end = ir.Block(), ir.Block()
        ctx.pipeline_end = end
        ctx.builder.enter(entry)
        with ctx.frame(Frame(end)):
            declare_locals(ctx, control.locals)
            if control.body is not None:
                ctx.execute(control.body)
        ctx.builder.goto(end)
        return entry

    def straight(
        self, ctx: Context, block: Instance, text: str, hint: str = "", *, is_empty: bool = False
    ) -> list[ir.Call]:
        """The calls of a control without branches and tables. Raises `CompileError`: it is not such a control, or does
        more than to declare objects (`is_empty`), which `text` says.
        """
        entry = self.control_body(ctx, block)
        simplify(entry)
        unwanted = entry.calls if is_empty else []
        if unwanted or type(entry.end) is not ir.End:
            spans = [*(each.span for each in unwanted), entry.end.span, block.declaration.span]
            raise ctx.refuse(next(span for span in spans if span.file.name), text, hint)
        return entry.calls

    def deparser(self, ctx: Context, name: str, block: Instance) -> None:
        """The order of headers, and primitives that run before they are written."""
        text = "a deparser on BMv2 can only emit headers and call primitives, without conditions or tables"
        calls = self.straight(ctx, block, text, "emit writes a header only if it is valid: make it invalid in egress")
        headers = [each.arguments[0] for each in calls if each.op == "emit"]
        order = [header.name for header in headers if isinstance(header, Named)]
        primitives = [call_of(each) for each in calls if each.op != "emit"]
        ctx.program.add("deparsers", name, block.declaration.span, order=order, primitives=primitives)

    # -- externs

    def function(self, ctx: Context, e: core.CallFunction) -> Operand:
        handler, name = self.FUNCTIONS.get(e.function.name), f"the function {e.function.name} here"
        return self._call("BMv2", name, handler, ExternCall(ctx, self, e))

    def method(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        name = receiver.declaration.name, e.method.name
        return self._call(self.SWITCH, ".".join(name), self.METHODS.get(name), ExternCall(ctx, self, e, receiver))

    @staticmethod
    def _call(switch: str, name: str, handler: Handler | None, call: ExternCall) -> Operand:
        if handler is None:
            raise call.refuse(f"{switch} does not have {name}")
        operand = handler(call)
        return NOTHING if operand is None else operand

    # -- tables

    def table(self, ctx: Context, table: core.Table, lowered: ir.Table) -> None:
        for name, expression in table.properties.items():
            value = ctx.instance.value(expression)
            if name in self.TIMEOUTS:
                is_on = name == "support_timeout" and isinstance(value, core.Literal) and bool(value.value)
                lowered.attributes["support_timeout"] = is_on or member_of(value) in ("NOTIFY_CONTROL", "AUTO_DELETE")
            elif name in self.PROPERTIES and isinstance(value, Instance):
                attach = _ATTACHED.get(value.declaration.name.lower().replace("_", ""))
                if attach is not None:
                    attach(self, ctx, table, lowered, value)

    def attach_counter(self, ctx: Context, table: core.Table, lowered: ir.Table, counter: Instance) -> None:
        if self.bound.setdefault(counter.name, lowered.name) != lowered.name:
            raise ctx.refuse(counter.node.span, f"direct counter {counter.name} belongs to two tables")
        lowered.attributes["with_counters"] = True
        ctx.program.add("counter_arrays", counter.name, counter.node.span, is_direct=True, binding=lowered.name)

    def attach_meter(self, ctx: Context, table: core.Table, lowered: ir.Table, meter: Instance) -> None:
        """Only simple_switch has direct meters."""

    def attach_profile(self, ctx: Context, table: core.Table, lowered: ir.Table, profile: Instance) -> None:
        """Make a table one whose entries name members or groups of a profile."""
        is_selector = "selector" in profile.declaration.name.lower()
        lowered.attributes |= {"type": "indirect_ws" if is_selector else "indirect", "action_profile": profile.name}
        lowered.attributes.pop("default_entry", None)
        inputs = [key.target for key in lowered.keys if key.kind == "selector"]
        known = self.profiles.get(profile.name)
        if known is None:
            first, *rest = profile.arguments.values()
            item: Json = {"name": profile.name, "id": len(self.profiles), "source_info": profile.node.span}
            item["max_size"] = size_of(rest[0] if is_selector else first)
            if is_selector:
                item["selector"] = {"algo": algorithm(member_of(first)), "input": inputs}
            self.profiles[profile.name] = item
            self.profile_list.append(item)
        elif known.get("selector", {}).get("input") != (inputs if is_selector else None):
            text = f"tables that share action selector {profile.name} must have the same keys of kind selector"
            raise ctx.refuse(table.span, text)


_ATTACHED: dict[str, Callable[[Any, Context, core.Table, ir.Table, Instance], None]] = {
    "directcounter": Target.attach_counter,
    "directmeter": lambda target, *rest: target.attach_meter(*rest),
    "actionprofile": Target.attach_profile,
    "actionselector": Target.attach_profile,
}
