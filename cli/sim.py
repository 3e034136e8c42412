# SPDX-License-Identifier: Apache-2.0
"""`sim`: any topology, scheme and workload in virtual time."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.cli.output import Page, present, timed_bar
from detour.cli.parser import Parser, command

if TYPE_CHECKING:
    from detour.experiments.sim.results import SimResult, SizeBin
    from detour.experiments.sim.run import SimRun

_SCHEME = "SprayLERP"


def register(commands: Any) -> None:
    """Adds this command."""
    sim = command(commands, "sim", "run a workload on any topology in virtual time: completion times, slowdown", _sim)
    _what(sim)
    _fabric(sim)
    sim.add_argument(
        "--plot", type=Path, nargs="?", const=Path("sim.png"), metavar="FILE", help="draw it all (sim.png; .svg, .pdf)"
    )
    sim.add_argument("--out", type=Path, metavar="DIR", help="write flows.csv, result.json and report.html there")


def _what(sim: Parser) -> None:
    sim.add_argument("--topo", metavar="T", help="like leaf-spine:leaves=4,spines=4,hosts=8, d1, fat-tree:k=8")
    sim.add_argument(
        "--workload", metavar="W", help="a pattern like permutation:bytes=1e6,seed=3, or a flow file of ns-3's"
    )
    sim.add_argument("--scheme", metavar="S", help=f"transport, choice of paths, congestion control ({_SCHEME})")
    sim.add_argument("--cc", metavar="C", help="another congestion control than the scheme's: dctcp, dcqcn, fixed")
    sim.add_argument(
        "--duration", metavar="TIME", help="virtual time after which the run ends, like 2ms (when all is delivered)"
    )
    sim.add_argument("--seed", type=int, default=1, metavar="N", help="of all that is random (1)")


def _fabric(sim: Parser) -> None:
    sim.add_argument("--rate", metavar="RATE", help="of links (100G)")
    sim.add_argument("--delay", metavar="TIME", help="of links (1us)")
    sim.add_argument("--buffer", metavar="BYTES", help="packet memory for each port of a switch, shared (375k)")
    sim.add_argument("--loss", metavar="FRACTION", help="of frames on links between switches (0)")
    sim.add_argument("--ecn", metavar="K|KMIN,KMAX,PMAX|off", help="thresholds in bytes (the scheme's)")
    sim.add_argument(
        "--fail", action="append", default=[], metavar="LINK@TIME", help="goes down then, like s0-s4@50us; repeatable"
    )
    sim.add_argument(
        "--reroute-after", metavar="TIME", help="the controller routes around a failure so long after it (never)"
    )


def _sim(options: argparse.Namespace) -> None:
    for name in ("topo", "workload"):
        if getattr(options, name) is None:
            raise DetourError(f"sim needs --{name} (try `detour sim --help`)")
    from detour.control.graph_files import topology_from
    from detour.experiments.sim import report
    from detour.experiments.sim.results import by_size, result_of
    from detour.experiments.sim.run import run_graph
    from detour.experiments.sim.settings import SimOptions, settings_of
    from detour.experiments.sim.workloads import workload_from
    from detour.fabric.footings.virtual.scheme import scheme

    said = SimOptions(
        rate=options.rate, delay=options.delay, buffer=options.buffer, loss=options.loss, ecn=options.ecn,
        fail=options.fail, reroute_after=options.reroute_after, duration=options.duration, seed=options.seed,
        cc=options.cc,
    )  # fmt: skip
    report.check_folder(options.out)
    report.check_plot(options.plot)
    topology = topology_from(options.topo)
    settings = settings_of(topology, scheme(options.scheme or _SCHEME), said)
    graph = workload_from(options.workload, topology, settings.links.rate_bps, settings.seed)
    with timed_bar("sim", options.json) as update:
        run = run_graph(topology, graph, settings, _meter(update, graph.message_bytes, settings.duration_ps))
    result, bins = result_of(run), by_size(run)
    if options.out:
        report.write(options.out, run, options.workload)
    if options.plot:
        report.plot(options.plot, run)
    present(result, options, lambda page: show_sim(page, run, result, bins))


def _meter(
    update: Callable[[float, float, str], None], total: int, duration_ps: int | None
) -> Callable[[float, float], None]:
    """How far a run is: by bytes, or by time where that is further."""
    begun = time.monotonic()

    def report(arrived: float, seconds: float) -> None:
        passed = max(time.monotonic() - begun, 1e-9)
        fraction = arrived / max(total, 1)
        if duration_ps is not None:
            fraction = max(fraction, seconds * 1e12 / duration_ps)
        update(fraction, 1.0, f"{arrived / passed / 1e6:.0f} MB/s, {seconds * 1e6:.0f} us")

    return report


def show_sim(page: Page, run: SimRun, result: SimResult, bins: list[SizeBin]) -> None:
    """Tables, and what happened in sentences."""
    from detour.base.quantities import time_text
    from detour.cli.output import bytes_text
    from detour.experiments.sim.tables import sim_tables

    page.print(f"{run.topology.spec}, {run.settings.scheme.name}, {run.settings.links.rate_bps / 1e9:g} Gb/s")
    page.tables(sim_tables(result, bins))
    missing = result.bytes - result.delivered_bytes
    page.print(
        f"{result.completed} of {result.flows} flows complete, {bytes_text(result.delivered_bytes)} delivered"
        + (f", {bytes_text(missing)} missing" if missing else "")
        + f" in {time_text(run.end_ps)} of virtual time"
    )
    page.print(
        f"{result.wire_gbps:.1f} Gb/s of data frames at the hosts, {result.drops} frames lost, "
        f"{int(run.counts.retransmitted.sum())} sent again"
    )
    if run.stuck:
        page.print(run.stuck)
