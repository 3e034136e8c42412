# SPDX-License-Identifier: Apache-2.0
"""Watched flows: who gets which label and slot, and what the switch's pipeline counts in them."""

import struct
from ipaddress import IPv6Address

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.base.places import BUILD
from detour.control import schema
from detour.control.entries import TableEntry
from detour.control.p4runtime.watching import CLASS_BOUNDS, CLASS_MEANS, WatchList, counts, slot_cells
from detour.engine import phv
from detour.engine.compiler.program import Program
from tests.packet_runner import PacketRunner

SOURCE = int(IPv6Address("fd00:0:0:1::1"))


def test_every_flow_has_a_label_and_a_slot_at_each_switch():
    flows = WatchList(lambda device: f"s{device - 1}")
    a, b = flows.add("a", SOURCE, [1, 5, 2]), flows.add("b", SOURCE, [2, 6])
    assert (a.label, b.label) == (1, 2)
    assert (a.slots, b.slots) == ({1: 0, 5: 0, 2: 0}, {2: 1, 6: 0})
    plan = flows.plan()
    assert {device: len(entries) for device, entries in plan.items()} == {1: 1, 5: 1, 2: 2, 6: 1}
    (entry,) = plan[6]
    assert isinstance(entry, TableEntry)
    assert entry.match == ((schema.FLOW_LABEL, 2), (schema.SRC_ADDR, SOURCE))
    flows.remove("a")
    assert flows.add("c", SOURCE, [2, 7]).slots == {2: 0, 7: 0}, "labels and slots are used again"
    assert flows["c"].label == 1


def test_a_flow_that_moves_is_watched_on_its_last_two_paths():
    flows = WatchList(lambda device: f"s{device - 1}")
    flow = flows.add("a", SOURCE, [1, 5, 2])
    assert flows.move("a", [1, 6, 2]).slots.keys() == {1, 5, 6, 2}
    assert flows.move("a", [1, 7, 2]).slots.keys() == {1, 6, 7, 2}
    assert flow.devices == (1, 7, 2)
    assert set(flows.plan()) == {1, 6, 7, 2}


def test_what_has_no_room_is_refused_and_leaves_everything_as_it_was():
    flows = WatchList(lambda device: f"s{device - 1}")
    for number in range(schema.MAX_WATCHED):
        flows.add(str(number), SOURCE, [1])
    flows.add("other", SOURCE, [2])
    before = flows.plan()
    with pytest.raises(DetourError, match="s0 watches 256 flows, the maximum: one more does not fit"):
        flows.add("one more", SOURCE, [3, 1])
    with pytest.raises(DetourError, match="s0 watches 256"):
        flows.move("other", [3, 1])
    assert flows.plan() == before
    assert "one more" not in flows


@pytest.fixture(scope="module", params=["fabric", "adaptive"])
def runner(request: pytest.FixtureRequest) -> PacketRunner:
    return PacketRunner(Program.from_json((BUILD / f"{request.param}.json").read_text()))


def frame(label: int, ecn: int = 2) -> bytes:
    udp = struct.pack("!HHHH", 0, 4791, 8, 0)
    head = struct.pack("!IHBB", 6 << 28 | ecn << 20 | label, len(udp), 17, 64)
    return bytes(12) + b"\x86\xdd" + head + SOURCE.to_bytes(16, "big") + bytes(16) + udp


def leave(runner: PacketRunner, data: bytes, ticks: int = 0, queue: int = 0) -> None:
    """A frame leaves by port 2 after so many ticks behind so many packets."""
    runner.start(data, 1)
    for offset, value in ((phv.EGRESS_PORT, 2), (phv.DEQ_TIMEDELTA, ticks), (phv.ENQ_QDEPTH, queue)):
        runner.put(offset, value)
    runner.egress(runner.state.sw, runner.phv.ctypes.data)


def cells(runner: PacketRunner, slot: int) -> np.ndarray:
    return np.array([runner.state.counters[name].read(index) for name, index in slot_cells(slot)], np.int64)


def watch(runner: PacketRunner, label: int, slot: int) -> None:
    table = runner.state.tables[schema.WATCHED]
    table.clear()
    for counter in (schema.FLOW_PASSED, schema.FLOW_WAITED):
        runner.state.counters[counter].reset()
    table.insert((SOURCE, label), schema.WATCH, (slot,))


def test_the_class_of_a_delay(runner):
    watch(runner, 7, 255)
    edges = np.unique(np.concatenate([CLASS_BOUNDS, CLASS_BOUNDS[1:] - 1, CLASS_BOUNDS + 1, [1 << 20, (1 << 32) - 1]]))
    expected = np.zeros(len(CLASS_BOUNDS), np.int64)
    for ticks in edges.tolist():
        leave(runner, frame(7), ticks)
        expected[np.searchsorted(CLASS_BOUNDS, ticks, side="right") - 1] += 1
    after = cells(runner, 255)
    assert after[2:, 0].tolist() == expected.tolist()
    assert counts(after).tolist()[::4] == [len(edges), len(edges)]
    within = (CLASS_BOUNDS[1:-1] <= CLASS_MEANS[1:-1]) & (CLASS_MEANS[1:-1] < CLASS_BOUNDS[2:])
    assert within.all()


def test_only_labelled_packets_of_the_source_count(runner):
    watch(runner, 7, 3)
    for label in (0, 6, 7, 1 << 13 | 7, 0x7F << 13 | 7, 1 << 13):  # the bits above belong to the switches
        leave(runner, frame(label))
    other = bytearray(frame(7))
    other[14 + 8 + 15] ^= 2
    leave(runner, bytes(other))
    assert cells(runner, 3)[:, 0].tolist() == [3, 0, 3, *[0] * 31]
    assert cells(runner, 3)[0, 1] == 3 * len(frame(0))


def test_marks_that_this_switch_set(runner):
    watch(runner, 7, 0)
    marking = runner.state.tables[schema.MARKING]
    marking.clear()
    marking.insert((2,), schema.STEP, (10,))
    for ecn, queue in ((2, 0), (2, 11), (3, 0), (0, 11), (1, 50)):
        leave(runner, frame(7, ecn), queue=queue)
    packets, octets, marked, _, _ = counts(cells(runner, 0)).tolist()
    assert (packets, octets, marked) == (5, 5 * len(frame(0)), 2)
