# SPDX-License-Identifier: Apache-2.0
"""Running activities of a lab's hosts: started, finished or not, and their results."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from detour.base.errors import DetourError
from detour.base.times import MS, US
from detour.engine.network import Network
from detour.fabric.labs.model import LabHost
from detour.fabric.labs.workloads import FIRST_SOURCE_PORT, Activity, EchoTrain, FrameTrain, TcpFlow, UdpStream
from detour.hosts.ip.arrival_process import Spacing
from detour.hosts.ip.connections import TcpListener
from detour.hosts.ip.hosts import IpStack
from detour.hosts.ip.sockets import UdpPort
from detour.hosts.ip.tcp.config import TcpConfig

_MODES = {"constant": "constant", "poisson": "poisson", "onoff": "on-off"}
_BURST_PS = 10 * MS
_SENDERS = 16
_LAST_PORT = 65_535


@dataclass(frozen=True)
class FlowShare:
    """A flow in the document of `detour sim`: a ping's round trip, a stream, a connection."""

    bytes: int
    delivered: int
    complete: bool
    time_ps: int | None


class HostJob(ABC):
    """An activity under way."""

    def __init__(self, activity: Any, end_ps: int) -> None:
        """`end_ps`: after that nothing is sent."""
        self.activity, self._end_ps = activity, end_ps

    @abstractmethod
    def over(self) -> bool:
        """Return whether all of it has come to its end."""

    def still_sends(self, now: int) -> bool:
        """Return whether something is yet to be sent."""
        return now < self._end_ps

    def unanswered(self) -> int:
        """Flows that have sent something to which nothing came back."""
        return 0

    @abstractmethod
    def parts(self) -> list[FlowShare]:
        """Return the activity's flows."""

    @abstractmethod
    def row(self) -> dict[str, Any]:
        """Return the activity's row."""


class HostJobs:
    """The built-in hosts of a lab, the ports that they listen at, and what they are told to do. Methods may be called
    from several threads."""

    def __init__(self, network: Network, hosts: Sequence[LabHost], stack: IpStack) -> None:
        self._network, self._hosts, self._stack = network, hosts, stack
        self._udp: dict[tuple[str, int], UdpPort] = {}
        self._tcp: dict[tuple[str, int], TcpListener] = {}
        self._next_port = FIRST_SOURCE_PORT
        self._lock = threading.Lock()

    def begin(self, activities: Sequence[Activity]) -> list[HostJob]:
        """Begin activities now; hosts that they send to listen. Raises DetourError: there is no source port left."""
        with self._lock:
            numbered = [self._with_source_port(each) for each in activities]
            self._listen(numbered)
            now = self._network.now_ps
            return [self._begun(each, now) for each in numbered]

    def _with_source_port(self, activity: Activity) -> Activity:
        """With a port of its own if it names none, so that no two flows are taken for one."""
        if isinstance(activity, EchoTrain | FrameTrain) or activity.sport:
            return activity
        if self._next_port > _LAST_PORT:
            raise DetourError(f"no source ports are left after {_LAST_PORT - FIRST_SOURCE_PORT} flows")
        self._next_port += 1
        return replace(activity, sport=self._next_port - 1)

    def _listen(self, activities: Sequence[Activity]) -> None:
        """Open the ports that are sent to and not open yet."""
        streams = [each for each in activities if isinstance(each, UdpStream)]
        for activity in activities:
            if not isinstance(activity, UdpStream | TcpFlow):
                continue
            owner = [host.name for host in self._hosts if host.address.ip == activity.dst]
            # What is sent to a virtual address any host but the sender may get.
            for name in owner or [host.name for host in self._hosts if host.name != activity.src]:
                place, host = (name, activity.dport), self._stack.host(name)
                if isinstance(activity, TcpFlow) and place not in self._tcp:
                    self._tcp[place] = host.tcp_port(activity.dport, config=TcpConfig(cc=activity.control))
                elif isinstance(activity, UdpStream) and place not in self._udp:
                    senders = max(_SENDERS, sum(each.dport == activity.dport for each in streams))
                    self._udp[place] = host.udp_port(activity.dport, senders=senders)

    def _begun(self, activity: Activity, now: int) -> HostJob:
        match activity:
            case EchoTrain():
                return _Ping(self._stack, activity, now)
            case UdpStream():
                return _Stream(self._stack, activity, self._udp, now)
            case TcpFlow():
                return _Connection(self._stack, activity, self._tcp, now)
            case FrameTrain():
                return _Frames(self._stack, activity, now)


class _Ping(HostJob):
    """Echo requests and their answers."""

    def __init__(self, stack: IpStack, activity: EchoTrain, now: int) -> None:
        start, count, interval = now + activity.start_ps, activity.count, activity.interval_ps
        super().__init__(activity, start + count * interval)
        self._ping = stack.host(activity.src).ping(
            str(activity.dst), count=count, interval_ps=interval, size=activity.size, start_ps=start
        )

    def over(self) -> bool:
        return self._ping.result().answered_ps.size >= self.activity.count

    def unanswered(self) -> int:
        result = self._ping.result()
        return result.sent - result.received

    def parts(self) -> list[FlowShare]:
        size, trips = self.activity.size, self._ping.result().rtts_ps.tolist()
        trips += [0] * (self.activity.count - len(trips))
        return [FlowShare(size, size if trip else 0, bool(trip), trip or None) for trip in trips]

    def row(self) -> dict[str, Any]:
        result = self._ping.result()
        trips, ends = result.answered_ps / US, {"src": self.activity.src, "dst": str(self.activity.dst)}
        row: dict[str, Any] = ends | {"sent": result.sent, "received": result.received}
        for name, of in (("min", trips.min), ("mean", trips.mean), ("max", trips.max)):
            row[f"rtt_{name}_us"] = round(float(of()), 3) if trips.size else None
        return row


class _Flow(HostJob):
    """A stream or a connection, which receivers know by its source."""

    def __init__(self, stack: IpStack, activity: Any, ports: dict[tuple[str, int], Any], end_ps: int) -> None:
        super().__init__(activity, end_ps)
        self._ports = ports
        self._source = str(stack.host(activity.src).address(activity.dst.version == 6)), activity.sport

    def _received(self) -> list[tuple[str, Any]]:
        """(receiver, what it got of this flow)."""
        return [
            (name, result)
            for (name, number), port in self._ports.items()
            if number == self.activity.dport
            for result in port.results()
            if (result.source, result.source_port) == self._source
        ]

    def _ends(self, received: dict[str, int]) -> dict[str, Any]:
        """The columns that say from where to where; `received`: by receiver."""
        a = self.activity
        return {"src": a.src, "dst": str(a.dst), "sport": a.sport, "dport": a.dport, "to": received}


class _Stream(_Flow):
    """Datagrams, and who got them."""

    def __init__(self, stack: IpStack, activity: UdpStream, ports: dict[tuple[str, int], UdpPort], now: int) -> None:
        start = now + activity.start_ps
        super().__init__(stack, activity, ports, start + activity.time_ps)
        mode = _MODES[activity.model]
        burst = _BURST_PS if mode == "on-off" else 0
        self._flow = stack.host(activity.src).udp(
            str(activity.dst),
            spacing=Spacing(activity.rate_bps, activity.size, mode=mode, on_ps=burst, off_ps=burst),
            port=activity.dport,
            source_port=activity.sport,
            start_ps=start,
            stop_ps=self._end_ps,
            tos=activity.tos,
        )

    def over(self) -> bool:
        sent = self._flow.result()
        return sent.done and sum(result.packets for _, result in self._received()) >= sent.packets

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
        return self._ends({name: result.packets for name, result in received}) | {
            "sent": sent.packets,
            "received": packets,
            "lost": sent.packets - packets,
            "marked": sum(result.ce for _, result in received),
            "mbps": round(sum(result.goodput_bps for _, result in received) / 1e6, 3),
            "delay_mean_us": round(sum(each for each, _ in delays) / packets / US, 3) if packets else None,
            "delay_max_us": round(max(each for _, each in delays) / US, 3) if packets else None,
        }


class _Connection(_Flow):
    """A connection that carries bytes."""

    def __init__(self, stack: IpStack, activity: TcpFlow, ports: dict[tuple[str, int], TcpListener], now: int) -> None:
        super().__init__(stack, activity, ports, 0)
        self._start = now + activity.start_ps
        self._connection = stack.host(activity.src).tcp(
            str(activity.dst),
            port=activity.dport,
            nbytes=activity.bytes,
            config=TcpConfig(cc=activity.control),
            start_ps=self._start,
            stop_ps=None if activity.time_ps is None else self._start + activity.time_ps,
            source_port=activity.sport,
        )

    def _complete(self) -> bool:
        """All bytes are there; of a connection that lasts a time, all that were sent."""
        result = self._connection.result()
        if self.activity.bytes is not None:
            return result.acked >= self.activity.bytes
        return result.done and not result.error

    def over(self) -> bool:
        return self._complete() or self._connection.result().done

    def still_sends(self, now: int) -> bool:
        return not self.over()

    def unanswered(self) -> int:
        result = self._connection.result()
        return int(result.sent_segments > 0 and (result.state == "syn-sent" or result.error == "timed out"))

    def parts(self) -> list[FlowShare]:
        result, received = self._connection.result(), self._received()
        delivered = sum(each.bytes for _, each in received)
        last = max((each.last_ps for _, each in received), default=0)
        size = result.acked if self.activity.bytes is None else self.activity.bytes
        complete = self._complete()
        return [FlowShare(size, delivered, complete, last - self._start if complete else None)]

    def row(self) -> dict[str, Any]:
        result, received = self._connection.result(), self._received()
        return self._ends({name: each.bytes for name, each in received}) | {
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


class _Frames(HostJob):
    """Frames, and what came to whom meanwhile."""

    def __init__(self, stack: IpStack, activity: FrameTrain, now: int) -> None:
        start, count, interval = now + activity.start_ps, activity.count, activity.interval_ps
        super().__init__(activity, start + len(activity.frames) * count * interval)
        self._hosts = {stack.host(number).name: stack.host(number) for number in range(stack.hosts)}
        self._before = {name: host.counters()["rx_frames"] for name, host in self._hosts.items()}
        self._frames = stack.host(activity.src).send_frames(
            activity.frames, interval_ps=interval, repeat=count, start_ps=start
        )

    def _received(self) -> dict[str, int]:
        """Frames of whatever kind."""
        frames = {name: host.counters()["rx_frames"] - self._before[name] for name, host in self._hosts.items()}
        return {name: count for name, count in frames.items() if count}

    def over(self) -> bool:
        """A frame may be answered, copied or swallowed: only that somebody got as many is known."""
        sent = self._frames.result()
        return sent.done and sum(self._received().values()) >= sent.packets

    def parts(self) -> list[FlowShare]:
        """Only the program knows whose they would be."""
        return []

    def row(self) -> dict[str, Any]:
        return {"src": self.activity.src, "sent": self._frames.result().packets, "came_to": self._received()}
