# SPDX-License-Identifier: Apache-2.0
"""`trace --stf`: plays a file of p4c's STF on a program, shows what became of each packet, and what was not as expected
(docs/trace.md)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from detour.base.errors import DetourError
from detour.cli.output import Page, present
from detour.cli.trace_text import show_packet

if TYPE_CHECKING:
    from detour.fabric.tracing.stf_player import StfRun


def trace_stf(options: argparse.Namespace) -> int:
    """Exit code 1: something is not as the file expects it."""
    from detour.control.p4runtime.pipeline import PipelineConfig
    from detour.fabric.labs.entries import read_updates
    from detour.fabric.tracing.program import TracedProgram
    from detour.fabric.tracing.stf import read_stf
    from detour.fabric.tracing.stf_player import play_stf

    if options.packet is not None or options.all:
        raise DetourError("--stf says which packets there are, and each goes one way: no --packet and no --all with it")
    statements = read_stf(options.stf)
    with TracedProgram(PipelineConfig.given(options.program), cpu_port=0) as switch:
        if options.entries is not None:
            switch.write(*read_updates(options.entries, switch.p4info))
        run = play_stf(options.stf, statements, switch)
    present(run.as_json(), options, lambda page: _render(page, run, options))
    return 1 if run.mismatches else 0


def _render(page: Page, run: StfRun, options: argparse.Namespace) -> None:
    from detour.fabric.operations.following import document

    for played in run.packets:
        page.print(f"{options.stf}:{played.line}: packet of {len(played.frame)} bytes to port {played.port}", "bold")
        show_packet(page, document(played.found), options.verbose)
    for said in run.commands:
        page.print(f"{options.stf}:{said.line}: {said.command}", "bold")
        for line in said.output:
            page.print(f"    {line}")
    for each in run.mismatches:
        page.print(f"{options.stf}:{each.line}: {each.text}", "bold red", whole=True)
    page.print(_summary(run))


def _summary(run: StfRun) -> str:
    unchecked = f"; {run.unchecked} frames left by ports that the file does not name" if run.unchecked else ""
    wrong = f"{len(run.mismatches)} not as expected" if run.mismatches else "all as expected"
    return f"{len(run.packets)} packets, {run.expected} expectations: {wrong}{unchecked}"
