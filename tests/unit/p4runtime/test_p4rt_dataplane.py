# SPDX-License-Identifier: Apache-2.0
"""Clone sessions and meters over P4Runtime on the real engine, with raw stubs: what packets make of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from finsy.proto import p4r

from tests.ptf.p4rt import clone_session, meter_config
from tests.unit.p4runtime import harness
from tests.unit.p4runtime.harness import Names, counter, meter, register
from tests.unit.p4runtime.test_p4rt_engine import TARGET, Switch, ethernet, ipv6, running
from tests.waiting import until


@pytest.fixture
def switch() -> Iterator[Switch]:
    with running() as switch:
        yield switch


# -- clone sessions


@pytest.fixture
def mirrored(switch: Switch, names: Names) -> Switch:
    """Frames to TARGET are cloned to session 9 and go nowhere else."""
    switch.client.insert(
        names.entry("exact_two", TARGET, 1, action=("mirror", 9)), names.entry("preset", 1, action=("set_vlan", 1))
    )
    return switch


FRAME = ethernet(ether_type=0x0801, payload=bytes(range(200)))
HEADER = 6
"""bytes of the packet_in header, which this program puts in front of clones wherever they go"""


def test_a_clone_session_has_any_number_of_replicas(mirrored: Switch) -> None:
    mirrored.client.insert(clone_session(9, (2, 1), (3, 1), (2, 2), (510, 7)))
    mirrored.send(FRAME)
    assert [mirrored.receive(2)[HEADER:], mirrored.receive(2)[HEADER:], mirrored.receive(3)[HEADER:]] == [FRAME] * 3
    packet = mirrored.stream.next().packet
    assert (packet.metadata[1].value, packet.payload) == (b"\1", FRAME)
    # MODIFY replaces all of them, DELETE ends it.
    mirrored.client.modify(clone_session(9, (3, 0)))
    mirrored.send(FRAME)
    assert mirrored.receive(3)[HEADER:] == FRAME
    mirrored.client.delete(clone_session(9))
    mirrored.send(FRAME)
    until(lambda: mirrored.taken_in(1) == 3)  # or the session might be there again before the frame is
    mirrored.client.insert(clone_session(9, (2, 0)))
    mirrored.send(FRAME)
    assert mirrored.receive(2)[HEADER:] == FRAME
    assert mirrored.frames[2].empty()
    assert mirrored.frames[3].empty()


def test_clones_are_cut(mirrored: Switch) -> None:
    for length in (60, 100, 1000, 0):
        kind = "INSERT" if length == 60 else "MODIFY"
        mirrored.client.write((kind, clone_session(9, (2, 1), length=length)))
        mirrored.send(FRAME)
        # What leaves, the header that the egress pipeline put in front included, is cut.
        got = mirrored.receive(2)
        assert len(got) == min(length or 1000, HEADER + len(FRAME))
        assert got[HEADER:] == FRAME[: len(got) - HEADER]


# -- meters: the program writes the colour of the direct meter, then that of `rate`, to octets[0]


def colour(switch: Switch, names: Names) -> int:
    (got,) = switch.client.read(register(names.ids["octets"], 0))
    return int.from_bytes(got.register_entry.data.bitstring, "big")


def count(switch: Switch, names: Names) -> int:
    (got,) = switch.client.read(counter(names.ids["packet_counter"], 0))
    return got.counter_entry.data.packet_count


def through(switch: Switch, names: Names, frames: list[bytes]) -> None:
    """Sends and waits until all have been counted."""
    enough = count(switch, names) + len(frames)
    for frame in frames:
        switch.send(frame)
    until(lambda: count(switch, names) >= enough)


def test_an_indirect_meter_colours_packets(switch: Switch, names: Names) -> None:
    """By bytes, with rates so low that no token comes back in a day."""
    frame, rate = ethernet(), names.ids["rate"]

    def seen() -> int:
        through(switch, names, [frame])
        return colour(switch, names)

    through(switch, names, [frame] * 4)
    assert seen() == 0  # without rates all is green
    low = meter(rate, 0, 0, 2 * len(frame), 0, 5 * len(frame))
    switch.client.modify(low)
    assert [seen() for _ in range(7)] == [0, 0, 1, 1, 1, 2, 2]
    assert switch.client.read(meter(rate, 0)) == [low]
    switch.client.modify(low)  # buckets are full again
    assert seen() == 0
    switch.client.modify(meter(rate, 3, 1, 1, 1, 1))
    assert seen() == 0  # another cell
    switch.client.modify(meter(rate, 0, 0, 0, 0, 0))
    assert seen() == 2
    switch.client.modify(meter(rate, 0))
    assert seen() == 0
    assert switch.client.read(meter(rate, 0)) == [meter(rate, 0)]


def test_a_direct_meter_is_read_and_written_as_a_resource(switch: Switch, names: Names) -> None:
    metered = names.entry(
        "acl", None, None, None, 0x86DD, action=("metered",), priority=7, meter_config=meter_config(0, 1, 0, 2)
    )
    switch.client.insert(metered)
    query = direct_meter(metered)
    (got,) = switch.client.read(query)
    assert got.direct_meter_entry.config == metered.table_entry.meter_config
    through(switch, names, [ipv6(5)] * 4)
    assert switch.client.read(query) == [got]  # a configuration, whatever the buckets hold
    changed = direct_meter(metered, meter_config(7, 8, 9, 10))
    switch.client.modify(changed)
    assert switch.client.read(query) == [changed]


def direct_meter(entry: p4r.Entity, config: p4r.MeterConfig | None = None) -> p4r.Entity:
    """The direct meter of an entry, as it is read (without `config`) or written."""
    entity = p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry())
    entity.direct_meter_entry.table_entry.CopyFrom(entry.table_entry)
    for field in ("action", "meter_config"):
        entity.direct_meter_entry.table_entry.ClearField(field)
    if config is not None:
        entity.direct_meter_entry.config.CopyFrom(config)
    return entity


class Metered:
    """The program that answers with the colours of two direct meters: of `first` (packets) in the high half of the
    third byte, of `second` (bytes) in the low one. It drops what `first` finds red."""

    def __init__(self, switch: Switch) -> None:
        self.switch, self.client = switch, switch.client
        self.names = Names(harness.config("meters").p4info)

    def entry(self, table: str, key: int, config: p4r.MeterConfig | None = None) -> p4r.Entity:
        action = "by_packets" if table == "first" else "by_bytes"
        entry = self.names.entry(table, key, action=(action,))
        if config is not None:
            entry.table_entry.meter_config.CopyFrom(config)
        return entry

    def colours(self, a: int, b: int, frames: int, size: int = 60) -> list[tuple[int, int]]:
        """Of as many frames with such keys; those that are dropped are left out."""
        for _ in range(frames):
            self.switch.send(bytes((a, b, 0xFF)) + bytes(size - 3), port=1)
        self.switch.send(bytes((0xEE, 0xEE, 0xFF)) + bytes(57), port=1)  # of no entry: the last to come back
        seen = []
        while (frame := self.switch.receive(1))[0] != 0xEE:
            seen.append((frame[2] >> 4, frame[2] & 15))
        assert frame[2] == 0
        return seen


@pytest.fixture
def metered() -> Iterator[Metered]:
    with running("meters") as switch:
        yield Metered(switch)


TWO_GREEN_TWO_YELLOW = meter_config(0, 2, 0, 4)


def test_a_direct_meter_colours_the_packets_of_its_entry(metered: Metered) -> None:
    first = metered.entry("first", 1, TWO_GREEN_TWO_YELLOW)
    metered.client.insert(first, metered.entry("first", 2))
    assert metered.colours(1, 0, 6) == [(0, 0), (0, 0), (1, 0), (1, 0)]  # then two red ones, which are dropped
    assert metered.colours(2, 0, 6) == [(0, 0)] * 6  # without rates all is green
    metered.client.modify(direct_meter(first, TWO_GREEN_TWO_YELLOW))
    assert metered.colours(1, 0, 6) == [(0, 0), (0, 0), (1, 0), (1, 0)]  # buckets are full again
    metered.client.modify(direct_meter(first))
    assert metered.colours(1, 0, 6) == [(0, 0)] * 6


def test_a_direct_meter_of_bytes(metered: Metered) -> None:
    size = 100
    metered.client.insert(metered.entry("second", 7, meter_config(0, 3 * size, 0, 4 * size)))
    assert metered.colours(0, 7, 6, size) == [(0, 0)] * 3 + [(0, 1)] + [(0, 2)] * 2


def test_an_entry_that_is_made_again_has_a_meter_of_its_own(metered: Metered) -> None:
    first = metered.entry("first", 1, TWO_GREEN_TWO_YELLOW)
    metered.client.insert(first)
    assert len(metered.colours(1, 0, 6)) == 4
    metered.client.delete(first)
    metered.client.insert(metered.entry("first", 1))
    assert metered.colours(1, 0, 6) == [(0, 0)] * 6
