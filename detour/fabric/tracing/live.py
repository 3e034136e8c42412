# SPDX-License-Identifier: Apache-2.0
"""Packets traced as they pass through a fabric or a lab in the engine, with the queues that they meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from detour.base.errors import DetourError
from detour.base.times import MS
from detour.engine.network import Network
from detour.engine.trace.filters import Filter, parse_filter
from detour.engine.trace.recorder import Recorder
from detour.engine.trace.tree import Dropped, Output, Visit
from detour.fabric.backends.clock import FabricClock
from detour.fabric.tracing.results import Arrived, Ending, Lost, TracedHop, TracedPacket, dropped_at
from detour.topo import Behind, Host, Topology
from detour.topo.address import ipv6_text

UNDER_WAY = "found its queue full, or was still in it when the run ended"
"""what became of a packet of a run that ended, if nothing else is known of it"""
LIVE_POLL_PS = 20 * MS
_SETTLED_PS = 500 * MS
"""after which, and the longest link's delay, a packet that is in no queue is taken for lost on a link"""
_ALIKE = 64
"""packets of one length that are looked at until the one that was sent is among them"""
_PATIENCE_PS = 30_000 * MS


class Wired(Protocol):
    """The network that packets cross: a topology, or a booted lab."""

    def switch_name(self, device_id: int) -> str:
        """Return the name of a switch."""
        ...

    def behind(self, device_id: int, port: int) -> Behind | None:
        """Return the far end of a switch's port, None if nothing is connected."""
        ...


def host_filter(topology: Topology, text: str) -> Filter:
    """Read a filter in which hosts have names. Raises DetourError: it does not parse."""

    def address_of(name: str) -> str | None:
        kind, index = topology.finder.node(name) or ("switch", 0)
        return ipv6_text(topology.hosts[index].address) if kind == "host" else None

    return parse_filter(text, address_of)


def trace_sent_frame(
    network: Network, topology: Topology, clock: FabricClock, source: Host, frame: bytes, sport: int | None = None
) -> TracedPacket:
    """Send a frame from a host's port into a running network and follow it to its end, by the fabric's clock. It is
    told from others that pass meanwhile by its bytes, and by its UDP source port if that is given. Raises DetourError:
    it did not reach a switch."""
    switch = topology.switches[source.switch]
    expression = f"bytes {len(frame)} and port {source.port}"
    if sport is not None:
        expression += f" and src {ipv6_text(source.address)} and sport {sport}"

    def ours(visits: list[Visit]) -> list[Visit]:
        alike = (each for each in by_packet(visits) if (each[0].switch, each[0].frame) == (switch.device_id, frame))
        return next(alike, [])

    with Recorder(network, parse_filter(expression), count=_ALIKE) as recorder:
        network.inject((switch.device_id, source.port), frame)
        visits = _collected(recorder, topology, clock, ours, _SETTLED_PS + network.longest_delay_ps)
    traced = packets(topology, visits, network.tick_ps)
    if not traced:
        raise DetourError(f"{source.name}'s packet did not reach {switch.name}: is its link up?")
    return traced[0]


def _collected(
    recorder: Recorder,
    topology: Topology,
    clock: FabricClock,
    ours: Callable[[list[Visit]], list[Visit]],
    settle_ps: int,
) -> list[Visit]:
    """The visits of a packet, when nothing of it is under way any more. `ours`: those that are its own; `settle_ps`:
    nothing of it is, after so long without news."""
    end, settled, last = clock.now_ps + _PATIENCE_PS, clock.now_ps + settle_ps, -1
    while True:
        clock.wait(clock.now_ps + LIVE_POLL_PS)
        visits = ours(recorder.collect())
        state = sum(1 + sum(leaf.outcome is not None for _, leaf in visit.tree.leaves()) for visit in visits)
        if state != last:
            last, settled = state, clock.now_ps + settle_ps
        if visits and is_over(topology, visits):
            return visits
        waits = any(not is_whole(visit) for visit in visits)
        if clock.now_ps > (end if waits else settled):
            recorder.finish("still in a queue when time was up" if waits else None)
            return visits


def is_over(network: Wired, visits: Sequence[Visit]) -> bool:
    """Return whether all that left a switch has come to the next one, or to a host."""
    arrived = [(visit.switch, visit.port, visit.frame) for visit in visits]
    for visit in visits:
        for _, leaf in visit.tree.leaves():
            if leaf.outcome is None:
                return False
            if isinstance(leaf.outcome, Output):
                behind = network.behind(visit.switch, leaf.outcome.port)
                if behind is None or behind.place is None:
                    continue
                if (*behind.place, leaf.outcome.frame) not in arrived:
                    return False
    return True


def by_packet(visits: Iterable[Visit]) -> list[list[Visit]]:
    """The visits of each packet, in the order in which packets began."""
    chains: dict[int, list[Visit]] = {}
    for visit in visits:
        chains.setdefault(visit.trace, []).append(visit)
    return list(chains.values())


def is_whole(visit: Visit) -> bool:
    """Return whether nothing of a packet is in the switch any more."""
    return all(leaf.outcome is not None for _, leaf in visit.tree.leaves())


def packets(network: Wired, visits: Iterable[Visit], tick_ps: int) -> list[TracedPacket]:
    """Return the traced packets."""
    return [_packet(network, each, tick_ps) for each in by_packet(visits)]


def _packet(network: Wired, visits: list[Visit], tick_ps: int) -> TracedPacket:
    packet = TracedPacket()
    begin = visits[0].time_ticks
    arrivals = [(visit.switch, visit.port, visit.frame) for visit in visits[1:]]
    for visit in visits:
        name = network.switch_name(visit.switch)
        at_ns = (visit.time_ticks - begin) * tick_ps // 1000
        packet.hops.append(TracedHop(name, visit.port, at_ns, visit.tree))
        for fraction, leaf in visit.tree.leaves():
            if isinstance(leaf.outcome, Dropped):
                packet.add(Ending(fraction, dropped=dropped_at(name, leaf.outcome)))
            elif isinstance(leaf.outcome, Output):
                ending = _left(network, visit, leaf.outcome, arrivals)
                if ending is not None:
                    packet.add(ending)
    return packet


def _left(network: Wired, visit: Visit, output: Output, arrivals: list[tuple[int, int, bytes]]) -> Ending | None:
    """Return the ending of a frame that left a switch; None: it came to the next one."""
    name, behind = network.switch_name(visit.switch), network.behind(visit.switch, output.port)
    if behind is None or behind.place is None:
        host = None if behind is None else behind.host
        return Ending(1.0, [Arrived(name, output.port, host, output.frame)])
    place = (*behind.place, output.frame)
    if place in arrivals:
        arrivals.remove(place)
        return None
    return Ending(1.0, dropped=Lost(name, f"lost on the link {behind.link}"))
