# SPDX-License-Identifier: Apache-2.0
"""`reproduce tcp`: TCP of the IP hosts beside theory, beside Linux and beside ns-3."""

from __future__ import annotations

import argparse

from detour.base.errors import DetourError
from detour.cli.output import present
from detour.cli.parser import Parser, counts, fractions, output_file
from detour.cli.reproducing import carry_out, extent_of, show


def options_of(parser: Parser) -> None:
    """Adds its options."""
    parser.add_argument("--loss", type=fractions, metavar="P[,P...]", help="fractions of frames (0.001,0.003,0.01)")
    parser.add_argument("--flows", type=counts, metavar="N[,N...]", help="that share a cable (2,4,8)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of losses and initial numbers (1)")
    beside = parser.add_mutually_exclusive_group()
    beside.add_argument("--linux", action="store_true", help="beside Linux's TCP instead, in real time (root)")
    beside.add_argument("--ns3", action="store_true", help="beside ns-3's instead: windows over time (docs/hosts.md)")
    parser.add_argument("--plot", type=output_file, metavar="FILE", help="with --ns3: draw them (.png, .svg)")
    parser.add_argument("--cc", metavar="NAME", help="with --linux: newreno or cubic, with parameters (cubic)")
    parser.add_argument("--seconds", type=float, metavar="S", help="with --linux: how long (100)")


def run(options: argparse.Namespace) -> int:
    """Runs the points and prints; the exit code."""
    from detour.experiments.reproduce import TCP
    from detour.experiments.tcp import experiment as tcp

    for name, what in (("cc", "linux"), ("seconds", "linux"), ("plot", "ns3")):
        if getattr(options, name) is not None and not getattr(options, what):
            raise DetourError(f"--{name} is for --{what}")
    if options.linux:
        return _beside_linux(options)
    if options.ns3:
        return _beside_ns3(options)
    points = tcp.select(
        extent_of(options), options.loss or tcp.TCP_LOSSES, options.flows or tcp.TCP_FLOWS, options.seed
    )
    found = carry_out(options, TCP, points)
    return show(options, found, lambda page: page.tables(tcp.tables(found.collected)))


def _beside_linux(options: argparse.Namespace) -> int:
    from detour.experiments.tcp import linux

    found = linux.compare(options.cc or "cubic", linux.COMPARED_SECONDS if options.seconds is None else options.seconds)
    present(found, options, lambda page: page.table(linux.linux_table(found)))
    return 0


def _beside_ns3(options: argparse.Namespace) -> int:
    from detour.experiments.tcp import ns3

    found = ns3.compare()
    if options.plot:
        from detour.experiments.tcp.figures import beside_ns3

        beside_ns3(found, options.plot)
    present(ns3.ns3_document(found), options, lambda page: page.table(ns3.ns3_table(found)))
    return 0
