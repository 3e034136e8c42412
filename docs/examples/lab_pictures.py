# SPDX-License-Identifier: Apache-2.0
"""What six labs of other people are about, in one picture each, in virtual time; where BMv2 is installed, what it does
in the same labs in real time beside it (root).

    PYTHONPATH=. python docs/examples/lab_pictures.py TUTORIALS P4_LEARNING FILE.svg

The first two are checkouts of github.com/p4lang/tutorials and github.com/nsg-ethz/p4-learning.

BMv2 gets the same frames at the same times. Its slow link is `set_queue_rate`, in packets a second: all frames that
cross it are as long, so that it is as slow as the lab's half a megabit a second.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import detour
from detour.experiments import drawing
from tests.switch.bmv2_lab import Bmv2Lab, Seen, TimedFrame, missing

MS = 10**9
_SECOND = 1_000 * MS
_BROADCAST = "ff:ff:ff:ff:ff:ff"
_PAYLOAD, _FRAME = 1_000, 1_042
_SLOW_PPS = round(500_000 / (8 * _FRAME))
"""packets a second of the slow link of the exercises ecn and mri"""
_OURS: dict[str, Any] = {"color": drawing.BLUE, "linewidth": 4, "alpha": 0.45}
_OUR_DOTS: dict[str, Any] = {"color": drawing.BLUE, "markersize": 7, "linestyle": "none", "alpha": 0.45}
_BMV2: dict[str, Any] = {"color": drawing.VERMILION, "linewidth": 1.2}
_BMV2_DOTS: dict[str, Any] = {"color": drawing.VERMILION, "markersize": 3, "linestyle": "none"}
"""ours is wide and pale, so that BMv2's can be seen where it lies on it"""


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


def _datagrams(
    lab: Any, source: str, target: str, seconds: tuple[float, float], gap: float, tos: int
) -> list[TimedFrame]:
    """Numbered datagrams from the first second to before the second one. `lab`: a description of one."""
    a, b = lab.host(source), lab.host(target)
    head = Ether(src=a.mac, dst=_BROADCAST) / IP(src=str(a.address.ip), dst=str(b.address.ip), tos=tos)
    count = round((seconds[1] - seconds[0]) / gap)
    frame = bytes(head / UDP(sport=5_000, dport=5_201) / Raw(bytes(_PAYLOAD)))
    return [TimedFrame(seconds[0] + k * gap, source, frame[:-4] + struct.pack("!I", k)) for k in range(count)]


def _waiting(sends: Sequence[TimedFrame], seen: Sequence[Seen]) -> tuple[np.ndarray, np.ndarray]:
    """Frames that were on their way, every 10 ms: those that came are known by who sent them and their last bytes."""
    came = {(frame.frame[26:30], frame.frame[-4:]): frame.at for frame in seen}
    keys = ((send.at, came.get((send.frame[26:30], send.frame[-4:]))) for send in sends)
    known = np.array([(at, then) for at, then in keys if then is not None])
    times = np.arange(0.01, 7.0, 0.01)
    waiting = (known[:, 0] <= times[:, None]) & (times[:, None] < known[:, 1])
    return times, waiting.sum(axis=1)


def _play(lab: Any, sends: Sequence[TimedFrame]) -> None:
    """The same frames from hosts of a virtual lab."""
    for host in {send.host for send in sends}:
        mine = [send for send in sends if send.host == host]
        times = [round(send.at * _SECOND) for send in mine]
        lab.host(host).send_frames([send.frame for send in mine], times_ps=times)


def ecn(tutorials: Path, axis: Any) -> None:
    """Marks of a thin stream while a thick one fills the queue and after."""
    folder = tutorials / "exercises" / "ecn"
    with detour.lab(folder, solution=True) as lab:
        thin = _datagrams(lab.lab, "h1", "h2", (0.0, 6.0), 1 / 20, 1)
        sends = thin + _datagrams(lab.lab, "h11", "h22", (1.0, 4.0), 1 / 75, 0)
        lab.host("h2").sniff()
        _play(lab, sends)
        times, queue, seen = [], [], []
        for now, waiting in _queue_over_time(lab):
            times.append(now)
            queue.append(waiting)
            seen += [(at / _SECOND, frame) for at, frame in lab.host("h2").sniffed()]
    axis.axhline(10, color=drawing.GRAY, linestyle="--", label="threshold of the program")
    axis.plot(times, queue, label="queue of s1-p3: detour", **_OURS)
    _marks(axis, seen, -3, drawing.BLUE)
    if missing() is None:
        with Bmv2Lab(folder, solution=True) as real:
            real.set_queue_rate("s1", 3, _SLOW_PPS)
            came = real.play(sends, 7.0, ["h2", "h22"])
        axis.plot(*_waiting(sends, came), label="the same: BMv2", **_BMV2)
        _marks(axis, [(each.at, each.frame) for each in came if each.place == "h2"], -7, drawing.VERMILION)
    axis.set(title="tutorials: ecn", xlabel="time, s", ylabel="packets", ylim=(-10, 70))


def _marks(axis: Any, seen: Sequence[tuple[float, bytes]], height: float, color: str) -> None:
    bits = [(at, frame[15] & 3) for at, frame in seen if frame[12:14] == b"\x08\x00"]
    marked = [at for at, found in bits if found == 3]
    label = f"{len(marked)} of {len(bits)} marked"
    axis.plot(marked, np.full(len(marked), height), "|", color=color, label=label)


def mri(tutorials: Path, axis: Any) -> None:
    """Depths of queues that packets bring with them, beside the queue itself."""
    folder = tutorials / "exercises" / "mri"
    with detour.lab(folder, solution=True) as lab:
        probe = _mri_probe(lab.lab)
        sends = [TimedFrame(k / 10, "h1", probe) for k in range(60)]
        sends += _datagrams(lab.lab, "h11", "h22", (1.0, 4.0), 1 / 75, 0)
        lab.host("h2").sniff()
        _play(lab, sends)
        times, queue, told = [], [], []
        for now, waiting in _queue_over_time(lab):
            times.append(now)
            queue.append(waiting)
            told += [(at / _SECOND, frame) for at, frame in lab.host("h2").sniffed()]
    axis.plot(times, queue, color=drawing.GRAY, linewidth=1, label="queue of s1-p3: detour")
    axis.plot(*_depths(told), marker="o", label="depth told at h2: detour", **_OUR_DOTS)
    if missing() is None:
        with Bmv2Lab(folder, solution=True) as real:
            real.set_queue_rate("s1", 3, _SLOW_PPS)
            came = real.play(sends, 7.0, ["h2"])
        seen = _depths([(each.at, each.frame) for each in came])
        axis.plot(*seen, marker="o", label="the same: BMv2", **_BMV2_DOTS)
    axis.set(title="tutorials: mri", xlabel="time, s", ylabel="packets", ylim=(0, 70))


def _mri_probe(lab: Any) -> bytes:
    """A datagram with room for traces, as the exercise's `send.py` makes it, but as long as the others."""
    option = struct.pack("!BBH", 31, 4, 0)
    length = _FRAME - 14
    a, b = lab.host("h1"), lab.host("h2")
    head = IP(src=str(a.address.ip), dst=str(b.address.ip), ihl=6, proto=17, len=length)
    packet = IP(bytes(head)[:20] + option)
    packet.ihl, packet.chksum = 6, None
    room = Raw(bytes(length - 24 - 8))
    return bytes(Ether(src=a.mac, dst=_BROADCAST) / packet / UDP(dport=4321, sport=1234) / room)


def _depths(frames: Sequence[tuple[float, bytes]]) -> tuple[list[float], list[int]]:
    """When traces came, and how deep they say that the queue of s1 was."""
    times, depths = [], []
    for at, data in frames:
        if data[12:14] == b"\x08\x00" and data[14] & 15 > 5:
            count = struct.unpack("!H", data[36:38])[0]
            traces = dict(struct.unpack("!II", data[38 + 8 * n : 46 + 8 * n]) for n in range(count))
            times.append(at)
            depths.append(traces[1])
    return times, depths


def link_monitor(tutorials: Path, axis: Any) -> None:
    """Utilisation that probes bring back, beside the rate that is offered."""
    folder = tutorials / "exercises" / "link_monitor"
    rates = (1, 3, 5, 2)
    with detour.lab(folder, solution=True) as lab:
        route = bytes([0, 4, 1, 4, 1, 3, 2, 3, 2, 1])
        probe = bytes(Ether(src=_mac(lab, "h1"), dst=_BROADCAST, type=0x812)) + route
        sends = [TimedFrame(k / 10, "h1", probe) for k in range(80)]
        for n, rate in enumerate(rates):
            gap = 8 * _PAYLOAD / (rate * 1e6)
            sends += _datagrams(lab.lab, "h1", "h4", (2.0 * n, 2.0 * n + 2), gap, 0)
        lab.host("h1").sniff()
        _play(lab, sorted(sends, key=lambda send: send.at))
        lab.run_until(8 * _SECOND)
        found = _utilisation([(at / _SECOND, frame) for at, frame in lab.host("h1").sniffed()])
    offered = [rate * _FRAME / _PAYLOAD for rate in rates for _ in (0, 1)]
    edges = [edge for n in range(len(rates)) for edge in (2 * n, 2 * n + 2)]
    axis.plot(edges, offered, color=drawing.GRAY, linewidth=3, alpha=0.5, label="offered")
    busiest = sorted(found, key=lambda end: -sum(value for _, value in found[end]))[:2]
    for (switch, port), marker in zip(busiest, ("o", "x"), strict=True):
        label = f"s{switch}-p{port}: detour"
        axis.plot(*zip(*found[switch, port], strict=True), marker=marker, label=label, **_OUR_DOTS)
    if missing() is None:
        with Bmv2Lab(folder, solution=True) as real:
            came = _utilisation([(each.at, each.frame) for each in real.play(sends, 8.2, ["h1"])])
        for end, marker in zip(busiest, ("o", "x"), strict=True):
            label = f"s{end[0]}-p{end[1]}: BMv2"
            axis.plot(*zip(*came[end], strict=True), marker=marker, label=label, **_BMV2_DOTS)
    axis.set(title="tutorials: link_monitor", xlabel="time, s", ylabel="Mb/s", ylim=(0, 7))


def _utilisation(frames: Sequence[tuple[float, bytes]]) -> dict[tuple[int, int], list[tuple[float, float]]]:
    """What probes say, by switch and port: times in seconds and Mb/s."""
    found: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for at, frame in frames:
        if frame[12:14] != b"\x08\x12":
            continue
        for n in range(frame[14]):
            record = frame[15 + 18 * n : 33 + 18 * n]
            switch, port, octets = record[0] & 0x7F, record[1], int.from_bytes(record[2:6], "big")
            last, now = int.from_bytes(record[6:12], "big"), int.from_bytes(record[12:18], "big")
            if now > last > 0:
                found.setdefault((switch, port), []).append((at, 8 * octets / (now - last)))
    return found


def load_balance(tutorials: Path, axis: Any) -> None:
    """Where flows to the one address go."""
    folder, flows = tutorials / "exercises" / "load_balance", 400
    with detour.lab(folder, solution=True) as lab:
        head = Ether(src=_mac(lab, "h1"), dst=_BROADCAST) / IP(src=_ip(lab, "h1"), dst="10.0.0.1")
        frames = [bytes(head / TCP(dport=1234, sport=20_000 + n)) for n in range(flows)]
        sends = [TimedFrame(n / 1_000, "h1", frame) for n, frame in enumerate(frames)]
        _play(lab, sends)
        lab.run_until(_SECOND)
        shares = [lab.host(name).counters()["rx_frames"] for name in ("h2", "h3")]
    axis.bar([-0.17, 0.83], shares, color=drawing.BLUE, width=0.3, label="detour")
    if missing() is None:
        with Bmv2Lab(folder, solution=True) as real:
            came = [each.place for each in real.play(sends, 1.0, ["h2", "h3"])]
        counts = [came.count("h2"), came.count("h3")]
        axis.bar([0.17, 1.17], counts, color=drawing.VERMILION, width=0.3, label="BMv2")
    axis.axhline(flows / 2, color=drawing.GRAY, linestyle="--", label="half of 400 flows")
    axis.set(title="tutorials: load_balance", ylabel="packets, one a flow", xticks=[0, 1], xticklabels=["h2", "h3"])


def flowlets(learning: Path, axis: Any) -> None:
    """The way that one stream takes, whose bursts are apart by more and by less than the program's 200 ms."""
    folder = learning / "exercises" / "05-Flowlet_Switching" / "solution" / "network.py"
    times = _bursts((300, 150, 400, 300, 500))
    with detour.lab(folder) as lab:
        frame = bytes(
            Ether(src=_mac(lab, "h1"), dst=_mac(lab, "h2"))
            / IP(src=_ip(lab, "h1"), dst=_ip(lab, "h2"), proto=6)
            / TCP(sport=9, dport=9)
            / Raw(bytes(80))
        )
        sends = [TimedFrame(at / 1_000, "h1", frame) for at in times]
        _play(lab, sends)
        before, taken = _sent(lab), []
        for at in times:
            lab.run_until((at + 5) * MS)
            after = _sent(lab)
            taken += [
                (at / 1_000, port)
                for (device, port), sent in after.items()
                if device == 1 and port > 1 and sent > before[device, port]
            ]
            before = after
    axis.plot(*zip(*taken, strict=True), marker="o", label="packets of one connection: detour", **_OUR_DOTS)
    if missing() is None:
        with Bmv2Lab(folder) as real:
            came = real.play(sends, times[-1] / 1_000 + 0.2, [("s1", port) for port in (2, 3, 4, 5)])
        ways = [(each.at, each.place[1]) for each in came if each.frame[12:14] == b"\x08\x00"]
        axis.plot(*zip(*ways, strict=True), marker="o", label="BMv2", **_BMV2_DOTS)
    axis.set(
        title="p4-learning: Flowlet_Switching",
        xlabel="time, s",
        ylabel="port of s1",
        yticks=[2, 3, 4, 5],
        ylim=(1.5, 5.5),
    )


def _bursts(pauses: Sequence[int]) -> list[int]:
    """Milliseconds of packets: 21, 20 ms apart, before each pause and after the last one."""
    times, now = [], 0
    for pause in (*pauses, 0):
        times += [now + 20 * k for k in range(21)]
        now = times[-1] + pause
    return times


def heavy_hitter(learning: Path, axis: Any) -> None:
    """What comes of a flow that goes on, and of one that stays below the threshold."""
    folder = learning / "exercises" / "06-Heavy_Hitter_Detector" / "solution" / "network.py"
    flows = ((1_000, 1_500, "a flow of 1500"), (2_000, 700, "then one of 700"))
    with detour.lab(folder) as lab:
        head = Ether(src=_mac(lab, "h1"), dst=_BROADCAST) / IP(src=_ip(lab, "h1"), dst=_ip(lab, "h2"))
        frames = {sport: bytes(head / TCP(sport=sport, dport=80)) for sport, _, _ in flows}
        for sport, count, label in flows:
            begun, before = lab.now_ps, lab.host("h2").counters()["rx_frames"]
            lab.host("h1").send_frames([frames[sport]], interval_ps=MS, repeat=count)
            sent, came = [], []
            for step in range(count // 10):
                lab.run_until(begun + (step + 1) * 10 * MS)
                sent.append(10 * (step + 1))
                came.append(lab.host("h2").counters()["rx_frames"] - before)
            axis.plot(sent, came, label=f"{label}: detour", **_OURS)
    if missing() is None:
        with Bmv2Lab(folder) as real:
            for sport, count, label in flows:
                sends = [TimedFrame(k / 1_000, "h1", frames[sport]) for k in range(count)]
                seen = real.play(sends, count / 1_000 + 0.3, ["h2"])
                at = np.array([each.at for each in seen if each.frame[34:36] == struct.pack("!H", sport)])
                steps = np.arange(10, count + 1, 10)
                passed = [int((at < step / 1_000).sum()) for step in steps]
                axis.plot(steps, passed, label=f"{label}: BMv2", **_BMV2)
    axis.axhline(1_000, color=drawing.GRAY, linestyle="--", label="threshold of the program")
    axis.set(title="p4-learning: Heavy_Hitter_Detector", xlabel="packets sent", ylabel="packets that came")


def main(tutorials: Path, learning: Path, file: Path) -> None:
    """Draws all of them."""
    plt, figure, axes = drawing.canvas(2, 3, 4.6)
    for draw, axis in zip((ecn, mri, link_monitor, load_balance), axes.flat, strict=False):
        draw(tutorials, axis)
    for draw, axis in zip((flowlets, heavy_hitter), axes.flat[4:], strict=True):
        draw(learning, axis)
    for line in axes:
        drawing.legend_below(line, 2)
    drawing.save(plt, figure, file)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
