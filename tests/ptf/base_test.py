# SPDX-License-Identifier: Apache-2.0
"""PTF's way of testing, without the ptf package: send here, verify there, and nothing else anywhere.

Names and meaning follow ptf.testutils. Nothing sleeps: a packet is awaited until `DEADLINE`, and that there is none
is concluded from barrier packets that went in last at the same ports and came out last everywhere.
"""

from __future__ import annotations

import itertools
import select
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from scapy.layers.l2 import Ether
from scapy.packet import Packet

from detour.base.places import BUILD
from tests.ptf import packets
from tests.ptf.p4rt import Client, Schema, clone_session
from tests.ptf.platforms import CPU_PORT, PORTS, Platform
from tests.waiting import PATIENCE_S

DEADLINE = PATIENCE_S
BARRIER = "fdff::"
"""Nobody's address; a host route per port leads barrier packets there."""
NOT_A_HEADER = 59


class Mask:
    """A packet of which some bits do not matter."""

    def __init__(self, packet: Packet | bytes) -> None:
        self.data = bytes(packet)
        self._care = bytearray(b"\xff" * len(self.data))

    def ignore(self, offset: int, length: int = 1) -> Mask:
        """`length` bytes from `offset` may be anything."""
        self._care[offset : offset + length] = bytes(length)
        return self

    def matches(self, data: bytes) -> bool:
        """Whether `data` is this packet where it matters."""
        if len(data) != len(self.data):
            return False
        return all((a ^ b) & c == 0 for a, b, c in zip(data, self.data, self._care, strict=True))


Expected = Packet | bytes | Mask


class Switch:
    """The switch under test, with one of our programs and the routes of the barrier packets."""

    def __init__(self, platform: Platform, program: str = "fabric", of_fabric: bool = True) -> None:
        """`of_fabric`: node 1 in group 0 of 9, with the routes of barrier packets; otherwise no entries."""
        self.platform = platform
        self.schema = Schema.load(BUILD / f"{program}.p4info.txtpb")
        self.client = Client(platform.address).open()
        self._config = self.schema.config((BUILD / f"{program}.json").read_bytes())
        self._of_fabric = of_fabric
        self._sockets = {platform.sockets[p].fileno(): p for p in PORTS}
        self._received: dict[int, deque[bytes]] = {p: deque() for p in (*PORTS, CPU_PORT)}
        self._used: set[int] = set()
        self._numbers = itertools.count(1)
        self._set_up()

    def _set_up(self) -> None:
        self.client.set_pipeline(self._config)
        if self._of_fabric:
            for port in PORTS:
                self.route(f"{BARRIER}{port:x}", 128, [port])
            self.node()

    def reset(self) -> None:
        """Makes it as good as new: what is still on its way comes out and is forgotten, and the pipeline is set once
        more, which clears all entries, counters and registers. Rates of queues stay."""
        self.barrier()
        # BMv2 keeps the sessions of the pipeline before.
        if sessions := self.client.read(clone_session(0)):
            self.client.delete(*sessions)
        self._set_up()
        for frames in self._received.values():
            frames.clear()
        while not self.client.packets.empty():
            self.client.packets.get()

    # -- entries ----------------------------------------------------------------------------------------

    def insert(self, table: str, match: dict[str, Any] | None = None, **how: Any) -> Any:
        """Inserts a table entry (see `Schema.entry`) and returns it."""
        entity = self.schema.entry(table, match, **how)
        self.client.insert(entity)
        return entity

    def set_default(self, table: str, action: tuple[str, dict[str, int]]) -> None:
        """Gives a table a default action."""
        self.client.modify(self.schema.entry(table, action=action, default=True))

    def node(self, node_id: int = 1, group: int = 0, groups: int = 9) -> None:
        """Tells the switch who it is."""
        self.set_default("config", ("set_node", {"node_id": node_id, "group": group, "groups": groups}))

    def route(self, prefix: str, length: int, ports: Iterable[int], mac: int | None = None) -> Any:
        """A route over `ports`; with `mac` to a host."""
        if mac is None:
            choices = [(("forward", {"port": p}), 1) for p in ports]
        else:
            choices = [(("deliver", {"port": p, "mac": mac}), 1) for p in ports]
        match = {"hdr.ipv6.dst_addr": (packets.number(prefix), length)}
        return self.insert("route", match, one_shot=choices)

    def local_sid(self, sid: str, length: int, action: str, **arguments: int) -> Any:
        """A uSID of this switch."""
        match = {"hdr.ipv6.dst_addr": (packets.number(sid), length)}
        return self.insert("local_sid", match, action=(action, arguments))

    def counter(self, name: str, index: int) -> tuple[int, int]:
        """(packets, bytes) of a cell of a counter."""
        (entity,) = self.client.read(self.schema.counter(name, index))
        return entity.counter_entry.data.packet_count, entity.counter_entry.data.byte_count

    def direct_counter(self, entity: Any) -> int:
        """Packets that hit a table entry."""
        query = type(entity)()
        query.direct_counter_entry.table_entry.CopyFrom(entity.table_entry)
        (entry,) = self.client.read(query)
        return entry.direct_counter_entry.data.packet_count

    # -- packets ----------------------------------------------------------------------------------------

    def send(self, port: int, data: bytes) -> None:
        """Puts a frame on the cable of `port`."""
        self.platform.send(port, data)
        self._used.add(port)

    def collect(self, timeout: float) -> bool:
        """Takes in what has come, waiting for it at most `timeout` seconds."""
        ready, _, _ = select.select(list(self._sockets), [], [], timeout)
        for fileno in ready:
            port = self._sockets[fileno]
            self._received[port].append(self.platform.sockets[port].recv(65536))
        return bool(ready)

    def wait_for(self, port: int, expected: Mask, deadline: float) -> bytes | None:
        """Takes the first matching packet from `port`, leaving others; None after the deadline."""
        while True:
            packet = next((d for d in self._received[port] if expected.matches(d)), None)
            if packet is not None:
                self._received[port].remove(packet)
                return packet
            if not self.collect(max(0.0, min(deadline - time.monotonic(), 1.0))) and time.monotonic() > deadline:
                return None

    def waiting(self, port: int) -> list[bytes]:
        """What has come out of `port` and was not taken."""
        return list(self._received[port])

    def take(self, port: int) -> bytes:
        """The next packet out of `port`, whatever it is."""
        return self.take_any([port])

    def take_any(self, ports: Sequence[int]) -> bytes:
        """The next packet out of one of `ports`, whatever it is."""
        deadline = time.monotonic() + DEADLINE
        while not (ready := [port for port in ports if self._received[port]]):
            assert time.monotonic() < deadline, f"no packet came out of ports {ports}"
            self.collect(0.1)
        return self._received[ready[0]].popleft()

    def take_packet_in(self) -> tuple[int, int, bytes]:
        """(ingress port, reason, frame) of the next packet-in."""
        message = self.client.packets.get(timeout=DEADLINE)
        fields = {m.metadata_id: int.from_bytes(m.value, "big") for m in message.metadata}
        return fields[1], fields[2], message.payload

    def packet_out(self, data: bytes, port: int = 0) -> None:
        """The controller sends `data` out of `port`; 0: routes it."""
        self.client.packet_out(data, {1: port})

    def barrier(self, rounds: int = 1, ports: Sequence[int] = PORTS) -> None:
        """Returns when all that was sent before has come out of these ports, or waits at others. A packet that goes
        round needs a round more each."""
        for _ in range(rounds):
            for into in sorted(self._used) or [PORTS[0]]:
                marks = {out: self._mark(into, out) for out in ports}
                for out, mark in marks.items():
                    packet = self.wait_for(out, mark, time.monotonic() + DEADLINE)
                    assert packet is not None, f"barrier packet {into}->{out} was lost"
        self._used.clear()

    def _mark(self, into: int, out: int) -> Mask:
        header = packets.ip(f"{BARRIER}{out:x}", src="fdfe::1", nh=NOT_A_HEADER, fl=next(self._numbers))
        mark = packets.frame(header)
        self.platform.send(into, bytes(mark))
        mark["IPv6"].hlim -= 1
        return Mask(mark)

    def close(self) -> None:
        """Ends the controller's connection."""
        self.client.close()


def send_packet(switch: Switch, port: int, packet: Packet | bytes) -> None:
    """Sends a packet into a port of the switch."""
    switch.send(port, bytes(packet))


def verify_packet(switch: Switch, packet: Expected, port: int) -> bytes:
    """The packet comes out of `port` before the deadline; returns its bytes."""
    mask = packet if isinstance(packet, Mask) else Mask(packet)
    received = switch.wait_for(port, mask, time.monotonic() + DEADLINE)
    if received is None:
        raise AssertionError(f"expected at port {port}:\n{_show(mask.data)}\n{_show_all(switch)}")
    return received


def verify_packets(switch: Switch, packet: Expected, ports: Iterable[int] = ()) -> None:
    """The packet comes out of each of `ports`, and nothing else comes out of any."""
    for port in ports:
        verify_packet(switch, packet, port)
    verify_no_other_packets(switch)


def verify_no_other_packets(switch: Switch, rounds: int = 1) -> None:
    """No packet comes out of any port, nor to the controller, that was not taken yet."""
    switch.barrier(rounds)
    assert not any(switch.waiting(p) for p in PORTS), _show_all(switch)
    assert switch.client.packets.empty(), f"a packet-in: {switch.client.packets.get()}"


def verify_packet_in(switch: Switch, packet: Expected, port: int, reason: int) -> None:
    """The next packet-in holds this packet, from `port`, for `reason`."""
    got_port, got_reason, data = switch.take_packet_in()
    mask = packet if isinstance(packet, Mask) else Mask(packet)
    assert mask.matches(data), f"expected:\n{_show(mask.data)}\npacket-in:\n{_show(data)}"
    assert (got_port, got_reason) == (port, reason)


def verify_forwarded(
    switch: Switch, into: int, packet: Packet | bytes, expected: Expected, port: int, rounds: int = 1
) -> None:
    """A packet that is sent into a port comes out of another one as `expected`, and nothing else comes out of any."""
    send_packet(switch, into, packet)
    verify_packet(switch, expected, port)
    verify_no_other_packets(switch, rounds)


def verify_punted(switch: Switch, into: int, packet: Packet, reason: int) -> None:
    """A packet that is sent into a port goes to the controller as it is, for `reason`, and nowhere else."""
    send_packet(switch, into, packet)
    verify_packet_in(switch, packet, into, reason)
    verify_no_other_packets(switch)


def verify_dropped(switch: Switch, into: int, packet: Packet | bytes, reason: int, rounds: int = 1) -> None:
    """A packet that is sent into a port comes out nowhere, and is the only one that is counted under `reason`."""
    send_packet(switch, into, packet)
    verify_no_other_packets(switch, rounds)
    assert switch.counter("reasons", reason)[0] == 1


def _show(data: bytes) -> str:
    return f"{data.hex()}\n{Ether(data).summary() if len(data) >= 14 else ''}"


def _show_all(switch: Switch) -> str:
    lines = [f"port {p}: {_show(d)}" for p in PORTS for d in switch.waiting(p)]
    return "came out:\n" + "\n".join(lines) if lines else "nothing came out"
