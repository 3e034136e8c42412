# SPDX-License-Identifier: Apache-2.0
"""Conditions on traced packets: functions of (packets so far, time) that return the result as soon as it is known
(`tracing.StopCondition`). In virtual time frames have their headers only, so nothing but those is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from detour.base.times import MS
from detour.engine.trace.build import FULL_QUEUE
from detour.engine.trace.matching import Key, read_key
from detour.engine.trace.tree import Dropped, Output, Visit
from detour.experiments.sim.replay.tracing import FOREVER_PS, Chain, StopCondition
from detour.fabric.tracing.live import UNDER_WAY, is_over
from detour.hosts.frames.wire import PORT_ROCE
from detour.topo import Topology

_ETHERNET, _IPV6 = 14, 40
_HOP_BY_HOP, _ROUTING, _UDP = 0, 43, 17
_ACK = 0x11
_MARKED = 3


@dataclass(frozen=True)
class PacketName:
    """The identity of a packet of a connection: source address as a number, UDP source port, BTH opcode, destination QP
    and PSN."""

    source: int
    sport: int
    opcode: int
    qp: int
    psn: int

    @property
    def is_data(self) -> bool:
        """Return whether it carries a part of a message."""
        return self.opcode < _ACK


def packet_name(frame: bytes) -> PacketName | None:
    """The name of a RoCEv2 packet; None: it is something else."""
    if _number(frame, 12, 2) != 0x86DD:
        return None
    kind, at = frame[_ETHERNET + 6], _ETHERNET + _IPV6
    while kind in (_HOP_BY_HOP, _ROUTING) and at + 2 <= len(frame):
        kind, at = frame[at], at + 8 * (frame[at + 1] + 1)
    if kind != _UDP or at + 20 > len(frame) or _number(frame, at + 2, 2) != PORT_ROCE:
        return None
    qp, psn = _number(frame, at + 13, 3), _number(frame, at + 17, 3)
    return PacketName(_number(frame, _ETHERNET + 8, 16), _number(frame, at, 2), frame[at + 8], qp, psn)


def is_marked(frame: bytes) -> bool:
    """Return whether IP says congestion experienced (RFC 3168)."""
    return bool(read_key(frame, 0)[Key.ECN] == _MARKED)


def _number(frame: bytes, at: int, size: int) -> int:
    return int.from_bytes(frame[at : at + size], "big")


_LONG_PS = 20 * MS


@dataclass(frozen=True)
class Sighting:
    """A packet as it came to a switch, by device id; time in ticks. `full`: it found its queue full there; `on_link`:
    it left the switch and never came to the next one."""

    switch: int
    time_ticks: int
    frame: bytes
    full: bool = False
    on_link: bool = False

    def is_at(self, visit: Visit) -> bool:
        """Return whether a visit is this."""
        return (visit.switch, visit.time_ticks, visit.frame) == (self.switch, self.time_ticks, self.frame)


def dropped_at(device: int, port: int | None, from_ticks: int, to_ticks: int) -> StopCondition[Sighting]:
    """The first packet that a switch drops within a time: in its program, or because a queue is full (of `port`, if
    that is known). A queue is first come, first served, so who was overtaken in it is not there any more."""

    def stop(chains: Sequence[Chain], now_ps: int) -> Sighting | None:
        here = (visit for visit in chain.from_iterable(chains) if visit.switch == device)
        visits = sorted(here, key=lambda visit: visit.time_ticks)
        last: dict[tuple[int, int], int] = {}
        for visit in visits:
            for event in visit.tree.all_events():
                if event.kind == "queue":  # it has left that
                    last[event.facts["port"], event.facts["priority"]] = visit.time_ticks
        for visit in visits:
            if not from_ticks <= visit.time_ticks <= to_ticks:
                continue
            if any(isinstance(leaf.outcome, Dropped) for _, leaf in visit.tree.leaves()):
                return Sighting(device, visit.time_ticks, visit.frame)
            queue = _unresolved(visit)
            if queue and port in (None, queue[0]) and last.get(queue, -1) > visit.time_ticks:
                return Sighting(device, visit.time_ticks, visit.frame, full=True)
        return None

    return stop


def lost_behind(device: int, port: int, peer: int, after_ticks: int, now_enough_ps: int) -> StopCondition[Sighting]:
    """The first packet that left a switch by a port after a time and did not come to the switch behind it, `peer`, by
    when all that left before has arrived."""

    def stop(chains: Sequence[Chain], now_ps: int) -> Sighting | None:
        if now_ps < now_enough_ps:
            return None
        candidates = []
        for visits in chains:
            for number, visit in enumerate(visits):
                left = _left_at(visit, port) if visit.switch == device else None
                if left is not None and left >= after_ticks and all(v.switch != peer for v in visits[number + 1 :]):
                    candidates.append((left, visit))
        if not candidates:
            return None
        _, visit = min(candidates, key=lambda candidate: candidate[0])
        return Sighting(device, visit.time_ticks, visit.frame, on_link=True)

    return stop


def waited_at(device: int, port: int, enqueued_ticks: int) -> StopCondition[Sighting]:
    """The packet that began to wait in a port's queue at a time."""

    def stop(chains: Sequence[Chain], now_ps: int) -> Sighting | None:
        for visit in chain.from_iterable(chains):
            if visit.switch == device:
                queued = {e.facts["port"]: e for e in visit.tree.all_events() if e.kind == "queue"}
                if port in queued and queued[port].facts["enqueued_at_ticks"] == enqueued_ticks:
                    return Sighting(device, visit.time_ticks, visit.frame)
        return None

    return stop


def chain_of(topology: Topology, sighting: Sighting) -> StopCondition[Chain]:
    """A packet that was sighted, with all its visits; what became of it is written into the last one."""

    def stop(chains: Sequence[Chain], now_ps: int) -> Chain | None:
        for visits in chains:
            seen = next((visit for visit in visits if sighting.is_at(visit)), None)
            if seen is None:
                continue
            if sighting.full:
                for _, leaf in seen.tree.leaves():
                    leaf.outcome = leaf.outcome or Dropped(FULL_QUEUE)
            lost = sighting.on_link and all(leaf.outcome is not None for _, leaf in seen.tree.leaves())
            return visits if lost or is_over(topology, visits) else None
        return None

    return stop


def packet_of(topology: Topology, qp: int, psn: int, tick_ps: int) -> StopCondition[Chain]:
    """A data packet of a connection, by destination QP and PSN: the first one that is sent."""

    def stop(chains: Sequence[Chain], now_ps: int) -> Chain | None:
        for visits in chains:
            name = packet_name(visits[0].frame)
            if name is not None and name.is_data and (name.qp, name.psn) == (qp, psn):
                return visits if is_over(topology, visits) or _settled(visits, now_ps, tick_ps) else None
        return None

    return stop


def marked_of(topology: Topology, qp: int) -> StopCondition[Chain]:
    """The first data packet of a connection that a switch marks."""

    def stop(chains: Sequence[Chain], now_ps: int) -> Chain | None:
        for visits in chains:
            name = packet_name(visits[0].frame)
            if name is None or not name.is_data or name.qp != qp or is_marked(visits[0].frame):
                continue
            outcomes = (leaf.outcome for visit in visits for _, leaf in visit.tree.leaves())
            if any(isinstance(outcome, Output) and is_marked(outcome.frame) for outcome in outcomes):
                return visits if is_over(topology, visits) else None
        return None

    return stop


def _settled(visits: Chain, now_ps: int, tick_ps: int) -> bool:
    """Return whether nothing more will come of a packet: it has long been where it was seen last, or the run is over.
    Then that is written into it."""
    if now_ps < visits[-1].time_ticks * tick_ps + _LONG_PS:
        return False
    for _, leaf in visits[-1].tree.leaves():
        leaf.outcome = leaf.outcome or Dropped(FULL_QUEUE if now_ps < FOREVER_PS else UNDER_WAY)
    return True


def _left_at(visit: Visit, port: int) -> int | None:
    """The time at which a packet left by a port, in ticks; None: it did not."""
    if not any(isinstance(leaf.outcome, Output) and leaf.outcome.port == port for _, leaf in visit.tree.leaves()):
        return None
    for event in visit.tree.all_events():
        if event.kind == "queue" and event.facts["port"] == port:
            return event.facts["enqueued_at_ticks"] + event.facts["wait_ticks"]
    return None


def _unresolved(visit: Visit) -> tuple[int, int] | None:
    """(port, priority) of the queue that a packet went to, if it has not left it."""
    if all(leaf.outcome is not None for _, leaf in visit.tree.leaves()):
        return None
    for event in visit.tree.all_events():
        if event.kind == "stage" and event.facts["stage"] == "traffic_manager":
            return event.facts["egress_spec"], event.facts["priority"]
    return None
