# SPDX-License-Identifier: Apache-2.0
"""What hosts of a lab are told to do, under way: begun, whether it is over, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from detour.base.errors import DetourError
from detour.base.times import MS, US
from detour.fabric.labs.model import IpAddress, LabHost
from detour.fabric.labs.workloads import FIRST_SOURCE_PORT, Activity, EchoTrain, FrameTrain, TcpFlow, UdpStream
from detour.hosts.ip.arrival_process import Spacing
from detour.hosts.ip.connections import ReceivedStream, TcpListener
from detour.hosts.ip.hosts import IpStack
from detour.hosts.ip.results import ReceivedResult
from detour.hosts.ip.sockets import UdpPort
from detour.hosts.ip.tcp.config import TcpConfig

_MODES = {"constant": "constant", "poisson": "poisson", "onoff": "on-off"}
_BURST_PS = 10 * MS
_SENDERS = 16
_LAST_PORT = 65_535
_PATIENCE_PS = 1_000 * MS
"""for the answer to a ping, and for the last packet of a stream"""


@dataclass(frozen=True)
class Ports:
    """What listens, by host and number."""

    udp: Mapping[tuple[str, int], UdpPort]
    tcp: Mapping[tuple[str, int], TcpListener]


@dataclass(frozen=True)
class FlowShare:
    """What counts as a flow in the document of `detour sim`: a ping's round trip, a stream, a connection."""

    bytes: int
    delivered: int
    complete: bool
    time_ps: int | None


class SourcePorts:
    """Source ports for flows of which nobody says theirs, so that no two are taken for one."""

    def __init__(self) -> None:
        self._next = FIRST_SOURCE_PORT

    def given(self, activity: Activity) -> Activity:
        """With a port of its own.

        Raises:
            DetourError: there is none left.
        """
        if isinstance(activity, EchoTrain | FrameTrain) or activity.sport:
            return activity
        if self._next > _LAST_PORT:
            raise DetourError(f"there are no source ports left; a lab has had {_LAST_PORT - FIRST_SOURCE_PORT} flows")
        self._next += 1
        return replace(activity, sport=self._next - 1)


class Doing(Protocol):
    """Something under way."""

    @property
    def activity(self) -> Activity: ...

    def over(self) -> bool:
        """Whether all of it has come to its end."""
        ...

    def still_sends(self, now: int) -> bool:
        """Whether something is yet to be sent, or may yet be answered."""
        ...

    def parts(self) -> list[FlowShare]:
        """Its flows."""
        ...

    def row(self) -> dict[str, Any]:
        """What is shown of it."""
        ...


def destinations(hosts: Sequence[LabHost], to: IpAddress, source: str) -> list[str]:
    """Who may get what is sent to an address: the host that has it, or, of a virtual one, any but the sender."""
    owner = [host.name for host in hosts if host.address.ip == to]
    return owner or [host.name for host in hosts if host.name != source]


def listen(
    hosts: Sequence[LabHost], stack: IpStack, activities: Sequence[Activity], before: Ports | None = None
) -> Ports:
    """Opens the ports that are sent to and not open yet. `hosts`: those that can, the built-in ones."""
    udp = dict(before.udp) if before else {}
    tcp = dict(before.tcp) if before else {}
    streams = [each for each in activities if isinstance(each, UdpStream)]
    for stream in streams:
        for name in destinations(hosts, stream.dst, stream.src):
            if (name, stream.dport) not in udp:
                senders = max(_SENDERS, sum(each.dport == stream.dport for each in streams))
                udp[name, stream.dport] = stack.host(name).udp_port(stream.dport, senders=senders)
    for flow in activities:
        if isinstance(flow, TcpFlow):
            for name in destinations(hosts, flow.dst, flow.src):
                if (name, flow.dport) not in tcp:
                    config = TcpConfig(cc=flow.control)
                    tcp[name, flow.dport] = stack.host(name).tcp_port(flow.dport, config=config)
    return Ports(udp, tcp)


def begin(stack: IpStack, activity: Activity, ports: Ports, now: int) -> Doing:
    """Begins something, `start_ps` after `now`."""
    match activity:
        case EchoTrain():
            return _Pinging(stack, activity, now)
        case UdpStream():
            return _Streaming(stack, activity, ports, now)
        case TcpFlow():
            return _Connected(stack, activity, ports, now)
        case FrameTrain():
            return _Framing(stack, activity, now)


class _Pinging:
    """Echo requests and their answers."""

    def __init__(self, stack: IpStack, activity: EchoTrain, now: int) -> None:
        self.activity = activity
        self._end = now + activity.start_ps + activity.count * activity.interval_ps + _PATIENCE_PS
        self._ping = stack.host(activity.src).ping(
            str(activity.dst),
            count=activity.count,
            interval_ps=activity.interval_ps,
            size=activity.size,
            start_ps=now + activity.start_ps,
        )

    def over(self) -> bool:
        return self._ping.result().answered_ps.size >= self.activity.count

    def still_sends(self, now: int) -> bool:
        return now < self._end

    def parts(self) -> list[FlowShare]:
        size, trips = self.activity.size, self._ping.result().rtts_ps.tolist()
        trips += [0] * (self.activity.count - len(trips))
        return [FlowShare(size, size if trip else 0, bool(trip), trip or None) for trip in trips]

    def row(self) -> dict[str, Any]:
        result = self._ping.result()
        trips = result.answered_ps / US
        known = trips.size > 0
        return {
            "src": self.activity.src,
            "dst": str(self.activity.dst),
            "sent": result.sent,
            "received": result.received,
            "rtt_min_us": round(float(trips.min()), 3) if known else None,
            "rtt_mean_us": round(float(trips.mean()), 3) if known else None,
            "rtt_max_us": round(float(trips.max()), 3) if known else None,
        }


class _Streaming:
    """Datagrams, and who got them."""

    def __init__(self, stack: IpStack, activity: UdpStream, ports: Ports, now: int) -> None:
        self.activity, self._ports = activity, ports
        self._source = str(stack.host(activity.src).address(activity.dst.version == 6))
        self._stop = now + activity.start_ps + activity.time_ps
        mode = _MODES[activity.model]
        burst = _BURST_PS if mode == "on-off" else 0
        self._flow = stack.host(activity.src).udp(
            str(activity.dst),
            spacing=Spacing(activity.rate_bps, activity.size, mode=mode, on_ps=burst, off_ps=burst),
            port=activity.dport,
            source_port=activity.sport,
            start_ps=now + activity.start_ps,
            stop_ps=self._stop,
            tos=activity.tos,
        )

    def _received(self) -> list[tuple[str, ReceivedResult]]:
        """(receiver, what it got of this stream)."""
        found = []
        for (name, number), port in self._ports.udp.items():
            if number == self.activity.dport:
                for result in port.results():
                    if (result.source, result.source_port) == (self._source, self.activity.sport):
                        found.append((name, result))
        return found

    def over(self) -> bool:
        sent = self._flow.result()
        return sent.done and sum(result.packets for _, result in self._received()) >= sent.packets

    def still_sends(self, now: int) -> bool:
        return now < self._stop

    def parts(self) -> list[FlowShare]:
        sent, received = self._flow.result(), self._received()
        bytes_in = sum(result.bytes for _, result in received)
        complete = sent.done and sent.packets > 0 and bytes_in >= sent.bytes
        last = max((result.last_ps for _, result in received), default=0)
        return [FlowShare(sent.bytes, bytes_in, complete, last - sent.first_ps if complete else None)]

    def row(self) -> dict[str, Any]:
        sent, received = self._flow.result(), self._received()
        packets = sum(result.packets for _, result in received)
        delays = [(result.delay_mean_ps * result.packets, result.delay_max_ps) for _, result in received]
        return {
            "src": self.activity.src,
            "dst": str(self.activity.dst),
            "sport": self.activity.sport,
            "dport": self.activity.dport,
            "to": {name: result.packets for name, result in received},
            "sent": sent.packets,
            "received": packets,
            "lost": sent.packets - packets,
            "marked": sum(result.ce for _, result in received),
            "mbps": round(sum(result.goodput_bps for _, result in received) / 1e6, 3),
            "delay_mean_us": round(sum(each for each, _ in delays) / packets / US, 3) if packets else None,
            "delay_max_us": round(max(each for _, each in delays) / US, 3) if packets else None,
        }


class _Connected:
    """A connection that carries bytes."""

    def __init__(self, stack: IpStack, activity: TcpFlow, ports: Ports, now: int) -> None:
        self.activity, self._ports = activity, ports
        self._source = str(stack.host(activity.src).address(activity.dst.version == 6))
        self._start = now + activity.start_ps
        self._stop = None if activity.time_ps is None else self._start + activity.time_ps
        self._connection = stack.host(activity.src).tcp(
            str(activity.dst),
            port=activity.dport,
            nbytes=activity.bytes,
            config=TcpConfig(cc=activity.control),
            start_ps=self._start,
            stop_ps=self._stop,
            source_port=activity.sport,
        )

    def _received(self) -> list[tuple[str, ReceivedStream]]:
        """(receiver, what it got of this connection)."""
        return [
            (name, result)
            for (name, number), port in self._ports.tcp.items()
            if number == self.activity.dport
            for result in port.results()
            if (result.source, result.source_port) == (self._source, self.activity.sport)
        ]

    def _complete(self) -> bool:
        """All bytes are there; of a connection that lasts a time, all that were sent."""
        result = self._connection.result()
        if self.activity.bytes is not None:
            return result.acked >= self.activity.bytes
        return result.done and not result.error

    def over(self) -> bool:
        return self._complete() or self._connection.result().done

    def still_sends(self, now: int) -> bool:
        """Retransmissions come after a second or more, with nothing under way in between."""
        return not self.over()

    def parts(self) -> list[FlowShare]:
        result, received = self._connection.result(), self._received()
        delivered = sum(each.bytes for _, each in received)
        last = max((each.last_ps for _, each in received), default=0)
        wanted = result.acked if self.activity.bytes is None else self.activity.bytes
        complete = self._complete()
        return [FlowShare(wanted, delivered, complete, last - self._start if complete else None)]

    def row(self) -> dict[str, Any]:
        result, received = self._connection.result(), self._received()
        return {
            "src": self.activity.src,
            "dst": str(self.activity.dst),
            "sport": self.activity.sport,
            "dport": self.activity.dport,
            "to": {name: each.bytes for name, each in received},
            "control": self.activity.control,
            "state": result.error or result.state,
            "acked_bytes": result.acked,
            "mbps": round(result.goodput_bps / 1e6, 3),
            "segments": result.sent_segments,
            "retransmitted": result.retransmitted,
            "timeouts": result.timeouts,
            "marked": sum(each.ce for _, each in received),
            "srtt_us": round(result.srtt_ps / US, 3),
        }


class _Framing:
    """Frames, and what came to whom meanwhile."""

    def __init__(self, stack: IpStack, activity: FrameTrain, now: int) -> None:
        self.activity = activity
        self._hosts = {stack.host(number).name: stack.host(number) for number in range(stack.hosts)}
        self._end = now + activity.start_ps + len(activity.frames) * activity.count * activity.interval_ps
        self._before = {name: host.counters()["rx_frames"] for name, host in self._hosts.items()}
        self._frames = stack.host(activity.src).send_frames(
            activity.frames,
            interval_ps=activity.interval_ps,
            repeat=activity.count,
            start_ps=now + activity.start_ps,
        )

    def _received(self) -> dict[str, int]:
        """Frames of whatever kind."""
        found = {name: host.counters()["rx_frames"] - self._before[name] for name, host in self._hosts.items()}
        return {name: frames for name, frames in found.items() if frames}

    def over(self) -> bool:
        """A frame may be answered, copied or swallowed: only that somebody got as many is known."""
        sent = self._frames.result()
        return sent.done and sum(self._received().values()) >= sent.packets

    def still_sends(self, now: int) -> bool:
        return now < self._end

    def parts(self) -> list[FlowShare]:
        """Whose they would be, only the program knows."""
        return []

    def row(self) -> dict[str, Any]:
        return {"src": self.activity.src, "sent": self._frames.result().packets, "came_to": self._received()}
