# SPDX-License-Identifier: Apache-2.0
"""Code for the memory of the switch: counters, meters, registers, the source of random numbers."""

from __future__ import annotations

from detour.engine import phv
from detour.engine.compiler.ir import Function, Module, Value, const
from detour.engine.compiler.layout import container
from detour.engine.compiler.model import Array, Json
from detour.engine.compiler.runtime import runtime
from detour.engine.compiler.slots import COUNTER_USED, METER_WORDS, NOW, Slots
from detour.engine.compiler.tracing import RecordWriter


class SwitchMemory:
    """The part of `FunctionContext` that symbolic execution has something else for."""

    f: Function
    module: Module
    slots: Slots
    trace: RecordWriter | None

    def slot(self, index: int) -> str:
        """The pointer in a slot of the state block."""
        return self.f.load_pointer(self.f.at("%sw", 8 * index))

    def word(self, index: int) -> Value:
        """The word in a slot of the state block."""
        return self.f.load(64, self.f.at("%sw", 8 * index), 8)

    def fixed(self, offset: int, bits: int = 32) -> Value:
        """A number in the fixed part of the PHV."""
        return self.f.load(bits, self.f.at("%phv", offset), 4)

    def in_bounds(self, index: Value, array: Array) -> Value:
        """i1: an array has an element with that index, i64."""
        return self.f.compare("ult", index, const(64, array.size))

    def count(self, array: Array, index: Value) -> None:
        """Count the packet in a counter."""
        slot = self.slots.counters[array.name]
        self.f.store(const(64, 1), self.f.at("%sw", 8 * (slot + COUNTER_USED)), 8)
        at = self.f.at(self.slot(slot), self.f.shl(index, 4))
        self.count_at(at, self.f.at(at, 8))

    def count_at(self, packets_at: str, bytes_at: str) -> None:
        """Add one packet and its ingress length."""
        f = self.f
        f.store(f.op("add", f.load(64, packets_at, 8), const(64, 1)), packets_at, 8)
        size = f.resize(self.fixed(phv.INGRESS_LENGTH), 64)
        f.store(f.op("add", f.load(64, bytes_at, 8), size), bytes_at, 8)

    def meter(self, array: Array, index: Value) -> Value:
        """Run a meter; the colour, i32."""
        offset = self.f.op("mul", index, const(64, 8 * METER_WORDS))
        return self.meter_at(self.f.at(self.slot(self.slots.meters[array.name]), offset), array.unit)

    def meter_at(self, row: str, unit: str) -> Value:
        """Run the meter in that row; the colour, i32."""
        now = self.word(NOW)
        amount = const(64, 1) if unit == "packets" else self.f.resize(self.fixed(phv.INGRESS_LENGTH), 64)
        return self.f.call(32, runtime(self.module, "meter"), [row, now, amount])

    def load_register(self, array: Array, index: Value) -> Value:
        at, size = self._register(array, index)
        return self.f.resize(self.f.load(8 * size, at, min(size, 8)), array.bits)

    def store_register(self, array: Array, index: Value, value: Value) -> None:
        at, size = self._register(array, index)
        self.f.store(self.f.resize(value, 8 * size), at, min(size, 8))

    def _register(self, array: Array, index: Value) -> tuple[str, int]:
        """Address and size of a register."""
        size = container(array.bits)
        return self.f.at(self.slot(self.slots.registers[array.name]), self.f.op("mul", index, const(64, size))), size

    def random(self, low: Value, high: Value, call: Json) -> Value:
        """A random number from low to high, all i64."""
        f = self.f
        r = f.call(64, runtime(self.module, "random"), ["%sw"])
        span = f.op("add", f.op("sub", high, low), const(64, 1))
        scaled = f.op("mul", f.resize(r, 128), f.resize(span, 128))
        part = f.resize(f.lshr(scaled, 64), 64)
        if self.trace:
            part = self.trace.choice(f, "random", part, span, call)
        return f.op("add", low, f.select(f.compare("eq", span, const(64, 0)), r, part))
