# SPDX-License-Identifier: Apache-2.0
"""Tests that run again: on a changed program (`--regress`), and on two programs side by side (`--compare`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.engine.compiler.covering import COLLECTOR, Collector
from detour.engine.compiler.program import Program
from detour.engine.coverage.document import ProgramCoverage, document_of
from detour.fabric.tracing.program import TracedSwitch
from detour.fabric.tracing.stf import parse_stf
from detour.fabric.tracing.stf_player import StfPlayed, play_stf
from detour.testgen.switch import TestSwitch, differences
from detour.testgen.testcase import Test

_MOST_BYTES = 256
"""of a packet, whose bytes are tried as zeros one after the other"""


@dataclass
class Difference:
    """A test with another result: what differs, its STF, and the traces of its packets, by the programs' names."""

    test: str
    texts: list[str]
    stf: str
    traces: dict[str, list[StfPlayed]] = field(default_factory=dict)


def rerun(source: Path, folder: Path, name: str) -> tuple[int, list[Difference]]:
    """Play the tests of a folder on a program (BMv2 JSON): how many, and which are not as expected. `name`: of the
    program. Raises DetourError: there are none, one cannot be read, or the engine cannot run the program."""
    files = _files(folder)
    program = Program.from_json(source)
    found: list[Difference] = []
    with TestSwitch(program) as switch, TracedSwitch(program) as tracing:
        for file in files:
            text = read_text(file)
            wrong = _played(switch, text, file)
            if wrong:
                found.append(Difference(file.name, wrong, text, {name: _traces(tracing, text)}))
    return len(files), found


def _files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.stf"))
    if not files:
        raise DetourError(f"{folder}: there are no files of STF (*.stf)")
    return files


def followed(source: Path, folder: Path) -> Iterator[tuple[str, list[StfPlayed], ProgramCoverage]]:
    """The name of each test of a folder, the traces of its packets on a program (BMv2 JSON), and the coverage so far.
    Raises DetourError: see `rerun`."""
    files = _files(folder)
    with COLLECTOR.set_to(collector := Collector()):
        program = Program.from_json(source)
    with TestSwitch(program) as switch, TracedSwitch(Program.from_json(source)) as tracing:
        for file in files:
            text = read_text(file)
            _played(switch, text, file)
            (coverage,) = document_of(collector).programs.values()
            yield file.stem, _traces(tracing, text), coverage


def _played(switch: TestSwitch, text: str, path: Path) -> list[str]:
    """The differences from what a test expects; a statement that the program has no names for is one such thing."""
    try:
        return differences(switch.play(text, path))
    except DetourError as error:
        return [str(error)]


def _traces(switch: TracedSwitch, stf: str) -> list[StfPlayed]:
    """The traces of a test's packets; none if the program does not take the test."""
    try:
        switch.reset()
        return play_stf(Path("test.stf"), parse_stf(stf), switch).packets
    except DetourError:
        return []


def compare(sources: tuple[Path, Path], names: tuple[str, str], tests: Iterable[Test]) -> Difference | None:
    """The first test whose packets come out of two programs (BMv2 JSON) in different ways, made as small as possible.
    Raises DetourError: the engine cannot run one of them."""
    programs = Program.from_json(sources[0]), Program.from_json(sources[1])
    with TestSwitch(programs[0]) as one, TestSwitch(programs[1]) as two:
        for number, test in enumerate(tests, 1):
            if not _played(two, test.stf(), sources[1]) or _outcome(one, test) == _outcome(two, test):
                continue
            small = _smallest(one, two, test)
            stf = small.stf(expect=False)
            shown = {}
            for name, program in zip(names, programs, strict=True):
                with TracedSwitch(program) as tracing:
                    shown[name] = _traces(tracing, stf)
            texts = [f"{name}: {_outcome(s, small)[1]}" for name, s in zip(names, (one, two), strict=True)]
            return Difference(f"test {number}", texts, stf, shown)
    return None


def _outcome(switch: TestSwitch, test: Test) -> tuple[bool, str]:
    """Whether a program takes a test, and what comes out, in words."""
    try:
        run = switch.play(test.stf(expect=False))
    except DetourError as error:
        return False, str(error)
    frames = [f"{frame.hex()} by port {port}" for played in run.packets for port, frame in played.outputs()]
    return True, ", ".join(frames) or "nothing comes out"


def _smallest(one: TestSwitch, two: TestSwitch, test: Test) -> Test:
    """The test without everything that makes no difference to there being one."""
    takes = _outcome(one, test)[0], _outcome(two, test)[0]
    going_on = True
    while going_on:
        going_on = False
        for smaller in _smaller(test):
            ours, theirs = _outcome(one, smaller), _outcome(two, smaller)
            if ours != theirs and (ours[0], theirs[0]) == takes:
                test, going_on = smaller, True
                break
    return test


def _smaller(test: Test) -> Iterator[Test]:
    """The same test without one of its parts, without a packet, or with simpler ones."""
    for name in ("entries", "defaults", "settings"):
        parts = getattr(test, name)
        for at in range(len(parts)):
            yield replace(test, **{name: parts[:at] + parts[at + 1 :]})
    for number, packet in enumerate(test.packets):
        before, after = test.packets[:number], test.packets[number + 1 :]
        if before or after:
            yield replace(test, packets=(*before, *after))
        for frame in _simpler(packet.frame):
            yield replace(test, packets=(*before, replace(packet, frame=frame), *after))


def _simpler(frame: bytes) -> Iterator[bytes]:
    """The frame cut off, or with a byte that is zero."""
    for length in dict.fromkeys((len(frame) // 2, len(frame) - 1)):
        if 0 < length < len(frame):
            yield frame[:length]
    for at in range(min(len(frame), _MOST_BYTES)):
        if frame[at]:
            yield frame[:at] + b"\0" + frame[at + 1 :]
