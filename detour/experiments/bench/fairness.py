# SPDX-License-Identifier: Apache-2.0
"""Fairness of equal senders at a full queue, by transport: Jain's index of their throughput, over 20 seeds.

All senders begin together, or, with every second seed, a microsecond apart, and send at the rate of the bottleneck for
as long as that takes to carry 10,000 packets of each. RDMA transports: a star at 100 Gb/s, with marks, or without and
with 20 kB of memory a port, a queue of 18 packets. UDP and TCP: `experiments.tcp.dumbbell`.

HPCC's DCQCN gets 24,000. Of 8 such senders in 2 of 20 runs one comes to 1.35 times its share and, as rates rise by
20 Mb/s every 300 us, goes back slowly: 0.979 after 10,000 packets, 0.980 after 24,000, 0.985 after 40,000. (2 or 3
senders: 0.998; the paper's parameters: 0.987.)

TCP, with 16 packets of queue a connection, cuts a window about once in a hundred packets, and who is cut is chance.
With 100 seeds no run of NewReno is below 0.98; of CUBIC, which cuts by less and so forgets more slowly, 2 to 3 % are.
Before proportional rate reduction, and with a second cut for each retransmission that was lost, the least of these 20
seeds was 0.963 of NewReno, 0.970 of CUBIC.

Go-back-N without congestion control is shown, and is not part of the goal. A sender whose repeated packet is lost waits
for the timeout, 200 us, while another has the link alone. 10,000 packets hold ten such turns, and who has them is
chance: Jain's index is 0.76 on average, 0.93 with 40,000, 0.98 with 400,000. With timeouts of 20 us it is 0.97 to 0.99,
but 80 to 97 % of the link is wasted, as each loss costs a window: the rest is go-back-N's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.dataplane import PACKET_BYTES
from detour.base.progress import Progress, silent
from detour.base.times import US
from detour.control.policy import NoMarking
from detour.engine.jitter import AUTO
from detour.experiments.bench.report import BenchReport, Goal, report_of_rows
from detour.experiments.columns import row, shown
from detour.experiments.running import jain
from detour.experiments.tcp.dumbbell import Bottleneck, Dumbbell, address
from detour.fabric.backends.virtual import scheme as schemes
from detour.fabric.backends.virtual.fabric import ENDLESS, VirtualFabric
from detour.hosts.cc.dcqcn import DCQCN_PAPER
from detour.hosts.ip.arrival_process import Spacing
from detour.hosts.ip.tcp.config import TcpConfig
from detour.topo import parse_topology

_PACKETS, _SLOW_PACKETS = 10_000, 24_000
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


@row
class FairnessRow:
    """`jain_mean`, `jain_min`: over all seeds."""

    transport: str = shown("transport")
    senders: int = shown("senders")
    jain_mean: float = shown("Jain's index, mean", ".4f")
    jain_min: float = shown("least", ".4f")


def _plain(name: str, scheme: schemes.Scheme, control: str) -> schemes.Scheme:
    return replace(scheme, name=name, control=control, paths="shortest", ecn=NoMarking())


_GO_BACK_N = replace(schemes.TELEMETRY_GBN, paths="shortest", hosts=())
_ONLY_SHOWN = "go-back-N, fixed window, no marks"
RDMA_SENDERS: dict[str, tuple[schemes.Scheme, int | None, int]] = {
    "LERP, DCTCP": (schemes.SHORTEST_LERP, None, _PACKETS),
    "LERP, DCTCP, no marks": (_plain("fair", schemes.SHORTEST_LERP, "dctcp"), _SHALLOW, _PACKETS),
    "LERP, fixed window, no marks": (_plain("fair", schemes.SHORTEST_LERP, "fixed"), _SHALLOW, _PACKETS),
    "SprayLERP": (schemes.SPRAY_LERP, None, _PACKETS),
    "go-back-N, DCQCN": (_GO_BACK_N, None, _SLOW_PACKETS),
    "go-back-N, DCQCN of the paper": (replace(_GO_BACK_N, hosts=tuple(DCQCN_PAPER.items())), None, _PACKETS),
    "go-back-N, DCTCP": (replace(_GO_BACK_N, control="dctcp", ecn=schemes.SHORTEST_LERP.ecn), None, _PACKETS),
    _ONLY_SHOWN: (_plain("fair", _GO_BACK_N, "fixed"), _SHALLOW, _PACKETS),
}
"""scheme, memory of a port in bytes (None: as usual), packets of each sender"""
_TCP = ("cubic", "newreno", "dctcp")


def rdma_shares(scheme: schemes.Scheme, port_bytes: int | None, packets: int, senders: int, seed: int) -> Int64Array:
    """(senders,) bytes that each of them has brought to the last host of a star."""
    topology = parse_topology(f"leaf-spine:leaves=1,spines=1,hosts={senders + 1}")
    memory = schemes.SwitchMemory() if port_bytes is None else schemes.SwitchMemory(port_bytes=port_bytes)
    settings = schemes.RunSettings(memory=memory, seed=seed, jitter_ps=AUTO)
    with VirtualFabric(topology, scheme, settings, queue_pairs=senders) as fabric:
        fabric.connect([(host, senders) for host in range(senders)])
        for host in range(senders):
            fabric.send(ENDLESS, np.array([host]))
            fabric.run(fabric.now_ps + _apart(seed))
        fabric.run(fabric.now_ps + senders * packets * PACKET_BYTES * 8 * 10**12 // fabric.settings.links.rate_bps)
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
        bell.network.run(senders * _PACKETS * _MSS_FRAME * 8 * 10**12 // _CABLE.rate_bps)
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
    measured = []
    for name, shares in kinds.items():
        for count in senders:
            indices = [jain(shares(count, seed)) for seed in seeds]
            average, least = round(float(np.mean(indices)), 4), round(min(indices), 4)
            measured.append(FairnessRow(transport=name, senders=count, jain_mean=average, jain_min=least))
            progress(f"{name}, {count} senders: Jain's index at least {measured[-1].jain_min:.4f}")
    return measured


def run(progress: Progress = silent) -> BenchReport:
    """`detour bench transport --fairness`."""
    measured = rows(progress=progress)
    least = min(row.jain_min for row in measured if row.transport != _ONLY_SHOWN)
    goals = [Goal("Jain's index of equal senders, in each run", least, FAIR_INDEX)]
    return report_of_rows("transport", FairnessRow, measured, {"fairness": [asdict(one) for one in measured]}, goals)
