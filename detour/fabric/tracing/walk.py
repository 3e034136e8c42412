# SPDX-License-Identifier: Apache-2.0
"""A packet followed from switch to switch, in a copy of the fabric in which nothing else moves: what tables and
programs make of it. How long it would wait in queues, only a packet in the fabric itself can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from detour.base.errors import DetourError
from detour.control.entries import Entity
from detour.control.graph_files import open_topology
from detour.control.planner import plan
from detour.control.policy import Policy
from detour.engine.compiler.program import Program
from detour.engine.trace.choices import expand
from detour.engine.trace.network import TraceNetwork
from detour.engine.trace.tree import Assumed, ChoiceKey, Dropped, Output, TraceTree
from detour.fabric.backends.virtual.fabric import program
from detour.fabric.backends.virtual.load import install
from detour.fabric.tracing.results import Arrived, Ending, Lost, TracedHop, TracedPacket, dropped_at
from detour.hosts.frames.sample import data_frame
from detour.topo import Host, Topology
from detour.topo.paths import completed_usids, parse_usid_list

_MOST_HOPS = 512
_PRIORITIES = 8


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A frame that comes to a switch, and what is assumed of its hashes."""

    switch: int
    port: int
    frame: bytes
    assumed: tuple[tuple[ChoiceKey, tuple[int, ...]], ...] = ()


class FabricCopy:
    """The switches of a topology with one program and a plan's entries. A context manager."""

    def __init__(
        self,
        topology: Topology,
        program: Program,
        entities: Mapping[int, Iterable[Entity]],
        *,
        is_up: Callable[[int], bool] = lambda link: True,
        tick_ps: int = 1_000,
    ) -> None:
        """`entities`: by device id; a switch without any is empty. `is_up`: of a link by its index."""
        self.topology, self._is_up = topology, is_up
        self._copy = TraceNetwork(tick_ps)
        for switch in topology.switches:
            held = entities.get(switch.device_id, ())
            install(self._copy.network, switch, program, held, priorities=_PRIORITIES)
            ports = {number: peer for number, peer in enumerate(switch.ports, 1) if peer is not None}
            self._copy.attach(switch.device_id, ports)
            state = self._copy.network.state(switch.device_id)
            for number, peer in ports.items():
                state.set_port_state(number, is_up(peer.link))

    def trace(self, source: Host, frame: bytes, *, all_ways: bool = False) -> TracedPacket:
        """Trace a frame that a host sends. `all_ways`: with every member of a selector, hash and random number that it
        could have come to. Raises DetourError: it loops for ever, or there are too many ways."""
        packet = TracedPacket()
        host_link = self.topology.switches[source.switch].ports[source.port - 1]
        if host_link is not None and not self._is_up(host_link.link):
            packet.add(Ending(1.0, dropped=Lost(source.name, "its link is down")))
            return packet
        waiting = {_Arrival(source.switch, source.port, frame): 1.0}
        while waiting:
            arrival = next(iter(waiting))
            fraction = waiting.pop(arrival)
            if len(packet.hops) >= _MOST_HOPS:
                raise DetourError(f"the packet is in a loop: {_MOST_HOPS} hops without an end")
            for onward, part in self._hop(packet, arrival, fraction, all_ways):
                waiting[onward] = waiting.get(onward, 0.0) + part
        return packet

    def _hop(
        self, packet: TracedPacket, arrival: _Arrival, fraction: float, all_ways: bool
    ) -> list[tuple[_Arrival, float]]:
        """Trace an arrival; return those that come of it."""
        switch = self.topology.switches[arrival.switch]

        def send(choices: Sequence[int]) -> TraceTree:
            return self._copy.visit(switch.device_id, arrival.port, arrival.frame, choices).tree

        assumed_before = dict(arrival.assumed)
        trace = expand(send, assumed_before) if all_ways else send(())
        packet.hops.append(TracedHop(switch.name, arrival.port, 0, trace, fraction))
        onward = []
        for part, leaf, assumed in trace.ways():
            share = fraction * part
            if isinstance(leaf.outcome, Output):
                onward += self._left(packet, arrival.switch, leaf.outcome, share, assumed_before | assumed)
            elif isinstance(leaf.outcome, Dropped):
                packet.add(Ending(share, dropped=dropped_at(switch.name, leaf.outcome)))
        return onward

    def _left(
        self, packet: TracedPacket, switch_index: int, output: Output, share: float, assumed: Assumed
    ) -> list[tuple[_Arrival, float]]:
        """Return where a frame goes that left a switch: to the next one, or out of the fabric."""
        switch = self.topology.switches[switch_index]
        peer = switch.peer(output.port)
        if peer is not None and not self._is_up(peer.link):
            name = self.topology.links[peer.link].name
            packet.add(Ending(share, dropped=Lost(switch.name, f"the link {name} behind port {output.port} is down")))
        elif peer is not None and peer.kind != "host":
            return [(_Arrival(peer.index, peer.port, output.frame, tuple(sorted(assumed.items()))), share)]
        else:
            host = None if peer is None else self.topology.hosts[peer.index].name
            packet.add(Ending(share, [Arrived(switch.name, output.port, host, output.frame)]))
        return []

    def __enter__(self) -> FabricCopy:
        return self

    def __exit__(self, *exc: object) -> None:
        self._copy.close()


def trace_planned(
    topo: str,
    source: str,
    target: str,
    *,
    sport: int | None = None,
    usid: str | None = None,
    payload: int = 1000,
    all_ways: bool = False,
) -> TracedPacket:
    """Trace a data packet between two hosts of a topology. Raises DetourError: there is no such topology or host, or
    the packet is impossible."""
    topology = open_topology(topo)
    a, b = topology.host(source), topology.host(target)
    if a == b:
        raise DetourError(f"source and destination are both {source}; they must differ")
    usids = () if usid is None else completed_usids(topology, parse_usid_list(topology, usid), b)
    policy = Policy()
    with FabricCopy(topology, program(policy.program), plan(topology, policy)) as copy:
        return copy.trace(a, data_frame(a, b, sport or 0, usids, payload), all_ways=all_ways)
