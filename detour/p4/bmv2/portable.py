# SPDX-License-Identifier: Apache-2.0
"""What PSA and PNA have in common: their externs are instances of `extern_instances`, and metadata of the architecture
are headers of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detour.p4 import core, ir
from detour.p4.bmv2.common import ALGORITHMS, Target, action_profile, fields_of, register_write
from detour.p4.elaborate import Block as Instance
from detour.p4.ir import Const, Named, Value, Vector
from detour.p4.lower.calls import NOTHING, arguments_of
from detour.p4.lower.context import Context, as_value
from detour.p4.lower.places import Operand, ScalarPlace
from detour.p4.types import Bits, Struct, Type, underlying
from detour.p4.types import Extern as ExternType

_COUNTER_TYPES = {"BYTES": 0, "PACKETS": 1, "PACKETS_AND_BYTES": 2}


class Portable(Target):
    """Base of PSA and PNA."""

    PREFIX = ""
    METADATA: frozenset[str] = frozenset()
    """Structs that the switch itself reads or writes, without the `_t` of their names."""

    def __init__(self) -> None:
        super().__init__()
        self.by_type: dict[Type, Any] = {}

    # -- layout

    def bind_block(self, ctx: Context, block: Instance, headers: int) -> None:
        """Binds the parameters of a parser or control. All blocks share what has the same type; parameter `headers` is
        the struct of headers.
        """
        declaration = block.declaration
        assert isinstance(declaration, core.Parser | core.Control)
        for number, parameter in enumerate(declaration.parameters):
            kind = parameter.type
            if isinstance(kind, ExternType):
                continue
            if kind not in self.by_type:
                self.by_type[kind] = self._place(ctx, parameter, number == headers)
            ctx.bindings[parameter] = self.by_type[kind]

    def _place(self, ctx: Context, parameter: core.Variable, headers: bool) -> Any:
        kind = parameter.type
        name = str(kind).removesuffix("_t")
        if isinstance(kind, Struct) and name in self.METADATA:
            return ctx.storage.metadata(kind, name, str(kind))
        return self.headers(ctx, parameter) if headers else self.metadata(ctx, parameter)

    # -- tables

    def table(self, ctx: Context, table: core.Table, lowered: ir.Table) -> None:
        assert ctx.instance is not None
        prefix = self.PREFIX
        for name, expression in table.properties.items():
            value = ctx.instance.value(expression)
            if name in (f"{prefix}_idle_timeout", "idle_timeout_with_auto_delete"):
                member = value.name if isinstance(value, core.EnumMember) else ""
                lowered.timeouts = member in ("NOTIFY_CONTROL", "AUTO_DELETE")
            elif not isinstance(value, Instance):
                continue
            elif name == f"{prefix}_implementation":
                action_profile(self, ctx, table, lowered, value)
            elif name == f"{prefix}_direct_counter":
                lowered.with_counters = True
                self.bind_counter(ctx, lowered, value)

    # -- externs

    def method(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        handler = _METHODS.get((receiver.declaration.name, e.method.name))
        if handler is None:
            raise ctx.refuse(e.span, f"BMv2 does not have {receiver.declaration.name}.{e.method.name}")
        return handler(self, ctx, e, receiver)

    def extern(self, ctx: Context, receiver: Instance, attributes: list[tuple[str, str, Any]]) -> Named:
        """An instance of an extern, declared when it is used first."""
        if receiver.name not in self.declared:
            self.declared.add(receiver.name)
            item = ctx.program.add("extern_instances", receiver.name, receiver.node.span)
            item["type"] = receiver.declaration.name
            item["attribute_values"] = [{"name": n, "type": kind, "value": value} for n, kind, value in attributes]
        return Named("extern", receiver.name)

    def result(self, ctx: Context, kind: Type) -> ScalarPlace:
        place = ctx.temporary(kind)
        assert isinstance(place, ScalarPlace)
        return place

    def finish(self, ctx: Context, place: ScalarPlace) -> Value:
        ctx.written(place)
        return ctx.read(place)

    def _counter(self, ctx: Context, receiver: Instance) -> Named:
        size, kind = receiver.arguments.values()
        count, member = _number(size), _member(kind)
        if receiver.name not in self.declared:
            ctx.program.add("counter_arrays", receiver.name, receiver.node.span, size=count, is_direct=False)
        number = f"0x{_COUNTER_TYPES.get(member, 0):x}"
        return self.extern(ctx, receiver, [("n_counters", "hexstr", f"0x{count:08x}"), ("type", "hexstr", number)])

    def _count(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        values = arguments_of(ctx, e)
        ctx.call("_Counter_count", self._counter(ctx, receiver), as_value(ctx, values[0] or NOTHING))
        return NOTHING

    def _nothing(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        """Direct counters count by themselves."""
        return NOTHING

    def _execute(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        values = arguments_of(ctx, e)
        size, kind = list(receiver.arguments.values())[:2]
        attributes = [
            *(("is_direct", "hexstr", "0x0"), ("n_meters", "hexstr", f"0x{_number(size):08x}")),
            *(("rate_count", "hexstr", "0x2"), ("type", "string", _member(kind).lower())),
        ]
        meter = self.extern(ctx, receiver, attributes)
        place = self.result(ctx, e.type)
        ctx.call("_Meter_execute", meter, as_value(ctx, values[0] or NOTHING), place.value)
        return self.finish(ctx, place)

    def _register_array(self, ctx: Context, receiver: Instance) -> Named:
        if receiver.name not in self.declared:
            self.declared.add(receiver.name)
            self.register(ctx, receiver, _number(next(iter(receiver.arguments.values()))))
        return Named("register_array", receiver.name)

    def _register_read(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        values = arguments_of(ctx, e)
        array = self._register_array(ctx, receiver)
        place = self.result(ctx, e.type)
        ctx.call("register_read", place.value, array, as_value(ctx, values[0] or NOTHING))
        return self.finish(ctx, place)

    def _register_write(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        return register_write(ctx, e, self._register_array(ctx, receiver))

    def _hash(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        values = arguments_of(ctx, e)
        member = _member(next(iter(receiver.arguments.values())))
        made = self.extern(ctx, receiver, [("algo", "string", ALGORITHMS.get(member, member.lower()))])
        number = 1 if len(values) == 3 else 0
        data, argument = values[number], e.arguments[number]
        assert data is not None
        assert argument is not None
        fields = Vector("field_list", tuple(fields_of(ctx, data, argument.type, copy=False)))
        place = self.result(ctx, e.type)
        if number:
            base, most = as_value(ctx, values[0] or NOTHING), as_value(ctx, values[2] or NOTHING)
            ctx.call("_Hash_get_hash_mod", made, place.value, base, fields, most)
        else:
            ctx.call("_Hash_get_hash", made, place.value, fields)
        return self.finish(ctx, place)

    def _random(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        width = underlying(e.type)
        bits = width.width if isinstance(width, Bits) else 32
        low, high = (Const(_number(value), bits) for value in receiver.arguments.values())
        place = self.result(ctx, e.type)
        ctx.call("modify_field_rng_uniform", place.value, low, high)
        return self.finish(ctx, place)

    def _checksum(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        """InternetChecksum: clear, add, subtract, set_state; get and get_state have a result."""
        values = arguments_of(ctx, e)
        made = self.extern(ctx, receiver, [])
        op = f"_InternetChecksum_{e.method.name}"
        if e.method.name in ("get", "get_state"):
            place = self.result(ctx, e.type)
            ctx.call(op, made, place.value)
            return self.finish(ctx, place)
        if e.method.name == "set_state":
            ctx.call(op, made, as_value(ctx, values[0] or NOTHING))
        elif values and values[0] is not None:
            assert e.arguments[0] is not None
            fields = fields_of(ctx, values[0], e.arguments[0].type, copy=False)
            ctx.call(op, made, Vector("field_list", tuple(fields)))
        else:
            ctx.call(op, made)
        return NOTHING

    def _pack(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        (data,) = arguments_of(ctx, e)
        assert data is not None
        assert e.arguments[0] is not None
        number = self.learn_list(ctx, data, e.arguments[0], receiver.name)
        ctx.call("generate_digest", Const(number))
        return NOTHING

    def function(self, ctx: Context, e: core.CallFunction) -> Operand:
        return self.core_function(ctx, e)


def _number(value: object) -> int:
    return int(value.value) if isinstance(value, core.Literal) else 0


def _member(value: object) -> str:
    return value.name if isinstance(value, core.EnumMember) else ""


Method = Callable[[Portable, Context, core.CallMethod, Instance], Operand]
_METHODS: dict[tuple[str, str], Method] = {
    ("Counter", "count"): Portable._count,
    ("DirectCounter", "count"): Portable._nothing,
    ("Meter", "execute"): Portable._execute,
    ("Register", "read"): Portable._register_read,
    ("Register", "write"): Portable._register_write,
    ("Hash", "get_hash"): Portable._hash,
    ("Random", "read"): Portable._random,
    ("Digest", "pack"): Portable._pack,
    **{
        ("InternetChecksum", name): Portable._checksum
        for name in ("clear", "add", "subtract", "get", "get_state", "set_state")
    },
}
