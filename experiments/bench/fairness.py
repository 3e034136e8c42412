# SPDX-License-Identifier: Apache-2.0
"""How equal senders share a full queue, by transport: Jain's index of what each gets through, over 20 seeds.

All senders begin together, or, with every second seed, a microsecond apart, and send at the rate of the bottleneck for
as long as that takes to carry `_PACKETS` of each. RDMA transports: a star at 100 Gb/s, with marks, or without and with
20 kB of memory a port, a queue of 18 packets. UDP and TCP: `experiments.tcp.dumbbell`. TCP has 16 packets of queue a
connection and four times as long, so that windows rise and fall often enough. Go-back-N without congestion control has
no row: at such losses it brings through next to nothing, whoever sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.dataplane import PACKET_BYTES
from detour.base.progress import Progress, silent
from detour.base.times import US
from detour.control.policy import NoMarking
from detour.engine.jitter import AUTO
from detour.experiments.bench.report import BenchReport, Goal
from detour.experiments.measure import jain
from detour.experiments.tcp.dumbbell import Bottleneck, Dumbbell, address
from detour.fabric.footings.virtual.fabric import ENDLESS, VirtualFabric
from detour.fabric.footings.virtual.scheme import (
    SHORTEST_LERP,
    SPRAY_LERP,
    TELEMETRY_GBN,
    RunSettings,
    Scheme,
    SwitchMemory,
)
from detour.hosts.ip.spacing import Spacing
from detour.hosts.ip.tcp.config import TcpConfig
from detour.topo import parse_topology

_PACKETS = 10_000
_TCP_PACKETS = 40_000
EQUAL_SENDERS = (2, 3, 8)
_SEEDS = range(1, 21)
FAIR_INDEX = 0.98
_SHALLOW = 20_000
_APART_PS = US
_CABLE = Bottleneck(1_000_000_000, 50 * US, 64)
_UDP_BYTES, _IP_FRAME = 1_000, 1_042
_MSS_FRAME = 1_514
_TCP_QUEUE = 16
_PORT = 5001


@dataclass(frozen=True)
class FairnessRow:
    """`jain_mean`, `jain_min`: over all seeds."""

    transport: str
    senders: int
    jain_mean: float
    jain_min: float


def _plain(name: str, scheme: Scheme, control: str) -> Scheme:
    return replace(scheme, name=name, control=control, paths="shortest", ecn=NoMarking())


_GO_BACK_N = replace(TELEMETRY_GBN, paths="shortest", hosts=())
RDMA_SENDERS: dict[str, tuple[Scheme, int | None]] = {
    "LERP, DCTCP": (SHORTEST_LERP, None),
    "LERP, DCTCP, no marks": (_plain("fair", SHORTEST_LERP, "dctcp"), _SHALLOW),
    "LERP, fixed window, no marks": (_plain("fair", SHORTEST_LERP, "fixed"), _SHALLOW),
    "SprayLERP": (SPRAY_LERP, None),
    "go-back-N, DCQCN": (_GO_BACK_N, None),
    "go-back-N, DCTCP": (replace(_GO_BACK_N, control="dctcp", ecn=SHORTEST_LERP.ecn), None),
}
"""scheme, and memory of a port in bytes (None: as usual)"""
_TCP = ("cubic", "newreno", "dctcp")


def rdma_shares(scheme: Scheme, port_bytes: int | None, senders: int, seed: int) -> Int64Array:
    """(senders,) bytes that each of them has brought to the last host of a star."""
    topology = parse_topology(f"leaf-spine:leaves=1,spines=1,hosts={senders + 1}")
    memory = SwitchMemory() if port_bytes is None else SwitchMemory(port_bytes=port_bytes)
    with VirtualFabric(
        topology, scheme, RunSettings(memory=memory, seed=seed, jitter_ps=AUTO), queue_pairs=senders
    ) as fabric:
        fabric.connect([(host, senders) for host in range(senders)])
        for host in range(senders):
            fabric.send(ENDLESS, np.array([host]))
            fabric.run(fabric.now_ps + _apart(seed))
        fabric.run(fabric.now_ps + senders * _PACKETS * PACKET_BYTES * 8 * 10**12 // fabric.settings.links.rate_bps)
        return fabric.column("st_rx_bytes")


def udp_shares(senders: int, seed: int) -> Int64Array:
    """The same of datagrams through a cable that each sender fills alone."""
    with Dumbbell(senders, _CABLE, seed=seed, jitter=True) as bell:
        ports = [bell.stack.host(f"b{place}").udp_port(_PORT) for place in range(senders)]
        rate = _CABLE.rate_bps * _UDP_BYTES / _IP_FRAME
        for place in range(senders):
            sender = bell.stack.host(f"a{place}")
            sender.udp(address(2, place), spacing=Spacing(rate, _UDP_BYTES), port=_PORT, start_ps=place * _apart(seed))
        bell.network.run(senders * _PACKETS * _IP_FRAME * 8 * 10**12 // _CABLE.rate_bps)
        return np.array([sum(result.bytes for result in port.results()) for port in ports])


def tcp_shares(control: str, senders: int, seed: int) -> Int64Array:
    """The same of connections."""
    config = TcpConfig(cc=control)
    cable = replace(_CABLE, queue_packets=_TCP_QUEUE * senders)
    with Dumbbell(senders, cable, seed=seed, jitter=True) as bell:
        ports = [bell.stack.host(f"b{place}").tcp_port(_PORT, config=config) for place in range(senders)]
        for place in range(senders):
            sender = bell.stack.host(f"a{place}")
            sender.tcp(address(2, place), port=_PORT, config=config, start_ps=place * _apart(seed))
        bell.network.run(senders * _TCP_PACKETS * _MSS_FRAME * 8 * 10**12 // _CABLE.rate_bps)
        return np.array([sum(result.bytes for result in port.results()) for port in ports])


def _apart(seed: int) -> int:
    """Time between the beginnings of two senders."""
    return 0 if seed % 2 else _APART_PS


def rows(
    senders: Sequence[int] = EQUAL_SENDERS, seeds: Sequence[int] = _SEEDS, progress: Progress = silent
) -> list[FairnessRow]:
    """A row for every transport and number of senders."""
    kinds = {name: partial(rdma_shares, *terms) for name, terms in RDMA_SENDERS.items()}
    kinds |= {"UDP": udp_shares} | {f"TCP, {control}": partial(tcp_shares, control) for control in _TCP}
    found = []
    for name, shares in kinds.items():
        for count in senders:
            indices = [jain(shares(count, seed)) for seed in seeds]
            found.append(FairnessRow(name, count, round(float(np.mean(indices)), 4), round(min(indices), 4)))
            progress(f"{name}, {count} senders: Jain's index at least {found[-1].jain_min:.4f}")
    return found


def run(progress: Progress = silent) -> BenchReport:
    """`detour bench transport --fairness`."""
    found = rows(progress=progress)
    return BenchReport(
        "transport",
        {"fairness": [asdict(row) for row in found]},
        ("transport", "senders", "Jain's index, mean", "least"),
        tuple((row.transport, str(row.senders), f"{row.jain_mean:.4f}", f"{row.jain_min:.4f}") for row in found),
        (Goal("Jain's index of equal senders, in each run", min(row.jain_min for row in found), FAIR_INDEX),),
    )
