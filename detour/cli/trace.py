# SPDX-License-Identifier: Apache-2.0
"""`trace`: what happens to a packet, line by line of P4 (docs/trace.md)."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.cli.asking import running
from detour.cli.output import Page, present, shown_progress
from detour.cli.parser import (
    add_name_option,
    add_parameters,
    byte_count,
    command,
    counted,
    output_file,
    refuse,
    seconds,
    switch_port,
    traced_packets,
)
from detour.cli.trace_text import show_packet, show_packets
from detour.fabric.operations.registry import SPORT_OPTION, USID_OPTION, Operations

if TYPE_CHECKING:
    from detour.fabric.operations.results import PacketTrace
    from detour.fabric.tracing.stf_player import StfRun

_OF_RUNS = ("flow", "psn", "first_drop", "first_mark", "longest_wait")
_TEXT = "follow a packet through the switches, line by line of P4"


def register(commands: Any) -> None:
    trace = command(commands, "trace", _TEXT, _trace)
    trace.add_argument("source", nargs="?", metavar="SRC", help="host, like h0")
    trace.add_argument("target", nargs="?", metavar="DST", help="host, like h71")
    add_parameters(trace, {"sport": SPORT_OPTION, "usid": USID_OPTION}, Operations.trace)
    trace.option("--bytes", "payload, a multiple of 4 (1000)", "N", byte_count, default=1000)
    trace.flag("--all", "follow all paths that hashes, selectors and random numbers allow")
    trace.option("--topo", "use planned entries for a topology like d1; no fabric needs to run", "T")
    trace.option("--program", "use one switch with any P4 program; no fabric is booted", "P4|P4INFO,JSON")
    trace.option("--entries", "a P4Runtime WriteRequest as text, or a tutorial's runtime.json", "FILE", Path)
    trace.option("--packet", "the input frame in hex, or the first frame of a pcap or pcapng file", "HEX|FILE")
    trace.option("--ethernet", "MAC addresses for a capture of raw IP packets", "DST/SRC")
    trace.option("--stf", "run a packet test in p4c's STF; exit code 1 if it fails", "FILE", Path)
    trace.option("--port", "ingress port (1)", "N", switch_port, default=1)
    trace.option("--live", "trace passing packets, like 'dst h71 and dropped'; '' matches all", "FILTER")
    trace.option("--switch", "with --live: only at this switch", "S")
    trace.option("--count", "with --live: number of packets (1)", "N", traced_packets, default=1)
    trace.option("--seconds", "with --live: longest time to wait (10)", "S", seconds, default=10.0)
    trace.option("--run", "replay a run of `detour sim --record FILE` up to a packet", "FILE", Path, dest="run_file")
    trace.option("--read", "show a trace file of 4ward, BMv2 or --json", "FILE", Path)
    which = trace.add_mutually_exclusive_group()
    which.add_argument("--flow", type=counted, metavar="F", help="with --run and --psn: number of the flow, from 0")
    which.add_argument("--first-drop", action="store_true", help="with --run: the first lost frame")
    which.add_argument("--first-mark", action="store_true", help="with --run: the first packet received with a mark")
    which.add_argument(
        "--longest-wait", action="store_true", help="with --run: the packet that waited longest in one queue"
    )
    trace.option("--psn", "with --flow: number of the packet, from 0", "N", counted)
    text = "show assignments and complete headers too; with --format, detour's extension fields"
    trace.add_argument("-v", "--verbose", action="store_true", help=text)
    trace.option(
        "--format",
        "print 4ward's TraceTree or BMv2's PacketTrace as protobuf text, a Mermaid chart, or --json",
        choices=("4ward", "bmv2", "mermaid", "json"),
    )
    trace.option("--coverage", "write the program's coverage by the packet (`coverage`)", "FILE", output_file)
    add_name_option(trace)


def _trace(options: argparse.Namespace) -> int | None:
    if options.format == "json":
        options.json, options.format = True, None
    if options.format is not None and (options.json or options.live is not None or options.stf is not None):
        raise DetourError("--format shows one packet: it does not go with --json, --live or --stf")
    if options.read is not None:
        return _of_a_file(options)
    if options.run_file is not None:
        return _of_the_run(options)
    refuse(options, _OF_RUNS, "is about a run: --run FILE is missing")
    if options.program is not None:
        return _program(options)
    if any(value is not None for value in (options.entries, options.packet, options.ethernet, options.stf)):
        raise DetourError("--entries, --packet, --ethernet and --stf need --program")
    if options.live is not None:
        return _live(options)
    if options.source is None or options.target is None:
        raise DetourError("trace needs SRC and DST, or --program, or --live FILTER")
    if options.topo is not None:
        packet = _planned(options)
    else:
        with shown_progress(options.json) as progress:
            packet = running().trace(
                options.source, options.target, sport=options.sport, usid=options.usid, length=options.bytes,
                all_ways=options.all, coverage=_absolute(options.coverage), progress=progress,
            )  # fmt: skip
    _show(packet, options)
    return None


def _planned(options: argparse.Namespace) -> PacketTrace:
    """Through the tables that a controller would write into a fabric that is not up."""
    from detour.engine.coverage.document import collecting
    from detour.fabric.operations.packet_tracing import document
    from detour.fabric.tracing.walk import trace_planned

    with shown_progress(options.json) as progress, collecting(options.coverage):
        progress("planning tables")
        packet = {"sport": options.sport, "usid": options.usid, "payload": options.bytes, "all_ways": options.all}
        return document(trace_planned(options.topo, options.source, options.target, **packet))


def _program(options: argparse.Namespace) -> int | None:
    from detour.control.p4runtime.pipeline import PipelineConfig
    from detour.engine.coverage.document import collecting
    from detour.fabric.labs.entries import read_updates
    from detour.fabric.operations.packet_tracing import document
    from detour.fabric.tracing.frames import ethernet_of, read_frame
    from detour.fabric.tracing.program import TracedProgram

    if options.source is not None or options.topo is not None or options.live is not None:
        raise DetourError("--program runs one switch: use --packet and --port, not hosts, --topo or --live")
    if options.stf is not None:
        with collecting(options.coverage):
            return trace_stf(options)
    if options.packet is None:
        raise DetourError("--program needs a packet: --packet HEX or FILE, or --stf FILE")
    frame = read_frame(options.packet, None if options.ethernet is None else ethernet_of(options.ethernet))
    files = PipelineConfig.given(options.program)
    with collecting(options.coverage), TracedProgram(files) as switch:
        if options.entries is not None:
            switch.write(*read_updates(options.entries, switch.p4info))
        packet = document(switch.trace(frame, options.port, all_ways=options.all))
    _show(packet, options)
    return None


def _of_a_file(options: argparse.Namespace) -> None:
    from detour.fabric.operations.results import PacketTrace
    from detour.fabric.tracing.reading import read_trace

    if options.source is not None or options.run_file is not None:
        raise DetourError("--read shows a file: it does not go with hosts or --run")
    others = ("topo", "program", "entries", "packet", "ethernet", "stf", "live", "switch", "all", "coverage")
    refuse(options, (*others, "sport", "usid", *_OF_RUNS), "cannot be beside --read, which shows what is in a file")
    _show(PacketTrace(**read_trace(options.read)), options)


def _of_the_run(options: argparse.Namespace) -> int | None:
    from detour.experiments.sim.replay.replay import Replay
    from detour.fabric.operations.packet_tracing import document

    others = {"SRC": options.source, "--topo": options.topo, "--program": options.program, "--live": options.live}
    if wrong := [name for name, given in others.items() if given is not None]:
        raise DetourError(f"--run replays a recorded run: {', '.join(wrong)} does not go with it")
    if options.all or options.coverage is not None:
        raise DetourError("--run replays a recorded run: --all and --coverage do not go with it")
    if (options.flow is None) != (options.psn is None):
        raise DetourError("--flow F and --psn N must be given together")
    with shown_progress(options.json) as progress:
        replay = Replay.of_file(options.run_file, progress)
        if options.flow is not None:
            packet = replay.packet(options.flow, options.psn)
        elif options.first_drop:
            packet = replay.first_drop()
        elif options.first_mark:
            packet = replay.first_mark()
        elif options.longest_wait:
            packet = replay.longest_wait()
        else:
            raise DetourError(
                "--run: choose a packet with --flow F --psn N, --first-drop, --first-mark or --longest-wait"
            )
    shown = document(packet.followed)

    def render(page: Page) -> None:
        page.print(packet.about, style="bold")
        show_packet(page, shown, options.verbose)

    present(shown, options, render)
    return None


def _live(options: argparse.Namespace) -> int:
    from detour.engine.trace.filters import parse_filter

    parse_filter(options.live, lambda name: "::")  # so that who has mistyped it hears of that, whatever is up
    with shown_progress(options.json) as progress:
        packets = running().trace_live(
            options.live, switch=options.switch, count=options.count, seconds=options.seconds,
            coverage=_absolute(options.coverage), progress=progress,
        )  # fmt: skip

    def render(page: Page) -> None:
        show_packets(page, packets.packets, options.verbose)
        page.print(
            f"{len(packets.packets)} of {options.count} packets"
            + (f"; {packets.missed} more came too fast to be traced" if packets.missed else "")
        )

    present(packets, options, render)
    return 0 if packets.packets else 1


def _absolute(file: Path | None) -> str | None:
    """For the fabric's process, which has a folder of its own."""
    return None if file is None else os.path.abspath(file)


def _show(packet: PacketTrace, options: argparse.Namespace) -> None:
    if options.format == "mermaid":
        from detour.fabric.tracing.mermaid import mermaid

        print(mermaid(packet.hops), end="")
        return
    if options.format is not None:
        from detour.fabric.tracing.text_proto import text_protos

        for hop in packet.hops:
            for message in text_protos(hop, options.format, extended=options.verbose):
                print(f"# {hop['switch']}, port {hop['port']}\n{message}", end="")
        return
    present(packet, options, lambda page: show_packet(page, packet, options.verbose))


def trace_stf(options: argparse.Namespace) -> int:
    """Exit code 1: something is not as the file expects it."""
    from detour.control.p4runtime.pipeline import PipelineConfig
    from detour.fabric.labs.entries import read_updates
    from detour.fabric.tracing.program import TracedProgram
    from detour.fabric.tracing.stf import read_stf
    from detour.fabric.tracing.stf_player import play_stf

    if options.packet is not None or options.all:
        raise DetourError("--stf has its own packets: --packet and --all do not go with it")
    statements = read_stf(options.stf)
    with TracedProgram(PipelineConfig.given(options.program), cpu_port=0) as switch:
        if options.entries is not None:
            switch.write(*read_updates(options.entries, switch.p4info))
        run = play_stf(options.stf, statements, switch)
    present(run.as_json(), options, lambda page: _render(page, run, options))
    return 1 if run.mismatches else 0


def _render(page: Page, run: StfRun, options: argparse.Namespace) -> None:
    from detour.fabric.operations.packet_tracing import document

    for played in run.packets:
        page.print(f"{options.stf}:{played.line}: packet of {len(played.frame)} bytes to port {played.port}", "bold")
        show_packet(page, document(played.traced), options.verbose)
    for run_command in run.commands:
        page.print(f"{options.stf}:{run_command.line}: {run_command.command}", "bold")
        for line in run_command.output:
            page.print(f"    {line}")
    for mismatch in run.mismatches:
        page.print(f"{options.stf}:{mismatch.line}: {mismatch.text}", "bold red", whole=True)
    unchecked = f"; {run.unchecked} frames left by ports that the file does not name" if run.unchecked else ""
    wrong = f"{len(run.mismatches)} not as expected" if run.mismatches else "all as expected"
    page.print(f"{len(run.packets)} packets, {run.expected} expectations: {wrong}{unchecked}")
