# SPDX-License-Identifier: Apache-2.0
"""`sim --lab` and `up --lab`: other people's P4 labs."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.quantities import fraction_of, rate_bps_of, time_ps_of
from detour.base.tables import Table, left, right
from detour.base.times import NS
from detour.cli.output import Page, present, shown_progress, timed_bar
from detour.cli.parser import Parser, add_name_option, command, option_of, refuse, seconds
from detour.cli.trace_text import present_traced

if TYPE_CHECKING:
    from detour.fabric.labs.boot import LinkDefaults
    from detour.fabric.labs.model import Lab
    from detour.fabric.labs.running import LabStatus
    from detour.fabric.records import LinuxHost

_NOT_WITH_SIM = ("topo", "scheme", "cc", "connections", "buffer", "ecn", "fail", "reroute_after",
                 "place", "out", "record", "web")  # fmt: skip
_DEFAULT_WORKLOAD = "ping"
_SHOWN = 24


def register(commands: Any) -> None:
    """Add the command `lab`."""
    text = "run a workload on the hosts of the running lab: ping, udp:..., tcp:... (docs/labs.md)"
    parser = command(commands, "lab", text, _lab)
    parser.add_argument("workload", metavar="WORKLOAD", help="like ping, 'h1 ping h2', or udp:src=h1,dst=h2,rate=1M")
    parser.option("--seconds", "longest time to wait (10)", "S", seconds, default=10.0)
    add_name_option(parser)


def _lab(options: argparse.Namespace) -> None:
    from detour.fabric.daemon.control_socket import ask

    # Paths are whole ones: who is up may live in another folder.
    workload = re.sub(r"(?<=[:,])file=([^,;]+)", lambda m: f"file={os.path.abspath(m[1].strip())}", options.workload)
    document = ask("hosts", workload=workload, seconds=options.seconds)

    def render(page: Page) -> None:
        for table in lab_tables(document):
            page.table(table)

    present(document, options, render)


def add_lab_options(parser: Parser) -> None:
    """`--lab`, and what belongs to it."""
    parser.option("--lab", "a P4 lab: p4lang's tutorials, p4-utils, p4sim (docs/labs.md)", "DIR")
    parser.flag("--solution", "with --lab: prefer files in DIR/solution")

    text = "with --lab: the P4 compiler: detour, or p4c if it is on PATH"
    parser.option("--compiler", text, choices=("detour", "p4c"), default="detour")
    parser.option("--lab-args", "with --lab: arguments of the lab's network.py, as one string", "ARGS")


def read(options: argparse.Namespace) -> Lab:
    """The lab that options name."""
    from detour.fabric.labs.folder import LabFolder
    from detour.fabric.labs.reading import read_lab

    return read_lab(LabFolder.given(options.lab, options.solution, options.lab_args))


_NOT_WITH_UP = {"topo": "d1", "load": None, "grpc": None, "grpc_tls": False}


def lab_of_up(options: argparse.Namespace) -> str | None:
    """The lab that `up` is to boot, with its whole path; None: a fabric. Raises `DetourError`: an option is given that
    is not for labs, or one that is for labs only."""
    if options.lab is None:
        refuse(options, ("solution", "lab_args", "ports"), "is for labs (--lab)")
        return None
    for name, default in _NOT_WITH_UP.items():
        if getattr(options, name) != default:
            raise DetourError(f"{option_of(name)} does not go with --lab")
    if options.target == "bmv2":
        raise DetourError("--target bmv2 does not go with --lab: labs run on the engine")
    if options.target == "virtual" and (options.linux or options.netns):
        raise DetourError("Linux hosts need real time: --linux and --netns do not go with --target virtual")
    if options.target == "virtual" and options.pace is None:
        options.pace = "1x"
    return os.path.abspath(options.lab)


def show_lab(page: Page, status: LabStatus) -> None:
    """The switches of a lab that is up, where they are served, and its hosts."""
    switches = (
        left("switch", lambda row: row.name),
        right("device id", lambda row: row.device_id),
        left("program", lambda row: row.program or None),
        left("P4Runtime", lambda row: row.p4runtime),
        left("Thrift", lambda row: row.thrift),
    )
    hosts = (
        left("host", lambda row: row.name),
        left("address", lambda row: row.ip),
        left("MAC", lambda row: row.mac),
        left("at", lambda row: row.switch),
    )
    page.print(f"{status.lab} ({status.format})")
    page.table(Table(switches, status.switches))
    if status.hosts:
        page.table(Table(hosts, status.hosts))
    for line in linux_lines(status.linux):
        page.print(line)


def sim_lab(options: argparse.Namespace) -> int:
    """`detour sim --lab DIR`; the exit code: 1 if pings or connections are not complete and nothing of them is under
    way."""
    if options.scenario is not None:
        raise DetourError("a scenario does not go with --lab")
    refuse(options, _NOT_WITH_SIM, "does not go with --lab")
    from detour.engine.clock import RealTime
    from detour.engine.jitter import AUTO
    from detour.experiments.sim import report
    from detour.experiments.sim.settings import jitter_of, read_option, seed_of
    from detour.fabric.labs.programs import contents_of, programs_of
    from detour.fabric.labs.results import LabSampler
    from detour.fabric.labs.running import lab_traces
    from detour.fabric.labs.virtual import VirtualLab
    from detour.fabric.labs.workloads import activities_of, task_activities

    report.check_plot(options.plot)
    duration = None if options.duration is None else time_ps_of(options.duration)
    defaults, seed = _defaults(options), read_option("seed", options.seed or "1", seed_of)
    tick = RealTime.tick_ps if options.tick is None else _tick(options.tick)
    jitter = AUTO if options.jitter is None else read_option("jitter", options.jitter, jitter_of)
    lab = read(options)
    activities = task_activities(lab)
    by_default = not (activities or options.workload)
    if options.workload or by_default:
        activities += activities_of(lab, options.workload or _DEFAULT_WORKLOAD)
    with shown_progress(options.json, log=True) as progress:
        contents = contents_of(
            lab, programs_of(lab, options.program, progress=progress, compiler=options.compiler), progress
        )
    with (
        timed_bar("sim", options.json) as update,
        VirtualLab(lab, contents, defaults, seed, tick, jitter) as virtual,
        lab_traces(virtual.booted, options.trace, options.trace_count) as traces,
    ):
        jobs = virtual.do(activities)
        sampler = LabSampler(virtual.booted, jobs) if options.plot else None
        virtual.run_until_over(jobs, duration, lambda done: update(done, 1.0, ""), sampler)
        document = virtual.results(jobs)
        traced = None if traces is None else traces()
    if sampler is not None:
        from detour.experiments.sim.lab_figures import draw_lab

        draw_lab(options.plot, sampler.series())
    present_traced(document, options, lambda page: show_lab_run(page, lab, document, by_default), traced)
    if options.json and (why := _why_ended(document, by_default)):
        print(f"detour: {why}", file=sys.stderr)
    return int(document["ended_by"] == "stuck" or document["unanswered"] > 0)


def _defaults(options: argparse.Namespace) -> LinkDefaults:
    from dataclasses import replace

    from detour.fabric.labs.virtual import DEFAULTS

    defaults = DEFAULTS
    if options.rate is not None:
        defaults = replace(defaults, rate_bps=rate_bps_of(options.rate))
    if options.delay is not None:
        defaults = replace(defaults, delay_ps=time_ps_of(options.delay))
    if options.loss is not None:
        defaults = replace(defaults, loss=fraction_of(options.loss))
    return defaults


def _tick(text: str) -> int:
    tick = time_ps_of(text)
    if tick < NS:
        raise DetourError(f"--tick {text!r}: the minimum is 1ns")
    return tick


def show_lab_run(page: Page, lab: Lab, document: dict[str, Any], by_default: bool = False) -> None:
    """Tables of what hosts did and what ports carried, and how it ended."""
    page.print(
        f"{lab.folder.name} ({lab.format}): {len(lab.switches)} switches, {len(lab.hosts)} hosts, "
        f"{document['seconds'] * 1e3:.3f} ms of virtual time"
    )
    for table in lab_tables(document):
        page.table(table)
    udp, done = document["udp"], []
    if udp:  # some may be lost by intent, and a multicast's are many
        done.append(
            f"UDP: {sum(row['sent'] for row in udp)} datagrams sent, {sum(r['received'] for r in udp)} received"
        )
    if document["flows"] > len(udp):
        done.append(f"{document['completed']} of {document['flows']} flows complete")
    if document["frames"]:
        done.append(f"{sum(row['sent'] for row in document['frames'])} frames sent")
    page.print(f"{', '.join(done) or 'nothing was sent'}, {document['drops']} frames lost in queues and on links")
    if document["incomplete"] or document["frames"]:
        for row in document["dropped"]:
            page.print(f"{row['where']}: {row['frames']} frames, {row['why']}")
    if why := _why_ended(document, by_default):
        page.print(why)


def _why_ended(document: dict[str, Any], by_default: bool) -> str | None:
    """Why not all is complete; None: it is. `by_default`: nobody named a workload."""
    flows, unanswered, circling = (document[name] for name in ("incomplete", "unanswered", "circling"))
    silent = f"; {unanswered} have no answer, and nothing of them is under way" if unanswered else ""
    if document["ended_by"] == "duration":
        return f"--duration cut off {flows} flows{silent}"
    if document["ended_by"] == "delivered":
        return None
    why = f"{circling} frames go in circles" if circling else "nothing is under way"
    hint = "; all hosts pinged each other, as no --workload says what to do: does the program forward pings?"
    return f"stuck: {why}, and {flows} flows are not complete{hint if by_default else ''}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "nobody"
    return "-" if value is None else str(value)


_HEADS = {"rtt_min_us": "least, us", "rtt_mean_us": "mean, us", "rtt_max_us": "most, us", "delay_mean_us": "delay, us",
          "delay_max_us": "most, us", "mbps": "Mb/s", "queue_peak_packets": "longest queue", "tx_packets": "packets",
          "tx_bytes": "bytes", "queue_drops": "queue drops", "link_drops": "link drops"}  # fmt: skip
_TEXTS = ("src", "dst", "switch", "peer", "to", "control")


def lab_tables(document: dict[str, Any]) -> list[Table[Any]]:
    """One for each kind of what hosts did, and one of ports."""
    tables = []
    for name in ("pings", "udp", "tcp", "frames", "ports"):
        rows = document.get(name, [])[:_SHOWN]
        if rows:
            columns = tuple(
                (left if key in _TEXTS else right)(_HEADS.get(key, key), lambda row, key=key: _shown(row[key]))
                for key in rows[0]
            )
            more = len(document[name]) - len(rows)
            tables.append(Table(columns, rows, f"{name}{f' (the first; {more} more in --json)' if more > 0 else ''}"))
    return tables


def linux_lines(linux: Sequence[LinuxHost] | None) -> list[str]:
    """Return the lines of `status` on Linux hosts."""
    if not linux:
        return []
    hosts = ", ".join(f"{host.host} ({host.addresses[0].partition('/')[0]})" for host in linux)
    lines = [f"Linux hosts: {hosts}; `detour exec {linux[0].host} -- COMMAND`"]
    return lines + [
        f"{host.host}: {host.oversized} frames above the MTU of {host.mtu} bytes were dropped"
        for host in linux
        if host.oversized
    ]
