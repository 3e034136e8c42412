# SPDX-License-Identifier: Apache-2.0
"""What six labs of other people are about, in one picture each, in virtual time.

    python docs/examples/lab_pictures.py TUTORIALS P4_LEARNING FILE.svg

The first two are checkouts of github.com/p4lang/tutorials and github.com/nsg-ethz/p4-learning; p4c is on PATH.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import detour
from detour.experiments import drawing

MS = 10**9
_SECOND = 1_000 * MS
_BROADCAST = "ff:ff:ff:ff:ff:ff"


def _queue_over_time(lab: Any) -> Iterator[tuple[float, int]]:
    """Lets the lab run for seven seconds; every 10 ms the time in seconds and the packets that wait at s1-p3."""
    place = lab.lab.switch("s1").device_id, 3
    for step in range(700):
        now = lab.run_until((step + 1) * 10 * MS)
        yield now / _SECOND, lab.network.queue_states(place)[0].packets


def _sent(lab: Any) -> dict[tuple[int, int], int]:
    """Packets that each port has sent, by device and port."""
    stats = lab.network.port_stats()
    return dict(
        zip(
            zip(stats["device_id"].tolist(), stats["port"].tolist(), strict=True),
            stats["tx_packets"].tolist(),
            strict=True,
        )
    )


def _mac(lab: Any, host: str) -> str:
    return lab.lab.host(host).mac


def _ip(lab: Any, host: str) -> str:
    return str(lab.lab.host(host).address.ip)


def ecn(tutorials: Path, axis: Any) -> None:
    """Marks of a thin stream while a thick one fills the queue and after."""
    with detour.lab(tutorials / "exercises" / "ecn", solution=True) as lab:
        lab.host("h2").sniff()
        lab.do("udp:src=h1,dst=h2,rate=80k,size=100,ecn=1,time=6s;udp:src=h11,dst=h22,rate=600k,time=3s,start=1s")
        times, queue, seen = [], [], []
        for now, waiting in _queue_over_time(lab):
            times.append(now)
            queue.append(waiting)
            seen += [
                (at / _SECOND, frame[15] & 3) for at, frame in lab.host("h2").sniffed() if frame[12:14] == b"\x08\x00"
            ]
        axis.plot(times, queue, label="queue of s1-p3")
        axis.axhline(10, color=drawing.GRAY, linestyle="--", label="threshold of the program")
        marked = [at for at, bits in seen if bits == 3]
        axis.plot(
            marked, np.full(len(marked), -3), "|", color=drawing.VERMILION, label=f"{len(marked)} of {len(seen)} marked"
        )
    axis.set(title="tutorials: ecn", xlabel="time, s", ylabel="packets", ylim=(-6, 70))


def mri(tutorials: Path, axis: Any) -> None:
    """Depths of queues that packets bring with them, beside the queue itself."""
    option = struct.pack("!BBH", 31, 4, 0)
    with detour.lab(tutorials / "exercises" / "mri", solution=True) as lab:
        packet = IP(bytes(IP(src=_ip(lab, "h1"), dst=_ip(lab, "h2"), ihl=6, proto=17, len=36))[:20] + option)
        packet.ihl, packet.chksum = 6, None
        frame = bytes(Ether(src=_mac(lab, "h1"), dst=_BROADCAST) / packet / UDP(dport=4321, sport=1234) / Raw(b"cool"))
        lab.host("h2").sniff()
        lab.host("h1").send_frames([frame], interval_ps=100 * MS, repeat=60)
        lab.do("udp:src=h11,dst=h22,rate=600k,time=3s,start=1s")
        times, queue, told = [], [], []
        for now, waiting in _queue_over_time(lab):
            times.append(now)
            queue.append(waiting)
            for at, data in lab.host("h2").sniffed():
                if data[12:14] == b"\x08\x00" and data[14] & 15 > 5:
                    count = struct.unpack("!H", data[36:38])[0]
                    traces = dict(struct.unpack("!II", data[38 + 8 * n : 46 + 8 * n]) for n in range(count))
                    told.append((at / _SECOND, traces[1]))
        axis.plot(times, queue, label="queue of s1-p3")
        axis.plot(
            *zip(*told, strict=True), "o", markersize=3, color=drawing.ORANGE, label="depth in packets' traces, at h2"
        )
    axis.set(title="tutorials: mri", xlabel="time, s", ylabel="packets", ylim=(0, 70))


def link_monitor(tutorials: Path, axis: Any) -> None:
    """Utilisation that probes bring back, beside the rate that is offered."""
    with detour.lab(tutorials / "exercises" / "link_monitor", solution=True) as lab:
        route = bytes([0, 4, 1, 4, 1, 3, 2, 3, 2, 1])
        probe = bytes(Ether(src=_mac(lab, "h1"), dst=_BROADCAST, type=0x812)) + route
        lab.host("h1").sniff()
        lab.host("h1").send_frames([probe], interval_ps=100 * MS, repeat=80)
        rates = (1, 3, 5, 2)
        lab.do(";".join(f"udp:src=h1,dst=h4,rate={rate}M,time=2s,start={2 * n}s" for n, rate in enumerate(rates)))
        lab.run_until(8 * _SECOND)
        found: dict[tuple[int, int], list[tuple[float, float]]] = {}
        for at, frame in lab.host("h1").sniffed():
            if frame[12:14] != b"\x08\x12":
                continue
            for n in range(frame[14]):
                record = frame[15 + 18 * n : 33 + 18 * n]
                switch, port, octets = record[0] & 0x7F, record[1], int.from_bytes(record[2:6], "big")
                last, now = int.from_bytes(record[6:12], "big"), int.from_bytes(record[12:18], "big")
                if now > last > 0:
                    found.setdefault((switch, port), []).append((at / _SECOND, 8 * octets / (now - last)))
        offered = [rate * 1.042 for rate in rates for _ in (0, 1)]
        edges = [edge for n in range(len(rates)) for edge in (2 * n, 2 * n + 2)]
        axis.plot(edges, offered, color=drawing.GRAY, linewidth=3, alpha=0.5, label="offered")
        busiest = sorted(found, key=lambda end: -sum(value for _, value in found[end]))[:2]
        for (switch, port), marker in zip(busiest, ("o", "x"), strict=True):
            axis.plot(*zip(*found[switch, port], strict=True), marker, markersize=3, label=f"probes: s{switch}-p{port}")
    axis.set(title="tutorials: link_monitor", xlabel="time, s", ylabel="Mb/s", ylim=(0, 7))


def load_balance(tutorials: Path, axis: Any) -> None:
    """Where flows to the one address go."""
    with detour.lab(tutorials / "exercises" / "load_balance", solution=True) as lab:
        flows = 400
        heads = (
            Ether(src=_mac(lab, "h1"), dst=_BROADCAST)
            / IP(src=_ip(lab, "h1"), dst="10.0.0.1")
            / TCP(dport=1234, sport=n)
            for n in range(20_000, 20_000 + flows)
        )
        lab.host("h1").send_frames([bytes(head) for head in heads], interval_ps=MS)
        lab.run_until(_SECOND)
        shares = [lab.host(name).counters()["rx_frames"] for name in ("h2", "h3")]
    axis.bar(["h2", "h3"], shares, color=[drawing.BLUE, drawing.ORANGE], width=0.5)
    axis.axhline(flows / 2, color=drawing.GRAY, linestyle="--", label="half of 400 flows")
    axis.set(title="tutorials: load_balance", ylabel="packets, one a flow")


def flowlets(learning: Path, axis: Any) -> None:
    """The way that one stream takes, whose bursts are apart by more and by less than the program's 200 ms."""
    with detour.lab(learning / "exercises" / "05-Flowlet_Switching" / "solution" / "network.py") as lab:
        frame = bytes(
            Ether(src=_mac(lab, "h1"), dst=_mac(lab, "h2"))
            / IP(src=_ip(lab, "h1"), dst=_ip(lab, "h2"), proto=6)
            / TCP(sport=9, dport=9)
            / Raw(bytes(80))
        )
        gaps = (
            [20] * 20
            + [300]
            + [20] * 20
            + [150]
            + [20] * 20
            + [400]
            + [20] * 20
            + [300]
            + [20] * 20
            + [500]
            + [20] * 20
        )
        times = np.cumsum([0, *gaps]) * MS
        lab.host("h1").send_frames([frame] * len(times), times_ps=times.tolist())
        before, taken = _sent(lab), []
        for at in times.tolist():
            lab.run_until(at + 5 * MS)
            after = _sent(lab)
            taken += [
                (at / _SECOND, port)
                for (device, port), sent in after.items()
                if device == 1 and port > 1 and sent > before[device, port]
            ]
            before = after
        axis.plot(*zip(*taken, strict=True), ".", label="packets of one connection")
    axis.set(
        title="p4-learning: Flowlet_Switching",
        xlabel="time, s",
        ylabel="port of s1",
        yticks=[2, 3, 4, 5],
        ylim=(1.5, 5.5),
    )


def heavy_hitter(learning: Path, axis: Any) -> None:
    """What comes of a flow that goes on, and of one that stays below the threshold."""
    with detour.lab(learning / "exercises" / "06-Heavy_Hitter_Detector" / "solution" / "network.py") as lab:
        for sport, count, label in ((1_000, 1_500, "a flow of 1500"), (2_000, 700, "then one of 700")):
            frame = bytes(
                Ether(src=_mac(lab, "h1"), dst=_BROADCAST)
                / IP(src=_ip(lab, "h1"), dst=_ip(lab, "h2"))
                / TCP(sport=sport, dport=80)
            )
            begun, before = lab.now_ps, lab.host("h2").counters()["rx_frames"]
            lab.host("h1").send_frames([frame], interval_ps=MS, repeat=count)
            sent, came = [], []
            for step in range(count // 10):
                lab.run_until(begun + (step + 1) * 10 * MS)
                sent.append(10 * (step + 1))
                came.append(lab.host("h2").counters()["rx_frames"] - before)
            axis.plot(sent, came, label=label)
    axis.axhline(1_000, color=drawing.GRAY, linestyle="--", label="threshold of the program")
    axis.set(title="p4-learning: Heavy_Hitter_Detector", xlabel="packets sent", ylabel="packets that came")


def main(tutorials: Path, learning: Path, file: Path) -> None:
    """Draws all of them."""
    plt, figure, axes = drawing.canvas(2, 3, 4.6, 3.9)
    for draw, axis in zip((ecn, mri, link_monitor, load_balance), axes.flat, strict=False):
        draw(tutorials, axis)
    for draw, axis in zip((flowlets, heavy_hitter), axes.flat[4:], strict=True):
        draw(learning, axis)
    for axis in axes.flat:
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, fontsize="small")
    drawing.save(plt, figure, file)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
