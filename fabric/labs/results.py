# SPDX-License-Identifier: Apache-2.0
"""What is said of a run of a lab: the document of `detour sim`, and what hosts and ports saw beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from detour.base.times import US
from detour.fabric.labs.boot import BootedLab
from detour.fabric.labs.host_jobs import Doing, FlowShare
from detour.fabric.labs.model import LabEnd
from detour.fabric.labs.workloads import EchoTrain, FrameTrain, TcpFlow, UdpStream

_DIGITS = 3
_KINDS = {"pings": EchoTrain, "udp": UdpStream, "tcp": TcpFlow, "frames": FrameTrain}


def document_of(booted: BootedLab, doings: Sequence[Doing], end_ps: int, *, cut: bool = False) -> dict[str, Any]:
    """The document; `cut`: something was under way when the run ended.

    Its first part has the keys of `detour sim` (docs/sim.md), with None for the slowdown, since no empty network is
    simulated beside it; then what each host did, by name, and what each port carried."""
    parts = [part for doing in doings for part in doing.parts()]
    ports = ports_of(booted, end_ps)
    to_hosts = sum(port["tx_bytes"] for port in ports if port["peer"] in {host.name for host in booted.lab.hosts})
    seconds = end_ps / 1e12
    return {
        "flows": len(parts),
        "completed": sum(part.complete for part in parts),
        "bytes": sum(part.bytes for part in parts),
        "delivered_bytes": sum(part.delivered for part in parts),
        "fct_us": _percentiles(parts),
        "slowdown": dict.fromkeys(("mean", "p50", "p95", "p99", "p999")),
        "steps": [],
        "wire_gbps": round(to_hosts * 8e-9 / seconds, 6) if seconds else 0.0,
        "drops": sum(port["queue_drops"] for port in ports) + booted.network.link_drops(),
        "seconds": seconds,
        "ended_by": _ended_by(doings, end_ps, cut),
        "incomplete": sum(not part.complete for part in parts),
        "virtual_s": seconds,
        "lab": {"format": booted.lab.format, "hosts": [host.name for host in booted.lab.hosts]},
        **rows_of(doings),
        "ports": ports,
        "switches": switches_of(booted),
    }


def _ended_by(doings: Sequence[Doing], end_ps: int, cut: bool) -> str:
    """Why a run ended. Datagrams and frames that were lost come from nobody again: to have sent them is all there is to
    do."""
    left = [each for each in doings if not each.over()]
    if left and (cut or any(each.still_sends(end_ps) for each in left)):
        return "duration"
    return "stuck" if any(isinstance(each.activity, EchoTrain | TcpFlow) for each in left) else "delivered"


def rows_of(doings: Sequence[Doing]) -> dict[str, Any]:
    """What hosts did, a list for each kind."""
    return {name: [each.row() for each in doings if isinstance(each.activity, kind)] for name, kind in _KINDS.items()}


def _percentiles(parts: Sequence[FlowShare]) -> dict[str, float | None]:
    """Of the times of what is complete, in us."""
    times = np.array([part.time_ps for part in parts if part.complete and part.time_ps is not None]) / US
    if not times.size:
        return dict.fromkeys(("mean", "p50", "p95", "p99", "p999"))
    found = (times.mean(), *np.percentile(times, (50, 95, 99, 99.9)))
    names = ("mean", "p50", "p95", "p99", "p999")
    return {name: round(float(value), _DIGITS) for name, value in zip(names, found, strict=True)}


def peers_of(booted: BootedLab) -> dict[LabEnd, str]:
    """What is at the other end of each port: a host's name, or `s2-p3`."""
    hosts = {host.name for host in booted.lab.hosts}
    found: dict[LabEnd, str] = {}
    for link in booted.lab.links:
        for here, there in ((link.a, link.b), (link.b, link.a)):
            if here.node not in hosts:
                found[here] = there.node if there.node in hosts else f"{there.node}-p{there.port}"
    return found


def ports_of(booted: BootedLab, end_ps: int) -> list[dict[str, Any]]:
    """What each port of a switch carried, towards its peer."""
    stats = booted.network.port_stats()
    names = ("tx_packets", "tx_bytes", "queue_peak_packets", "queue_drops", "link_drops", "busy_ps")
    rows = {
        (device, port): dict(zip(names, values, strict=True))
        for device, port, *values in zip(*(stats[name].tolist() for name in ("device_id", "port", *names)), strict=True)
    }
    found = []
    for end, peer in peers_of(booted).items():
        row = rows[booted.port(end)]
        busy = row.pop("busy_ps")
        use = round(busy / end_ps, 4) if end_ps else 0.0
        found.append({"switch": end.node, "port": end.port, "peer": peer, **row, "utilisation": use})
    return found


def switches_of(booted: BootedLab) -> list[dict[str, Any]]:
    """What each switch did with packets."""
    stats = booted.network.switch_stats()
    devices = stats.pop("device_id").tolist()
    stats.pop("time_ps")
    found = []
    for switch in booted.lab.switches:
        at = devices.index(switch.device_id)
        found.append({"switch": switch.name} | {name: int(values[at]) for name, values in stats.items()})
    return found
