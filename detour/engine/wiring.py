# SPDX-License-Identifier: Apache-2.0
"""Entering switches, ports, links, hosts and sockets into the loop's tables. Only with the loop's turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from detour.base.errors import DetourError
from detour.engine.loop import entry, layout
from detour.engine.loop.memory import Memory
from detour.engine.pre import Replication
from detour.engine.sockets import Attachment

Port = tuple[int, int]
"""(device id of the switch, port number)"""

UNLIMITED_PACKETS = 1 << 40
"""A queue's limit that does not limit."""

_INPUT_LIMIT = 1024
"""Packets of a switch that wait to be parsed again, as in simple_switch."""

_PROBABILITY_ONE = 1 << 32


@dataclass
class WiredSwitch:
    """Python's view of a switch."""

    device_id: int
    name: str
    index: int
    priorities: int
    cpu_port: int
    drop_port: int
    replication: Replication
    domain: int
    program: Any = None
    state: Any = None
    ports: list[Port] = field(default_factory=list)


@dataclass(frozen=True)
class Cable:
    """The cable at a port: the channel that leads out of it and the one that leads into it (-1: none)."""

    out_channel: int
    in_channel: int
    far: Port | None = None


@dataclass(frozen=True)
class Faults:
    """Faults of a channel's frames, with the probability of each; `late`: they arrive up to `late_ps` after their time,
    evenly spread, and others overtake them."""

    loss: float = 0.0
    corrupt: float = 0.0
    duplicate: float = 0.0
    late: float = 0.0
    late_ps: int = 0

    @property
    def probabilities(self) -> dict[str, float]:
        return {"loss": self.loss, "corrupt": self.corrupt, "duplicate": self.duplicate, "late": self.late}


class Wiring:
    """The fabric as it is built."""

    def __init__(self, memory: Memory, seed: int, tick_ps: int) -> None:
        self.memory = memory
        self.switches: dict[int, WiredSwitch] = {}
        self.cables: dict[Port, Cable] = {}
        self.names: dict[int, str] = {}
        self.nics: dict[int, int] = {}
        self.without_carrier: frozenset[Port] = frozenset()
        """ports whose interfaces have no link; frames go there all the same, and the kernel drops them"""
        self._seed = seed
        self._tick_ps = tick_ps
        self.inject_channel = self.add_channel(layout.TO_INGRESS, 0)

    # -- switches ---------------------------------------------------------------------------------------

    def switch(self, device_id: int) -> WiredSwitch:
        try:
            return self.switches[device_id]
        except KeyError:
            raise DetourError(f"there is no switch with device id {device_id}") from None

    def add_switch(
        self, device_id: int, name: str, priorities: int, cpu_port: int, drop_port: int, domain: int = -1
    ) -> WiredSwitch:
        """A switch without a program, with its CPU port and the port for packets to ports that do not exist.

        Switches of a domain share memory, so that they stay in one node; -1: one of its own."""
        if device_id in self.switches:
            raise DetourError(f"there is a switch with device id {device_id} already")
        if not 1 <= priorities <= 64:
            raise DetourError(f"switch {name}: {priorities} priority queues per port; expected 1 to 64")
        memory = self.memory
        index = memory.add("switches", device_id=device_id, drop_port=drop_port, recirculate_ps=self._tick_ps)
        memory.add_port_map()
        switch = WiredSwitch(device_id, name, index, priorities, cpu_port, drop_port, Replication(), domain)
        row = memory.row("switches", index)
        row["input_limit"] = _INPUT_LIMIT
        row["input_channel"] = self.add_channel(layout.TO_INPUT, index)
        memory.row("switches", index)["void_port"] = self._add_port(switch, -1, UNLIMITED_PACKETS)
        self.switches[device_id] = switch
        if cpu_port > 0:
            self.attach((device_id, cpu_port), layout.TO_CPU)
        return switch

    # -- channels and ports --------------------------------------------------------------------------------

    def add_channel(self, kind: int, index: int, rate_bps: int = 0, delay_ps: int = 0) -> int:
        """A channel that leads to `index` of `kind`."""
        if rate_bps < 0 or delay_ps < 0:
            raise DetourError(f"a link has rate {rate_bps} bit/s and delay {delay_ps} ps; neither may be negative")
        memory = self.memory
        number = memory.count("channels")
        # Seeded by number: the same fabric built in the same order draws the same faults.
        random = int(np.random.SeedSequence([self._seed, number]).generate_state(1, np.uint64)[0] >> 1) | 1
        return memory.add(
            "channels",
            entity=memory.add_entity(layout.ON_CHANNEL, number),
            head=-1,
            tail=-1,
            kind=kind,
            index=index,
            rate_bps=rate_bps,
            delay_ps=delay_ps,
            up=1,
            random=random,
        )

    def port_index(self, port: Port) -> int:
        """The loop's index of a port that exists."""
        switch = self.switch(port[0])
        index = self.memory.port_index(switch.index, port[1]) if 0 <= port[1] < layout.PORTS_PER_SWITCH else -1
        if index < 0:
            raise DetourError(f"switch {switch.name} has no attachment on port {port[1]}")
        return index

    def check_free(self, port: Port) -> None:
        """Raise unless the port may be attached to something."""
        switch = self.switch(port[0])
        number = port[1]
        if not 0 <= number < layout.PORTS_PER_SWITCH:
            raise DetourError(f"switch {switch.name} cannot have port {number}")
        if self.memory.port_index(switch.index, number) >= 0:
            raise DetourError(f"port {number} of switch {switch.name} is already attached")

    def _add_port(self, switch: WiredSwitch, number: int, queue_packets: int = 64) -> int:
        memory = self.memory
        index = memory.count("ports")
        first = memory.count("queues")
        for _ in range(switch.priorities):
            memory.add("queues", head=-1, tail=-1, limit_packets=queue_packets, port=index)
        memory.add(
            "ports",
            entity=memory.add_entity(layout.ON_PORT, index),
            switch=switch.index,
            number=number,
            channel=self.add_channel(layout.TO_NOWHERE, 0),
            queues=first,
            priorities=switch.priorities,
        )
        return index

    def attach(self, port: Port, kind: int, rate_bps: int = 0, delay_ps: int = 0, queue_packets: int = 64) -> int:
        """Make a port whose channel leads to `kind` (index: the port itself); return the port's index."""
        self.check_free(port)
        if queue_packets < 1:
            raise DetourError(f"port {port[1]}: a queue of {queue_packets} packets is too short")
        switch = self.switch(port[0])
        index = self._add_port(switch, port[1], queue_packets)
        channel = self.add_channel(kind, index, rate_bps, delay_ps)
        self.memory.row("ports", index)["channel"] = channel
        # The controller's port has the highest number, and few packets.
        self.memory.set_port_index(switch.index, port[1], index, frequent=kind != layout.TO_CPU)
        self.names[index] = f"{switch.name}-{port[1]}"
        self.cables[port] = Cable(channel, -1)
        switch.ports.append(port)
        return index

    # -- cables -----------------------------------------------------------------------------------------

    def connect(self, a: Port, b: Port, rate_bps: int = 0, delay_ps: int = 0, queue_packets: int = 64) -> None:
        """A cable between two switch ports, both directions alike. Rate 0: unlimited."""
        self.check_free(b)
        if a == b:
            raise DetourError(f"port {a[1]} of switch {self.switch(a[0]).name} cannot be connected to itself")
        index_a = self.attach(a, layout.TO_PORT, rate_bps, delay_ps, queue_packets)
        index_b = self.attach(b, layout.TO_PORT, rate_bps, delay_ps, queue_packets)
        channel_a, channel_b = self.cables[a].out_channel, self.cables[b].out_channel
        self.memory.row("channels", channel_a)["index"] = index_b
        self.memory.row("channels", channel_b)["index"] = index_a
        self.cables[a] = Cable(channel_a, channel_b, b)
        self.cables[b] = Cable(channel_b, channel_a, a)

    def attach_host(self, port: Port, stack: int, host: int, rate_bps: int, delay_ps: int, queue_packets: int) -> None:
        if host in self.nics:
            raise DetourError(f"host {host} is already attached to a port")
        self.nics[host] = self.attach_stack(port, stack, host, rate_bps, delay_ps, queue_packets)

    def attach_stack(self, port: Port, stack: int, host: int, rate_bps: int, delay_ps: int, queue_packets: int) -> int:
        """A cable to a host of a stack, whose record is at that address; returns the index of its NIC."""
        memory = self.memory
        index = self.attach(port, layout.TO_HOST, rate_bps, delay_ps, queue_packets)
        down = self.cables[port].out_channel
        up = self.add_channel(layout.TO_PORT, index, rate_bps, delay_ps)
        number = memory.count("nics")
        memory.row("channels", down)["index"] = number
        memory.add(
            "nics",
            host=host,
            channel=up,
            entity=memory.add_entity(layout.ON_NIC, number),
            timer=memory.add_entity(layout.ON_TIMER, number),
            stack=stack,
        )
        self.cables[port] = Cable(down, up)
        return number

    def attach_socket(
        self, port: Port, outside: Attachment, rate_bps: int, delay_ps: int, queue_packets: int, *, both: bool = False
    ) -> int:
        """A cable to a socket or interface; returns the index of its row in `ios`. `both`: what comes in takes its time
        on it as well, for there is a host at its other end and no switch that has taken it already."""
        memory = self.memory
        index = self.attach(port, layout.TO_IO, rate_bps, delay_ps, queue_packets)
        out = self.cables[port].out_channel
        terms = (rate_bps, delay_ps) if both else (0, 0)
        into = self.add_channel(layout.TO_INGRESS, index, *terms)
        number = memory.add(
            "ios",
            fd=outside.fd,
            send_fd=outside.fd if outside.send_fd < 0 else outside.send_fd,
            ring=outside.ring_address,
            family=outside.family,
            port=index,
            channel=into,
            head=-1,
            tail=-1,
            address=outside.peer.ctypes.data if outside.peer.size else 0,
            address_length=outside.peer.size,
            message=memory.add_message(),
            longest=outside.longest,
        )
        memory.row("channels", out)["index"] = number
        memory.g["ios_count"] = number + 1
        memory.g["watched" if outside.ring is None else "rings"] += 1
        self.cables[port] = Cable(out, into)
        return number

    def set_carrier(self, port: Port, up: bool) -> None:
        """Say whether the interface of a port has a link."""
        self.without_carrier = self.without_carrier - {port} if up else self.without_carrier | {port}

    def is_up(self, port: Port) -> bool:
        """Return whether a port is attached to something and its link is up."""
        cable = self.cables.get(port)
        if cable is None or port in self.without_carrier:
            return False
        return bool(self.memory.row("channels", cable.out_channel)["up"])

    def detach_socket(self, port: Port) -> None:
        """Take a socket or interface from its port, which then is none any more.

        What waits for the port is dropped. Its row stays, for packets that are under way to it."""
        memory, index = self.memory, self.port_index(port)
        cable = self.cables[port]
        out = memory.row("channels", cable.out_channel)
        if out["kind"] != layout.TO_IO:
            raise DetourError(f"port {port[1]} is not attached to an interface or a socket")
        for channel in (cable.out_channel, cable.in_channel):
            entry.cut_channel(memory.address, channel)
        io = memory.row("ios", int(out["index"]))
        io["fd"] = io["send_fd"] = -1  # frames that wait for the socket are dropped when they are tried again
        memory.g["rings" if io["ring"] else "watched"] -= 1
        io["ring"] = 0
        out["kind"] = layout.TO_NOWHERE
        switch = self.switch(port[0])
        memory.set_port_index(switch.index, port[1], -1)
        switch.ports.remove(port)
        del self.cables[port], self.names[index]
        self.set_carrier(port, True)

    # -- limits and faults ------------------------------------------------------------------------------

    def set_faults(self, channel: int, faults: Faults) -> None:
        row = self.memory.row("channels", channel)
        for name, value in faults.probabilities.items():
            if not 0.0 <= value <= 1.0:
                raise DetourError(f"the probability of {name} is {value}; it must be 0 to 1")
            row[name] = round(value * _PROBABILITY_ONE)
        if faults.late and faults.late_ps < 1:
            raise DetourError(f"late frames are at most {faults.late_ps} ps late; expected at least 1")
        # Where frames have been late some may still be, and those that come after must find their place.
        row["late_ps"] = max(int(row["late_ps"]), faults.late_ps)
        row["faulty"] = int(any(faults.probabilities.values()) or row["late_ps"] != 0)

    def set_rate(self, port: Port, rate_bps: int) -> None:
        """Change the rate of the cable out of the port (0: unlimited), from the next frame on."""
        if rate_bps < 0:
            raise DetourError(f"port {port[1]}: a rate of {rate_bps} bit/s")
        self.port_index(port)
        self.memory.row("channels", self.cables[port].out_channel)["rate_bps"] = rate_bps

    def queue_rows(self, port: Port, priority: int | None) -> list[Any]:
        """The queues of a port, or the one of a priority."""
        row = self.memory.row("ports", self.port_index(port))
        count = int(row["priorities"])
        if priority is not None and not 0 <= priority < count:
            raise DetourError(f"port {port[1]} has priorities 0 to {count - 1}, not {priority}")
        numbers = range(count) if priority is None else [priority]
        return [self.memory.row("queues", int(row["queues"]) + n) for n in numbers]
