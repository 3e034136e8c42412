# SPDX-License-Identifier: Apache-2.0
"""Results of a lab's run: the document of `detour sim`, observations of hosts and ports, and how queues, ports and
flows changed over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from detour.base.times import US
from detour.fabric.labs.boot import BootedLab
from detour.fabric.labs.host_jobs import FlowShare, HostJob
from detour.fabric.labs.model import LabEnd
from detour.fabric.labs.workloads import EchoTrain, FrameTrain, TcpFlow, UdpStream
from detour.hosts.ip.hosts import IpStack

MOST_SAMPLES = 1_024
"""A run that goes on is looked at half as often, and what is between is forgotten."""
_FIRST_STEP_PS = 10 * US
_DIGITS = 3
_SHARES = ("mean", "p50", "p95", "p99", "p999")
_BY_SWITCHES = {
    "ingress_drops": "dropped by the program's ingress",
    "egress_drops": "dropped by the program's egress",
    "no_port_drops": "sent to a port without a link",
    "no_pipeline_drops": "there is no program",
    "unknown_groups": "sent to a multicast group that is not there",
    "empty_groups": "sent to a multicast group without ports",
    "priority_drops": "sent to a priority that the port has not",
    "header_drops": "headers too long",
    "empty_drops": "nothing left to send",
    "input_drops": "the switch's input was full",
}
_BY_HOSTS = {
    "rx_other_mac": "addressed to another MAC address",
    "rx_other_address": "addressed to another IP address",
    "rx_malformed": "malformed",
    "rx_bad_checksum": "wrong checksum",
    "rx_unknown": "of a protocol that the host does not know",
    "rx_no_port": "nobody listens at the port",
    "unresolved": "not sent: no answer to ARP or neighbour discovery",
}
_KINDS = {"pings": EchoTrain, "udp": UdpStream, "tcp": TcpFlow, "frames": FrameTrain}


def document_of(
    booted: BootedLab, stack: IpStack | None, jobs: Sequence[HostJob], end_ps: int, circling: int = 0
) -> dict[str, Any]:
    """The document; `circling`: packets that went in circles when the run ended. Its first part has the keys of `detour
    sim` (docs/sim.md), with None for the slowdown, since no empty network is simulated beside it; then what each host
    did, by name, where frames ended that came to nobody, and what each port carried."""
    parts = [part for job in jobs for part in job.parts()]
    ports = ports_of(booted, end_ps)
    to_hosts = sum(port["tx_bytes"] for port in ports if port["peer"] in {host.name for host in booted.lab.hosts})
    seconds = end_ps / 1e12
    return {
        "flows": len(parts),
        "completed": sum(part.complete for part in parts),
        "bytes": sum(part.bytes for part in parts),
        "delivered_bytes": sum(part.delivered for part in parts),
        "fct_us": _percentiles(parts),
        "slowdown": dict.fromkeys(_SHARES),
        "steps": [],
        "wire_gbps": round(to_hosts * 8e-9 / seconds, 6) if seconds else 0.0,
        "drops": sum(port["queue_drops"] for port in ports) + booted.network.link_drops(),
        "seconds": seconds,
        "ended_by": _ended_by(jobs, cut=not (circling or booted.network.idle)),
        "incomplete": sum(not part.complete for part in parts),
        "virtual_s": seconds,
        "unanswered": 0 if _under_way(booted) > circling else sum(job.unanswered() for job in jobs),
        "circling": circling,
        "lab": {"format": booted.lab.format, "hosts": [host.name for host in booted.lab.hosts]},
        **rows_of(jobs),
        "dropped": dropped(booted, stack),
        "ports": ports,
        "switches": switches_of(booted),
    }


def _ended_by(jobs: Sequence[HostJob], cut: bool) -> str:
    """Why a run ended; `cut`: more would have happened. Datagrams and frames that were lost come from nobody again: to
    have sent them is all there is to do."""
    if cut and not all(job.over() for job in jobs):
        return "duration"
    answered = (part.complete for job in jobs if isinstance(job.activity, EchoTrain | TcpFlow) for part in job.parts())
    return "delivered" if all(answered) else "stuck"


def _under_way(booted: BootedLab) -> int:
    """Packets on links and in switches."""
    return booted.network.loop_stats()["used"]


def rows_of(jobs: Sequence[HostJob]) -> dict[str, Any]:
    """Return the hosts' results, a list for each kind."""
    return {name: [each.row() for each in jobs if isinstance(each.activity, kind)] for name, kind in _KINDS.items()}


def _percentiles(parts: Sequence[FlowShare]) -> dict[str, float | None]:
    """Return percentiles of the times of complete flows, in us."""
    times = np.array([part.time_ps for part in parts if part.complete and part.time_ps is not None]) / US
    if not times.size:
        return dict.fromkeys(_SHARES)
    values = (times.mean(), *np.percentile(times, (50, 95, 99, 99.9)))
    return {name: round(float(value), _DIGITS) for name, value in zip(_SHARES, values, strict=True)}


def peers_of(booted: BootedLab) -> dict[LabEnd, str]:
    """Name the far end of each port: a host's name, or `s2-p3`."""
    hosts = {host.name for host in booted.lab.hosts}
    peers: dict[LabEnd, str] = {}
    for link in booted.lab.links:
        for here, there in ((link.a, link.b), (link.b, link.a)):
            if here.node not in hosts:
                peers[here] = there.node if there.node in hosts else f"{there.node}-p{there.port}"
    return peers


def ports_of(booted: BootedLab, end_ps: int) -> list[dict[str, Any]]:
    """Return the traffic of each switch port, towards its peer."""
    stats = booted.network.port_stats()
    names = ("tx_packets", "tx_bytes", "queue_peak_packets", "queue_drops", "link_drops", "busy_ps")
    rows = {
        (device, port): dict(zip(names, values, strict=True))
        for device, port, *values in zip(*(stats[name].tolist() for name in ("device_id", "port", *names)), strict=True)
    }
    ports = []
    for end, peer in peers_of(booted).items():
        row = rows[booted.port(end)]
        busy = row.pop("busy_ps")
        use = round(busy / end_ps, 4) if end_ps else 0.0
        ports.append({"switch": end.node, "port": end.port, "peer": peer, **row, "utilisation": use})
    return ports


def switches_of(booted: BootedLab) -> list[dict[str, Any]]:
    """Return each switch's packet counts."""
    stats = booted.network.switch_stats()
    devices = stats.pop("device_id").tolist()
    stats.pop("time_ps")
    switches = []
    for switch in booted.lab.switches:
        at = devices.index(switch.device_id)
        switches.append({"switch": switch.name} | {name: int(values[at]) for name, values in stats.items()})
    return switches


def dropped(booted: BootedLab, stack: IpStack | None) -> list[dict[str, Any]]:
    """Return where frames ended that did not arrive, queues and links apart: where, why, and how many."""
    hosts = [] if stack is None else [stack.host(number) for number in range(stack.hosts)]
    counted = [(row["switch"], row, _BY_SWITCHES) for row in switches_of(booted)]
    counted += [(host.name, host.counters(), _BY_HOSTS) for host in hosts]
    return [
        {"where": name, "why": why, "frames": counts[counter]}
        for name, counts, reasons in counted
        for counter, why in reasons.items()
        if counts[counter]
    ]


# -- over time ------------------------------------------------------------------------------------------------


class LabSeries(NamedTuple):
    """Samples over time. `times_ps` (samples,); `queue_packets`, `tx_bytes` and `queue_drops` (samples, ports), counted
    from the start but for the queue, which is its current length; `delivered` and `marked` (samples, flows), bytes and
    packets with "congestion experienced" that receivers have had."""

    times_ps: np.ndarray
    ports: tuple[str, ...]
    """`s1-3 (to s2-p2)`"""
    queue_packets: np.ndarray
    tx_bytes: np.ndarray
    queue_drops: np.ndarray
    flows: tuple[str, ...]
    """`h1:40000 to 10.0.3.3:5201`"""
    delivered: np.ndarray
    marked: np.ndarray


class LabSampler:
    """Looks at a lab in virtual time every `step_ps`."""

    def __init__(self, booted: BootedLab, jobs: Sequence[HostJob]) -> None:
        self.step_ps = _FIRST_STEP_PS
        self._booted, self._jobs = booted, [job for job in jobs if "marked" in job.row()]
        self._peers = peers_of(booted)
        self._ends = [booted.port(end) for end in self._peers]
        self._times: list[int] = []
        self._samples: list[tuple[np.ndarray, np.ndarray]] = []

    def look(self, now_ps: int) -> None:
        self._times.append(now_ps)
        self._samples.append((self._of_ports(), self._of_flows()))
        if len(self._times) > MOST_SAMPLES:
            del self._times[1::2], self._samples[1::2]
            self.step_ps *= 2

    def _of_ports(self) -> np.ndarray:
        """(3, ports)"""
        stats = self._booted.network.port_stats()
        place = {end: i for i, end in enumerate(zip(stats["device_id"].tolist(), stats["port"].tolist(), strict=True))}
        rows = [place[end] for end in self._ends]
        return np.array([stats[name][rows] for name in ("queue_packets", "tx_bytes", "queue_drops")])

    def _of_flows(self) -> np.ndarray:
        """(2, flows)"""
        delivered = [sum(part.delivered for part in job.parts()) for job in self._jobs]
        return np.array([delivered, [job.row()["marked"] for job in self._jobs]])

    def series(self) -> LabSeries:
        ports = np.array([of_ports for of_ports, _ in self._samples])
        flows = np.array([of_flows for _, of_flows in self._samples])
        names = tuple(f"{end.node}-{end.port} (to {peer})" for end, peer in self._peers.items())
        queued, sent, dropped = np.moveaxis(ports, 1, 0)
        delivered, marked = np.moveaxis(flows, 1, 0)
        rows = [job.row() for job in self._jobs]
        flow_names = tuple(f"{row['src']}:{row['sport']} to {row['dst']}:{row['dport']}" for row in rows)
        return LabSeries(np.array(self._times), names, queued, sent, dropped, flow_names, delivered, marked)
