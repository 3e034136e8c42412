# SPDX-License-Identifier: Apache-2.0
"""What is compared for one program: a function for each stage, which returns what came of it."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from tests.differential.p4c_corpus import ours, reference
from tests.differential.random_programs import for_p4c


@dataclass(frozen=True)
class Outcome:
    """`ok` None: the program does not count in this stage, for the reason given."""

    name: str
    ok: bool | None
    reason: str = ""
    counted: str = ""
    """A second thing that is counted, for stages that have one."""


def compile_one(source: Path) -> Outcome:
    """Compiles what p4c compiles."""
    theirs = reference.compiled(source)
    if not theirs.accepted:
        return Outcome(source.stem, None, "p4c refuses it")
    mine = ours.compiled(source)
    at = f" ({mine.place[0]}:{mine.place[1]})" if mine.place else ""
    return Outcome(source.stem, mine.accepted, ("BUG " if mine.bug else "") + mine.error + at if mine.error else "")


def errors_one(source: Path) -> Outcome:
    """Refuses what p4c refuses; `counted` is "line" if the first error is on the line of p4c's."""
    theirs = reference.compiled(source)
    if theirs.accepted or theirs.crashed:
        return Outcome(source.stem, None, "p4c takes it" if theirs.accepted else "p4c fails")
    mine = ours.compiled(source)
    if mine.accepted or mine.bug:
        first = next((line for line in theirs.messages.splitlines() if "error" in line), "")
        return Outcome(source.stem, False, f"BUG {mine.error}" if mine.bug else f"taken; p4c: {first[:160]}")
    place = theirs.first_error()
    if place is None or place == mine.place:
        return Outcome(source.stem, True, counted="line")
    first = next((line for line in theirs.messages.splitlines() if "error" in line), "")
    return Outcome(source.stem, True, f"ours {mine.place}: {mine.error[:100]} | p4c {place}: {first[-120:]}")


WARNINGS = frozenset({"unused", "shadow", "uninitialized-use", "uninitialized-out-param", "invalid-header"})
"""Kinds that depend on the program alone; others are about p4c's targets."""


def warnings_one(source: Path) -> Outcome:
    """The same warnings on the same lines; `counted` is "more" where p4c has one less."""
    theirs, mine = reference.compiled(source), ours.compiled(source)
    if not theirs.accepted or not mine.accepted:
        return Outcome(source.stem, None, "not compiled by both")
    missing, more = (
        [one for one in some if one[0] in WARNINGS]
        for some in (theirs.warnings - mine.warnings, mine.warnings - theirs.warnings)
    )
    return Outcome(
        source.stem, not missing and not more, f"missing {sorted(missing)}, more {sorted(more)}", "more" if more else ""
    )


def p4info_one(source: Path) -> Outcome:
    """P4Info equal as messages, and the entries."""
    theirs = reference.compiled(source)
    if not theirs.accepted or not theirs.p4info.exists():
        return Outcome(source.stem, None, "no P4Info of p4c")
    mine = ours.compiled(source)
    if not mine.accepted:
        return Outcome(source.stem, None, "not compiled")
    if mine.p4info is None:
        return Outcome(source.stem, False, "no P4Info")
    reason = _difference(theirs.p4info, mine.p4info)
    if not reason and theirs.entries.exists() and mine.entries is not None:
        reason = _difference(theirs.entries, mine.entries)
    return Outcome(source.stem, not reason, reason)


def _difference(theirs: Path, mine: Any) -> str:
    expected = text_format.Parse(theirs.read_text(), type(mine)())
    if expected == mine:
        return ""
    lines = zip(
        text_format.MessageToString(expected).splitlines(),
        text_format.MessageToString(mine).splitlines(),
        strict=False,
    )
    first = next(((a.strip(), b.strip()) for a, b in lines if a != b), ("", "(length)"))
    return f"p4c {first[0]!r}, ours {first[1]!r}"


def _plays(stf: Path, p4info: Path, program: Path) -> str:
    """Empty if a packet test is as expected, else why not."""
    from detour import cli

    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            status = cli.main(["trace", "--program", f"{p4info},{program}", "--stf", str(stf)])
        except SystemExit as end:
            status = end.code
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    lines = [line for line in output.getvalue().splitlines() if line.strip()]
    return "" if status == 0 else (next((line for line in lines if "expected" in line or "should" in line), lines[-1]))


def stf_one(source: Path) -> Outcome:
    """The packet test of a sample: `counted` is "p4c" if it passes with p4c's JSON on the engine."""
    stf = source.with_suffix(".stf")
    theirs = reference.compiled(source)
    if not stf.exists() or not theirs.accepted:
        return Outcome(source.stem, None, "no test")
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        # Where p4c writes no P4Info, ours serves both: STF names objects as the JSON does.
        mine = ours.compiled(source)
        if mine.p4info is not None:
            (base / "p4info.txtpb").write_text(text_format.MessageToString(mine.p4info))
            (base / "out.json").write_text(json.dumps(mine.json))
        p4info = theirs.p4info if theirs.p4info.exists() else base / "p4info.txtpb"
        reference_says = _plays(stf, p4info, theirs.json) if p4info.exists() else "no P4Info"
        counted = "" if reference_says else "p4c"
        if not mine.accepted:
            return Outcome(source.stem, False, f"not compiled: {mine.error[:100]}", counted)
        reason = _plays(stf, base / "p4info.txtpb", base / "out.json")
        if reason and reference_says:
            reason = f"{reason}; with p4c's too: {reference_says}"
        return Outcome(source.stem, not reason, reason[:300], counted)


def long_name(source: Path) -> str:
    """The program's name with folders, as many programs are called `main.p4`."""
    return str(Path(*source.parts[-4:]))


def programs_one(source: Path, *, bmv2: bool = False, defines: tuple[str, ...] = ()) -> Outcome:
    """The same frames out on both JSONs; with `bmv2`, on BMv2 as well as on the engine. `defines`: `NAME=VALUE`."""
    from tests.differential.p4c_corpus import traffic

    name = long_name(source)
    include = traffic.include_folders(source)
    theirs = reference.compiled(for_p4c(source), include, tuple(f"-D{each}" for each in defines))
    if not theirs.accepted:
        return Outcome(name, None, "p4c fails" if theirs.crashed else "p4c refuses it")
    mine = ours.compiled(source, include, dict(each.split("=", 1) for each in defines))
    if not mine.accepted:
        return Outcome(name, False, f"{'BUG ' if mine.bug else ''}{mine.error}")
    try:
        reason = traffic.compare(theirs, mine, seed=source.name, bmv2=bmv2)
    except traffic.NotCompared as why:
        return Outcome(name, True, str(why), "not compared")
    if theirs.p4info.exists() and (difference := _difference(theirs.p4info, mine.p4info)):
        return Outcome(name, not reason, reason[:400] or f"P4Info: {difference}"[:400], "compared, other P4Info")
    return Outcome(name, not reason, reason[:400], "compared")


def generated_one(source: Path, *, bmv2: bool = False, defines: tuple[str, ...] = ()) -> Outcome:
    """Generated tests of both JSONs have the same results on the other one. `defines` is for other programs."""
    from tests.differential.p4c_corpus.generated import compare_tests
    from tests.differential.p4c_corpus.traffic import NotCompared

    theirs, mine = reference.compiled(source), ours.compiled(source)
    if not theirs.accepted or mine.json is None:
        return Outcome(source.stem, None, "not compiled by both")
    try:
        reason = compare_tests(theirs, mine, bmv2=bmv2)
    except NotCompared as why:
        return Outcome(source.stem, None, str(why).rpartition("json: ")[2])
    return Outcome(source.stem, not reason, reason[:400])


STAGES: dict[str, Callable[[Path], Outcome]] = {
    "compile": compile_one,
    "errors": errors_one,
    "p4info": p4info_one,
    "warnings": warnings_one,
    "stf": stf_one,
    "tests": generated_one,
    "programs": programs_one,
    "random": programs_one,
}
