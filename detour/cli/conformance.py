# SPDX-License-Identifier: Apache-2.0
"""`conformance`: how closely a P4Runtime server follows the specification (docs/p4runtime.md)."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.base.tables import Table, left, markdown, right, write_block
from detour.cli.output import Page, present, shown_progress
from detour.cli.parser import command, counted, output_file

if TYPE_CHECKING:
    from detour.conformance.model import ConformanceReport


def register(commands: Any) -> None:
    parser = command(commands, "conformance", "test a P4Runtime server against the specification", _conformance)
    parser.option("--grpc", "address of the server, like 127.0.0.1:9559 or unix:PATH", "ADDR")
    parser.option("--device-id", "device to test (1)", "N", counted, default=1)
    parser.option("--second-device", "another device of the server, for checks that need two", "N", counted)
    parser.option("--down-port", "a port of the device that is down, for checks that need one", "N", counted)
    parser.option("--section", "run only the checks of a section, like 9.1 (repeatable)", "S", action="append")
    parser.option("--skip", "skip a check, like arbitration.zero (repeatable)", "ID", action="append")
    parser.option("--junit", "write the verdicts as JUnit XML", "FILE", output_file)
    parser.option("--html", "write a page with what was sent, received and expected", "FILE", output_file)
    parser.option("--p4info", "P4Info of a program to use instead of the suite's, with --config", "FILE", Path)
    parser.option("--config", "device config of this program; or a P4 program, without --p4info", "FILE", Path)
    parser.option(
        "--from", "show stored runs (output of --json, also as .xz) by section (repeatable)", "FILE", Path,
        action="append", dest="stored",
    )  # fmt: skip
    parser.option(
        "--write", "with --from: write the table by chapters to this page (docs/p4runtime.md)", "FILE", output_file
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show what was sent and received when a check failed"
    )


def _conformance(options: argparse.Namespace) -> int:
    from detour.conformance.model import ServerUnderTest
    from detour.conformance.report import junit, page
    from detour.conformance.run import read_config, run

    if (options.grpc is None) == (options.stored is None):
        raise DetourError("name a server by --grpc, or stored runs by --from")
    if options.stored is not None:
        return _stored(options)
    if options.config is not None and options.config.suffix == ".p4" and options.p4info is None:
        from detour.p4.build import build

        made = build(options.config, p4info=True)
        options.p4info, options.config = made.p4info, made.json
    p4info, given = options.p4info, options.config
    if (p4info is None) != (given is None):
        raise DetourError("--p4info and --config go together")
    config = None if p4info is None or given is None else read_config(p4info, given)
    with shown_progress(options.json) as progress:
        server = ServerUnderTest(
            options.grpc, options.device_id, config, second_device=options.second_device, down_port=options.down_port
        )
        begin = time.monotonic()

        def tell(done: int, of: int) -> None:
            seconds = time.monotonic() - begin
            progress(f"{done} of {of} checks, {seconds:.0f} s, about {seconds * (of - done) / done:.0f} s to go")

        progress("asking the server; all checks take half a minute on detour, some minutes on others")
        report = run(server, options.section, skip=options.skip or (), progress=tell)
        report.seconds = time.monotonic() - begin
    if options.junit is not None:
        write_file(options.junit, junit(report))
    if options.html is not None:
        write_file(options.html, page(report, f"P4Runtime server at {options.grpc}, device {options.device_id}"))
    present(report.as_json(), options, lambda page: _show(page, report, options.verbose))
    if report.interrupted:
        from detour.cli import INTERRUPTED

        return INTERRUPTED
    return 1 if report.summary["fail"] or report.untried else 0


def _show(page: Page, report: ConformanceReport, verbose: bool) -> None:
    from detour.conformance.model import ConformanceVerdict
    from detour.conformance.report import details

    for result in report.results:
        if result.verdict is not ConformanceVerdict.PASS:
            page.print(f"{result.verdict:<11} {result.section:<7} {result.id}: {result.requirement}")
        if verbose and result.verdict not in (ConformanceVerdict.PASS, ConformanceVerdict.NOT_OFFERED):
            page.print(details(result))
    for note in report.notes:
        page.print(note)
    columns = (left("verdict", lambda row: row[0]), right("checks", lambda row: str(row[1])))
    page.table(Table(columns, list(report.summary.items())))
    page.print(f"{len(report.results)} checks in {report.seconds:.0f} s")


def _stored(options: argparse.Namespace) -> int:
    from detour.conformance.report import chapter_table, read_runs, section_table

    runs = read_runs(options.stored)
    table = section_table(runs)
    if options.write is not None:
        sources = " ".join(f"--from {path}" for path in options.stored)
        write_block(options.write, f"detour conformance {sources}", markdown(chapter_table(runs)))
    present(table.rows, options, lambda page: page.table(table))
    return 0
