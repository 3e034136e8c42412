# SPDX-License-Identifier: Apache-2.0
"""`detour bench growth`: what fabrics of 72 to 16,512 hosts cost in virtual time.

Every size runs in a process of its own, whose peak memory counts: the fabric is made and connected (boot), entries are
read back and proven to lead every host to every other one (verify), then each host sends a message to another one, a
permutation as in `bench sim` (run). Seconds are processor time, with several threads the run's are wall time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.control.verifier.verifier import verify
from detour.experiments import drawing
from detour.experiments.bench.processes import MIB, peak_resident
from detour.experiments.bench.report import BenchReport, Goal, report_of_rows
from detour.experiments.bench.sim import REFERENCE_SCHEME, REFERENCE_SETTINGS, deliver, derangement, packet_hops
from detour.experiments.columns import cell, row, shown
from detour.experiments.sweep import apart
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.topo import parse_topology

TOPOLOGIES = {72: "d1", 342: "d2", 1056: "d3", 8192: "fat-tree:k=32", 16_512: "dragonfly:p=8,a=16,h=8"}
"""by their hosts"""
USUAL = (72, 342, 1056, 8192)
"""a minute; the largest alone takes two and a half"""
_GOAL_GIB = 8.0


@row
class GrowthRow:
    """The cost of one size."""

    topology: str = shown("topology")
    hosts: int = shown("hosts", ",")
    switches: int = shown("switches", ",")
    boot_s: float = shown("boot, s", ".1f")
    verify_s: float = shown("verify, s", ".1f")
    run_s: float = shown("run, s", ".1f")
    peak_mib: float = shown("peak, MiB", ",.0f", means="resident memory")
    ns_per_packet_hop: float = shown("ns a packet-hop", ",.0f")

    @cell("ms a host", means="boot and verify")
    def _standing(self) -> str:
        return f"{1000 * (self.boot_s + self.verify_s) / self.hosts:.1f}"

    @cell("KiB a host", means="of the peak")
    def _memory(self) -> str:
        return f"{1024 * self.peak_mib / self.hosts:,.0f}"


def measure(spec: str, message: int, threads: int) -> GrowthRow:
    """In this process. Raises `DetourError`: the entries are wrong, messages do not arrive, or packets
    find no room (defects)."""
    begin = time.process_time()
    topology = parse_topology(spec)
    hosts = len(topology.hosts)
    with VirtualFabric(topology, REFERENCE_SCHEME, REFERENCE_SETTINGS, queue_pairs=hosts, threads=threads) as fabric:
        fabric.connect(derangement(hosts, 1))
        fabric.run(1)  # loads native code
        booted = time.process_time()
        report = verify(fabric.installed(), topology)
        verified = time.process_time()
        if not report.ok:
            raise DetourError(f"{spec}: {report.problems[0]}")
        ran = deliver(fabric, message, threads)
        if dropped := fabric.network.loop_stats()["pool_drops"]:
            raise DetourError(f"{spec}: {dropped} packets did not fit the packet pool")
        return GrowthRow(
            topology=spec,
            hosts=hosts,
            switches=len(topology.switches),
            boot_s=booted - begin,
            verify_s=verified - booted,
            run_s=ran,
            peak_mib=peak_resident() / MIB,
            ns_per_packet_hop=1e9 * ran / packet_hops(fabric),
        )


def draw(rows: Sequence[GrowthRow], file: Path) -> None:
    """Memory and seconds by hosts, beside what grows as hosts do. Raises `DetourError`: see `experiments.drawing`."""
    plt, figure, (memory, seconds) = drawing.row(2)
    hosts = [one.hosts for one in rows]
    drawing.curve(memory, hosts, [one.peak_mib / 1024 for one in rows], (drawing.BLACK, "o", "-"), "peak")
    memory.axhline(_GOAL_GIB, color=drawing.GRAY, linestyle=":")
    for name, colour in (("boot_s", drawing.BLUE), ("verify_s", drawing.ORANGE), ("run_s", drawing.GREEN)):
        drawing.curve(seconds, hosts, [getattr(one, name) for one in rows], (colour, "o", "-"), name.removesuffix("_s"))
    for axis, name, last in ((memory, "GiB", rows[-1].peak_mib / 1024), (seconds, "s", rows[-1].boot_s)):
        linear = [last * one / hosts[-1] for one in hosts]
        axis.plot(hosts, linear, color=drawing.GRAY, linestyle="--", label="linear")
        axis.set(xscale="log", yscale="log", xlabel="hosts", ylabel=name)
    drawing.legend(figure, (memory, seconds), columns=5)
    drawing.save(plt, figure, file)


def run(
    hosts: Sequence[int] = USUAL,
    message: int = 1_000_000,
    threads: int = 1,
    plot: Path | None = None,
    progress: Progress = silent,
) -> BenchReport:
    """Measure the sizes asked for, smallest first. Raises `DetourError`: there is no topology of such a size."""
    rows: list[GrowthRow] = []
    for size in sorted(set(hosts)):
        if size not in TOPOLOGIES:
            raise DetourError(f"no topology has {size} hosts; there are {', '.join(map(str, TOPOLOGIES))}")
        progress(f"{TOPOLOGIES[size]}, {size:,} hosts")
        rows.append(apart(measure, TOPOLOGIES[size], message, threads))
    if plot is not None:
        draw(rows, plot)
    large = [one for one in rows if one.hosts > 8000]
    goals = [Goal(f"{one.topology}: GiB,", one.peak_mib / 1024, _GOAL_GIB, most=True) for one in large]
    return report_of_rows("growth", GrowthRow, rows, {"rows": [asdict(one) for one in rows]}, goals)
