# SPDX-License-Identifier: Apache-2.0
"""Packets through the program of a table, and the arrays that they index."""

from __future__ import annotations

from typing import Any

from detour.engine import phv
from detour.engine.tables import MeterRates, TableError
from tests.fuzz.table_program import INDEX_BITS, MEMBER_BITS, Key
from tests.fuzz.tried import Tried


class Traffic:
    """Compares what happens with what should."""

    def __init__(self, tried: Tried) -> None:
        self._tried = tried
        self._register: dict[int, int] = {}
        self._counted: dict[int, int] = {}

    def arrays(self) -> None:
        """The control plane's side of register, counter and meter, in and out of bounds."""
        tried = self._tried
        state, size = tried.runner.state, tried.layout.array_size
        register, counter, meter = state.registers["r"], state.counters["c"], state.meters["b"]
        index = tried.rng.choice((-1, size, size + 1, 1 << 32, 1 << 70))
        rates = MeterRates(1.0, 1, 2.0, 1)
        for call in (
            lambda: register.read(index),
            lambda: register.write(index, 1),
            lambda: counter.read(index),
            lambda: counter.write(index, 1, 1),
            lambda: meter.configure(index, rates),
            lambda: meter.config(index),
        ):
            tried.refused(TableError, call, f"index {index} of {size}")
        if size:
            index, value = tried.rng.randrange(size), tried.rng.getrandbits(300)
            register.write(index, value)
            self._register[index] = value & ((1 << tried.layout.register_bits) - 1)
            meter.configure(index, tried.rng.choice((rates, None, MeterRates(0.0, 0, 0.0, 0))))

    def _packet(self) -> dict[str, int]:
        """Fields of a packet; often near an entry's key."""
        tried = self._tried
        packet = {k.name: tried.value(k) for k in tried.layout.keys}
        if tried.expected.rows and tried.rng.random() < 0.6:
            row = tried.expected.rows[tried.rng.choice(list(tried.expected.rows))]
            for k, element in zip(tried.layout.keys, row.key, strict=True):
                packet[k.name] = self._near(k, element)
        size = tried.layout.array_size
        packet["member"] = tried.rng.getrandbits(MEMBER_BITS)
        index = tried.rng.choice((0, -1, size - 1, size, 1 << 31, 1 << 32, tried.rng.randrange(size + 1)))
        packet["index"] = index & ((1 << INDEX_BITS) - 1)
        packet["value"] = tried.rng.getrandbits(tried.layout.register_bits)
        return packet

    def _near(self, k: Key, element: Any) -> int:
        tried = self._tried
        full = (1 << k.bits) - 1
        noise = tried.rng.choice((0, 0, 0, 1 << tried.rng.randrange(k.bits), tried.rng.getrandbits(k.bits)))
        if k.kind == "lpm":
            return element[0] ^ (noise & (full >> element[1]))
        if k.kind == "range":
            edges = (element[0] - 1, element[0], element[1], element[1] + 1, tried.rng.randint(*element))
            return tried.rng.choice(edges) & full
        if k.kind == "exact" or isinstance(element, int):
            return element ^ (noise if tried.rng.random() < 0.2 else 0)
        value, mask = element or (0, 0)
        return value ^ (noise & ~mask & full)

    def packets(self, count: int) -> None:
        """Sends packets and compares what became of them."""
        tried = self._tried
        tried.board.beat()
        for _ in range(count):
            self._look(self._packet())
            tried.lookups += 1

    def _look(self, packet: dict[str, int]) -> None:
        tried = self._tried
        runner = tried.runner
        data = self._bytes(packet)
        runner.start(data)
        runner.ingress(runner.state.sw, runner.phv.ctypes.data)
        if runner.fixed(phv.PARSER_ERROR) or runner.fixed(phv.PAYLOAD_OFFSET) != len(data):
            tried.fail("the packet was not parsed")
        row = tried.expected.hit(packet)
        target = tried.expected.default if row is None else row.target
        expected = tried.expected.result(target, packet["member"])
        got = runner.get("m.result")
        if got != expected:
            where = "the default" if row is None else f"entry {row}"
            tried.fail(f"{packet} gave {got}, expected {expected} of {where}")
        if row is not None:
            row.hits += 1
        self._check_arrays(packet, len(data))

    def _check_arrays(self, packet: dict[str, int], length: int) -> None:
        """The packet read and wrote the register, and counted, if its index was in bounds."""
        tried = self._tried
        state, index = tried.runner.state, packet["index"] & 0xFFFFFFFF
        inside = index < tried.layout.array_size
        read = tried.runner.get("m.read")
        if read != (self._register.get(index, 0) if inside else 0):
            tried.fail(f"register {index} read as {read}, expected {self._register.get(index, 0)}")
        if not inside:
            return
        self._register[index] = packet["value"]
        self._counted[index] = self._counted.get(index, 0) + 1
        if state.registers["r"].read(index) != packet["value"]:
            tried.fail(f"register {index} is {state.registers['r'].read(index)}, expected {packet['value']}")
        if state.counters["c"].read(index) != (self._counted[index], self._counted[index] * length):
            tried.fail(f"counter {index} is {state.counters['c'].read(index)}, expected {self._counted[index]} packets")

    def _bytes(self, packet: dict[str, int]) -> bytes:
        tried = self._tried
        whole = bits = 0
        for name, width in tried.layout.fields:
            whole, bits = whole << width | packet.get(name, 0), bits + width
        return whole.to_bytes(bits // 8, "big")
