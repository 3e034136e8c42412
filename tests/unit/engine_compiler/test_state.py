# SPDX-License-Identifier: Apache-2.0
"""Counters, meters, registers, logs, errors."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.engine import phv
from detour.engine.compiler.program import Program
from detour.engine.tables import MeterRates, TableError

from .bitstring import Spec, join, split
from .conftest import PROGRAMS, MiniSwitch, program

OP: Spec = [("op", 8), ("index", 32), ("value", 200), ("colour", 8)]
SIZE = 31


def send(switch: MiniSwitch, op: int, index: int = 0, value: int = 0) -> dict[str, int]:
    ((_, out),) = switch.send(0, join(OP, {"op": op, "index": index, "value": value, "colour": 9}))
    return split(OP, out)


def test_counters_count_packets_and_bytes() -> None:
    switch = MiniSwitch(program("stateful"))
    counter = switch.state.counters["TheIngress.packets"]
    for index in (3, 3, 7, 8, 2**32 - 1):
        send(switch, 0, index)
    assert [counter.read(i) for i in (3, 7, 0)] == [(2, 2 * SIZE), (1, SIZE), (0, 0)]
    counter.write(3, 10, 1000)
    send(switch, 0, 3)
    assert counter.read(3) == (11, 1000 + SIZE)
    with pytest.raises(TableError, match="index 8"):
        counter.read(8)


def test_wide_registers() -> None:
    switch = MiniSwitch(program("stateful"))
    value = (1 << 199) + 12345
    send(switch, 1, 4, value)
    assert send(switch, 2, 4)["value"] == value
    assert switch.state.registers["TheIngress.wide"].values() == [0, 0, 0, 0, value]
    switch.state.registers["TheIngress.wide"].write(0, 77)
    assert send(switch, 2, 0)["value"] == 77
    send(switch, 1, 5, value)
    assert send(switch, 2, 5, 6)["value"] == 6, "a read out of bounds leaves the field alone"


def test_narrow_registers() -> None:
    switch = MiniSwitch(program("stateful"))
    send(switch, 3, 8, 0xFFFF)
    assert switch.state.registers["TheIngress.small"].values() == [0] * 8 + [0x7F]
    assert send(switch, 4, 8)["value"] == 0x7F
    assert send(switch, 4, 9)["value"] == 0
    assert send(switch, 7)["value"] == 0xFFFB


def test_meter_colours_by_two_rates() -> None:
    switch = MiniSwitch(program("stateful"))
    meter = switch.state.meters["TheIngress.slow"]
    assert send(switch, 5, 1)["colour"] == 0, "green while nobody configured it"
    # A tick is a microsecond and every packet takes one tick.
    meter.configure(1, MeterRates(cir=100_000, cburst=2, pir=500_000, pburst=4))
    switch.now = 0
    switch.state.block[0] = 0
    colours = [send(switch, 5, 1)["colour"] for _ in range(12)]
    assert colours == _reference(0.1, 2, 0.5, 4, 1, range(1, 13))
    assert set(colours) == {0, 1, 2}
    config = meter.config(1)
    assert config is not None
    assert (round(config.cir), config.cburst, round(config.pir), config.pburst) == (100_000, 2, 500_000, 4)
    meter.configure(1, None)
    assert meter.config(1) is None
    assert send(switch, 5, 4)["colour"] == 9, "an index out of bounds leaves the field alone"


def _reference(cir: float, cburst: int, pir: float, pburst: int, size: int, times: range) -> list[int]:
    """BMv2's Meter::execute."""
    peak, committed = [pburst, 0], [cburst, 0]
    colours = []
    for now in times:
        colour = 0
        for state, rate, burst, marked in ((peak, pir, pburst, 2), (committed, cir, cburst, 1)):
            total = int(now * rate)
            state[0] = min(state[0] + total - state[1], burst)
            state[1] = total
            if state[0] < size:
                colour = marked
                break
            state[0] -= size
        colours.append(colour)
    return colours


def test_meter_of_bytes() -> None:
    switch = MiniSwitch(program("stateful"))
    switch.state.meters["TheIngress.fast"].configure(0, MeterRates(1e6, 2 * SIZE, 1e7, 3 * SIZE))
    colours = [send(switch, 6, 0)["colour"] for _ in range(8)]
    assert colours == _reference(1.0, 2 * SIZE, 10.0, 3 * SIZE, SIZE, range(1, 9))


def test_meters_refuse_nonsense() -> None:
    meter = MiniSwitch(program("stateful")).state.meters["TheIngress.fast"]
    with pytest.raises(TableError, match="cir"):
        meter.configure(0, MeterRates(10, 1, 5, 1))


FAULT: Spec = [("op", 8), ("a", 8), ("b", 8), ("r", 32), ("s", 8)]


def fault(switch: MiniSwitch, op: int, a: int = 0, b: int = 0, s: int = 0) -> int:
    ((_, out),) = switch.send(0, join(FAULT, {"op": op, "a": a, "b": b, "s": s, "r": 1}))
    return split(FAULT, out)["r"]


def test_asserts() -> None:
    switch = MiniSwitch(program("faults"))
    fault(switch, 1, 2)
    fault(switch, 10, 1, 0)
    assert switch.errors == []
    fault(switch, 1, 3)
    fault(switch, 10, 0, 0)
    assert switch.errors == [phv.ERROR_ASSERT] * 2


def _with_division() -> Program:
    """p4c lets no division through but by powers of two; BMv2 has the operators."""
    source = copy.deepcopy(json.loads((PROGRAMS / "faults.json").read_text()))
    text = json.dumps(source)
    assert text.count('"op": "*"') == 1
    text = text.replace('"op": "*"', '"op": "/"').replace('"op": "|"', '"op": "%"')
    return Program.from_json(text)


def test_division_by_zero() -> None:
    switch = MiniSwitch(_with_division())
    assert fault(switch, 2, 17, 5) == 3
    assert fault(switch, 3, 17, 5) == 2
    assert switch.errors == []
    assert fault(switch, 2, 17, 0) == 0
    assert fault(switch, 3, 17, 0) == 0
    assert switch.errors == [phv.ERROR_DIVISION] * 2


def test_loops_in_actions() -> None:
    switch = MiniSwitch(program("faults"))
    assert fault(switch, 6, 3) == 1 + 0 + 1 + 2 + 3
    assert fault(switch, 6, 20) == 1 + sum(range(9)) - 5
    assert fault(switch, 7, 0, 1) == 11
    assert switch.errors == []
    fault(switch, 7, 0, 0)
    assert switch.errors == [phv.ERROR_LOOP]


def test_jumps_beyond_the_end_of_an_action_end_it() -> None:
    """As in BMv2 (`ActionFnEntry::execute`)."""
    source = json.loads((PROGRAMS / "faults.json").read_text())
    (action,) = (each for each in source["actions"] if each["name"] == "TheIngress.sum")
    for call in action["primitives"]:
        if call["op"].startswith("_jump") and call["parameters"][-1]["value"] == "0xb":
            call["parameters"][-1]["value"] = "0x2c"
    switch = MiniSwitch(Program.from_json(json.dumps(source)))
    assert fault(switch, 6, 3) == 1 + 0 + 1 + 2 + 3
    assert fault(switch, 6, 20) == 1 + sum(range(9)) - 5
    assert switch.errors == []


def test_messages() -> None:
    switch = MiniSwitch(program("faults"))
    fault(switch, 8, 1)
    log = switch.state.enable_log()
    fault(switch, 8, 200, s=-3)
    fault(switch, 9)
    assert log.drain() == ["a = 200, s = -3, r = 1", "plain"]
    assert log.drain() == []
    for i in range(30000):
        fault(switch, 8, i & 255)
    messages = log.drain()
    assert "lost" in messages[0]
    fault(switch, 9)
    assert log.drain() == ["plain"]


def _changed(old: str, new: str, name: str = "faults") -> str:
    text = json.dumps(json.loads((PROGRAMS / f"{name}.json").read_text()))
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_changed('"op": "assert"', '"op": "teleport"'), r"primitive 'teleport' \(faults.p4:\d+\)"),
        (_changed('"op": "*"', '"op": "**"'), r"operator '\*\*'"),
        (_changed('"crc16"', '"crc17"', "hashing"), "hash algorithm 'crc17'"),
        (_changed('"extern_instances": []', '"extern_instances": [{"name": "x", "type": "T"}]'), "extern 'x'"),
        (_changed('"version": [2,', '"version": [3,'), "version 3"),
        (_changed('["op", "a"]', '["op", "zz"]'), "no field 'zz'"),
        (_changed('"header_types"', '"header_typos"'), "lacks 'header_types'"),
        (_changed('"op": "extract"', '"op": "distract"'), "parser operation 'distract'"),
        ("{", "not JSON"),
        ("/no/such/file.json", "No such file"),
    ],
)
def test_refusals_name_what_and_where(text: str, message: str) -> None:
    with pytest.raises(DetourError, match=message):
        Program.from_json(text)


def test_the_cache_gives_the_same_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if its file was cut short."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = PROGRAMS / "faults.json"
    first, second = Program.from_json(source), Program.from_json(source)
    fresh = Program.from_json(source, use_cache=False)
    (file,) = (tmp_path / "detour" / "programs").iterdir()
    file.write_bytes(file.read_bytes()[:-100])
    repaired = Program.from_json(source)
    for p in (first, second, fresh, repaired):
        switch = MiniSwitch(p)
        switch.state.enable_log()
        fault(switch, 8, 5)
        assert switch.state.log is not None
        assert switch.state.log.drain() == ["a = 5, s = 0, r = 1"]
