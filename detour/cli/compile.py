# SPDX-License-Identifier: Apache-2.0
"""`compile`: a P4_16 program to BMv2 JSON and P4Info (docs/p4.md)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.cli.output import Page, present
from detour.cli.parser import command, output_file

if TYPE_CHECKING:
    from detour.p4.compile import Result
    from detour.p4.messages import Message

_TEXT = "compile a P4_16 program to BMv2 JSON and P4Info; check it only, without -o"


def register(commands: Any) -> None:
    parser = command(commands, "compile", _TEXT, _compile)
    parser.add_argument("program", type=Path, metavar="PROGRAM.p4", help="program for v1model, PSA or PNA")
    parser.add_argument("-o", dest="output", type=output_file, metavar="JSON", help="write the BMv2 JSON")
    parser.option("--p4info", "write the P4Info, as text or (.json, .bin) in another form", "FILE", output_file)
    text = "write the entries of the source as a P4Runtime WriteRequest"
    parser.option("--entries", text, "FILE", output_file)
    text = "a folder with files that the program includes (repeatable)"
    parser.add_argument("-I", dest="include", type=Path, metavar="DIR", action="append", default=[], help=text)
    text = "define a macro, 1 without a value (repeatable)"
    parser.add_argument("-D", dest="defines", metavar="NAME=VALUE", action="append", default=[], help=text)
    parser.option("--arch", "architecture that the program must have", choices=("v1model", "psa", "pna"))
    text = (
        "none: no warnings; error: warnings are errors; no-KIND: no warnings of a kind, such as no-unused (repeatable)"
    )
    parser.add_argument("-W", dest="warnings", metavar="KIND", action="append", default=[], help=text)
    parser.option(
        "--compiler", "p4c: the reference compiler, if it is on PATH", choices=("detour", "p4c"), default="detour"
    )


def macros(words: list[str]) -> dict[str, str]:
    """`NAME=VALUE` or `NAME`, as after `-D`."""
    pairs = [word.partition("=") for word in words]
    return {name: value if equals else "1" for name, equals, value in pairs}


def _compile(options: argparse.Namespace) -> int:
    if options.compiler == "p4c":
        return _with_p4c(options)
    from detour.p4.compile import compile_file

    result = compile_file(
        options.program,
        options.arch,
        options.include,
        macros(options.defines),
        p4info=options.output is None or options.p4info is not None or options.entries is not None,
        entries=options.entries is not None,
    )
    sort_warnings(result, options.warnings)
    if not result.errors:
        write_results(result, options.output, [options.p4info], [options.entries])
    as_json = {
        "errors": [_as_json(message) for message in result.errors],
        "warnings": [_as_json(message) for message in result.warnings],
        "seconds": round(result.seconds, 4),
    }
    if (text := result.rendered()) and not options.json:
        print(text, file=sys.stderr)

    def render(page: Page) -> None:
        if result.errors:
            page.print(f"{options.program}: {len(result.errors)} error{'s' if len(result.errors) > 1 else ''}")
        else:
            to = f" -> {options.output}" if options.output else " has no errors"
            page.print(f"{options.program}{to} ({result.seconds:.2f} s)", whole=True)

    present(as_json, options, render)
    return 2 if result.errors else 0


def _as_json(message: Message) -> dict[str, Any]:
    span = message.span
    placed = {"file": span.file.name or None, "line": span.line, "column": span.column}
    extra = {"hint": message.hint} if message.hint else {}
    return {**placed, "message": message.text, **extra, **({"kind": message.kind} if message.kind else {})}


def sort_warnings(result: Result, wanted: list[str]) -> None:
    """Leave out warnings, or make errors of them, as `-W` says."""
    kinds = {word.removeprefix("no-") for word in wanted if word.startswith("no-")}
    result.warnings = [one for one in result.warnings if one.kind not in kinds and "none" not in wanted]
    if "error" in wanted and result.warnings:
        result.errors += result.warnings
        result.warnings = []


def write_results(
    result: Result, output: Path | None, p4info: list[Path | None], entries: list[Path | None], form: str | None = None
) -> None:
    """Write what is asked for. Raises `DetourError`: a file cannot be written."""
    for message, paths in ((result.p4info, p4info), (result.entries, entries)):
        for path in paths:
            if path is not None:
                write_file(path, _encoded(message, form or path.suffix.removeprefix(".")))
    if output is not None:
        write_file(output, result.text)


def _encoded(message: Any, form: str) -> str | bytes:
    """A protobuf message as text, JSON or bytes, by the ending of the file or by name."""
    if form in ("bin", "binary"):
        return message.SerializeToString(deterministic=True)
    if form == "json":
        from google.protobuf import json_format

        return json_format.MessageToJson(message) + "\n"
    from detour.p4.p4info import as_text

    return as_text(message)


def _with_p4c(options: argparse.Namespace) -> int:
    import shutil
    import tempfile
    import time

    from detour.p4.build import Build, run_p4c

    if not options.program.is_file():
        raise DetourError(f"{options.program}: there is no such file")
    if options.entries is not None:
        raise DetourError("--entries is not there with --compiler p4c")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        made = Build(Path(folder) / "program.json", Path(folder) / "program.p4info.txtpb")
        run_p4c(options.program, made, options.include, macros(options.defines))
        for path, target in ((made.json, options.output), (made.p4info, options.p4info)):
            if target is not None:
                shutil.copyfile(path, target)
    seconds = round(time.perf_counter() - start, 4)
    as_json = {"errors": [], "warnings": [], "seconds": seconds}
    present(as_json, options, lambda page: page.print(f"{options.program}: p4c has no errors ({seconds:.2f} s)"))
    return 0
