# SPDX-License-Identifier: Apache-2.0
"""`test`: generates tests of a P4 program (docs/test-generation.md)."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.cli.output import Page, present, shown_progress
from detour.cli.parser import command, counted, output_folder, seconds, traced_packets
from detour.cli.trace_text import show_packet

if TYPE_CHECKING:
    from detour.base.progress import Progress
    from detour.p4.build import Build
    from detour.testgen.generate import Generated, Plan
    from detour.testgen.regress import Difference

_TEXT = "generate tests of a P4 program, with entries, packets and expected outputs"
_SHOWN = 20
"""places without a test that are shown"""


def register(commands: Any) -> None:
    test = command(commands, "test", _TEXT, _test)
    test.add_argument("program", type=Path, metavar="PROGRAM", help="a program NAME.p4 for v1model, or its BMv2 JSON")
    text = "what tests must reach: branches are statements, branches and table outcomes; paths: these too (branches)"
    test.option("--cover", text, choices=("statements", "branches", "paths"), default="branches")
    test.option("--tests", "generate at most N tests", "N", counted, default=None)
    test.option("--packets", "at most N packets in a test (2; protobuf: 1)", "N", traced_packets, default=2)
    test.option("--seconds", "longest time (60)", "S", seconds, default=60.0)
    test.option("--seed", "the same seed makes the same tests (0)", "N", counted, default=0)
    test.option("--fix", "value of a field of extracted headers, like ipv4.ttl=64 (repeatable)", "NAME=VALUE", _fixed,
                action="append", default=[])  # fmt: skip
    test.option("--out", "write the tests into DIR", "DIR", output_folder)
    text = "form of the tests that --out writes; ptf: for pytest, over P4Runtime; protobuf: P4Testgen's (stf)"
    test.option("--format", text, choices=("stf", "ptf", "protobuf", "pcap"), default="stf")
    test.option("--regress", "play the tests in DIR; exit code 1 if one is not as expected", "DIR", Path)
    text = "play the tests on OTHER too; exit code 1 at the first difference, which is made as small as possible"
    test.option("--compare", text, "OTHER", Path)
    text = (
        "look for failed assertions, divisions by zero, indices out of bounds, reads of invalid headers, packets "
        "that start over for ever, and packets sent to the drop port without mark_to_drop; exit code 1"
    )
    test.flag("--check", text)
    test.add_argument("-v", "--verbose", action="store_true", help="show every test, and assignments in traces")


def _fixed(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    try:
        number = int(value, 0)
    except ValueError:
        number = -1
    if not equals or "." not in name or number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not HEADER.FIELD=VALUE, like ipv4.ttl=64")
    return name, number


def _built(program: Path, p4info: bool = False) -> Build:
    from detour.p4.build import Build, build

    if program.suffix == ".p4":
        return build(program, p4info=p4info)
    return Build(program, program.with_suffix(".p4info.txtpb"))


def _test(options: argparse.Namespace) -> int:
    if options.regress is not None:
        if options.compare is not None or options.out is not None or options.check:
            raise DetourError("--regress plays tests that are there: it does not go with --compare, --check or --out")
        return _regress(options)
    if options.format != "stf" and options.out is None:
        raise DetourError(f"--format {options.format} is for the tests that --out DIR writes")
    if options.check and (options.compare is not None or options.out is not None):
        raise DetourError("--check looks for mistakes: it does not go with --compare or --out")
    from detour.base.extras import require

    require("z3", "z3-solver", "test", "generating tests")
    from detour.testgen.generate import Plan, generate

    more = {} if options.tests is None else {"most_tests": options.tests}
    packets = 1 if options.format == "protobuf" else options.packets
    plan = Plan(options.cover, seconds=options.seconds, seed=options.seed, fixed=dict(options.fix), packets=packets,
                **more)  # fmt: skip
    with shown_progress(options.json) as progress:
        built = _built(options.program, options.format in ("ptf", "protobuf"))
        plan = replace(plan, p4info=built.p4info if built.p4info.is_file() else None)
        if options.check:
            return _check(options, built, plan, progress)
        generated = generate(built.json, plan, progress)
        found = None
        if options.compare is not None:
            progress(f"comparing with {options.compare}")
            found = _compare(options, built.json, generated)
    if options.out is not None:
        _write(options, generated, built)
    document = generated.as_json()
    if options.compare is not None:
        document["difference"] = None if found is None else _document(found)
    present(document, options, lambda page: _show(page, generated, plan, found, options))
    return 1 if found is not None else 0


def _write(options: argparse.Namespace, generated: Generated, built: Build) -> None:
    from detour.testgen.formats import FORMATS, Program

    program = Program(options.program.stem, built.json, built.p4info)
    files = list(FORMATS[options.format](generated.tests, program))
    options.out.mkdir(exist_ok=True)
    for name, content in files:
        write_file(options.out / name, content)


def _compare(options: argparse.Namespace, source: Path, generated: Generated) -> Difference | None:
    from detour.testgen.regress import compare

    names = str(options.program), str(options.compare)
    return compare((source, _built(options.compare).json), names, generated.tests)


def _regress(options: argparse.Namespace) -> int:
    from detour.testgen.regress import rerun

    with shown_progress(options.json) as progress:
        progress(f"playing the tests in {options.regress}")
        count, found = rerun(_built(options.program).json, options.regress, str(options.program))

    def render(page: Page) -> None:
        for each in found:
            _show_difference(page, each, options.verbose)
        page.print(f"{count} tests: {len(found) or 'none'} not as expected", style="red" if found else None)

    present({"tests": count, "differences": [_document(each) for each in found]}, options, render)
    return 1 if found else 0


def _check(options: argparse.Namespace, built: Build, plan: Plan, progress: Progress) -> int:
    from detour.testgen.check import check

    checked = check(built.json, plan, progress)

    def render(page: Page) -> None:
        for each in checked.mistakes:
            page.print(f"{each.what}\n    {each.where}", style="red")
            page.print(each.stf, whole=True)
        found = "1 mistake" if len(checked.mistakes) == 1 else f"{len(checked.mistakes) or 'no'} mistakes"
        page.print(found + ("" if checked.whole else "; not all was looked at"))

    mistakes = [{"what": each.what, "where": each.where, "stf": each.stf} for each in checked.mistakes]
    present({"mistakes": mistakes, "whole": checked.whole}, options, render)
    return 1 if mistakes else 0


def _document(found: Difference) -> dict[str, Any]:
    traces = {name: [packet.as_json() for packet in packets] for name, packets in found.traces.items()}
    return {"test": found.test, "what": found.texts, "stf": found.stf, "traces": traces}


def _show_difference(page: Page, found: Difference, verbose: bool) -> None:
    from detour.fabric.operations.packet_tracing import document

    page.print(found.test, style="bold")
    for line in found.texts:
        page.print(f"    {line}", style="red", whole=True)
    page.print(found.stf, whole=True)
    for name, packets in found.traces.items():
        page.print(name, style="bold")
        for packet in packets:
            show_packet(page, document(packet.traced), verbose)


def _show(page: Page, generated: Generated, plan: Plan, found: Difference | None, options: argparse.Namespace) -> None:
    if options.verbose:
        for test in generated.tests:
            page.print(test.stf(), whole=True)
    document = generated.as_json()["coverage"]
    counts = [f"{document[each]['covered']}/{document[each]['reachable']} {each}" for each in _COUNTED]
    page.print(f"{len(generated.tests)} tests in {generated.seconds:.1f} s: {', '.join(counts)}")
    if generated.paths is not None:
        paths = generated.paths
        page.print(f"paths: {paths.covered} covered, {paths.impossible} impossible, {paths.unknown} unknown")
    for what, places in (("unreachable", generated.unreachable), ("unknown", generated.unknown)):
        if places:
            page.print(f"{what}: {len(places)}", style="bold")
        for place in places if options.verbose else places[:_SHOWN]:
            page.print(f"    {place.where}\n        {place.reason}")
        if len(places) > _SHOWN and not options.verbose:
            page.print(f"    and {len(places) - _SHOWN} more: -v")
    if found is not None:
        _show_difference(page, found, options.verbose)
    elif options.compare is not None:
        page.print(f"no test differs on {options.compare}")


_COUNTED = ("statements", "branches", "outcomes")
