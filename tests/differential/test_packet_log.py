# SPDX-License-Identifier: Apache-2.0
"""The log of packets beside that of BMv2's simple_switch, line by line, for the samples of STF."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from detour.base.addresses import TcpAddress
from detour.engine.bmv2api.client import connect
from detour.engine.bmv2api.commands.interpreter import program_of
from detour.engine.bmv2api.commands.registry import COMMANDS, CommandScope
from detour.engine.bmv2api.interface import Api
from detour.engine.switch import pcap
from detour.fabric.tracing.stf import StfAdd, StfCommand, StfDefault, StfPacket, StfStatement, read_stf
from detour.fabric.tracing.stf_names import add_command, default_command
from tests.differential import programs
from tests.differential.case import load
from tests.ptf.bmv2 import listening
from tests.unit.trace.logged import COMPILED, SAMPLES, logged
from tests.waiting import until

_OTHERS = (
    *("metadata_fields", "priority", "random_range"),  # one queue only in simple_switch, other random numbers
    *("checksum_payload", "truncate"),  # docs/switch.md
    *("digest", "timestamps", "selector_crc16", "selector_crc32", "selector_identity"),
)
_CHOSEN = (
    *(
        "action_if",
        "action_profile_shared",
        "advance",
        "copies_of_copies",
        "drop_rules",
        "exit_return",
        "hash_algorithms",
    ),
    *("header_validity", "lookahead", "meter_indirect", "parser_loop", "parser_select", "parser_stack_next"),
    *("parser_subparser", "parser_verify", "recirculate", "register_egress", "resubmit", "switch_action_run"),
    *("table_const_entries", "union_basic", "varbit_options"),
)
"""`DETOUR_PACKET_LOG=all` takes all others as well, but for those that docs/switch.md lists as different"""
_ALL = tuple(program.name for program in programs.programs() if program.name not in _OTHERS)
_PROGRAMS = _ALL if os.environ.get("DETOUR_PACKET_LOG") == "all" else _CHOSEN
_SAMPLES: tuple[Path | str, ...] = (*SAMPLES, *_PROGRAMS)
_PORT, _FRAMES = 1, 6
_AT_ONCE = 4
_APART_NS = 20_000_000
_LETTERS = {"E": 40, "W": 30, "I": 20, "D": 10, "T": 5}
_LINE = re.compile(r"\[\d\d:\d\d:\d\d\.\d{3}\] \[bmv2\] \[(.)\] \[thread \d+\] (.*)", re.DOTALL)


_Log = list[tuple[int, str]]
"""lines: level, text"""


class _Sample(NamedTuple):
    """A program of the corpus, what sets it up and frames for it."""

    name: str
    statements: list[StfStatement]
    frames: list[bytes]


def _why_not() -> str:
    """Why simple_switch's log cannot be compared; empty: it can."""
    if shutil.which("simple_switch") is None:
        return "needs BMv2's simple_switch"
    # Without a program it ends at once, after it has said what it was built without.
    done = subprocess.run(
        ["simple_switch", "--log-console", "/no such file"], capture_output=True, text=True, check=False
    )
    return "simple_switch is built without logging macros" if "You disabled logging macros" in done.stdout else ""


_REASON = _why_not()
pytestmark = pytest.mark.skipif(bool(_REASON), reason=_REASON)


def _set_up(api: Api, statements: list[StfStatement]) -> None:
    program = program_of(api)
    for each in statements:
        if isinstance(each, StfAdd):
            words = add_command(each, program)
        elif isinstance(each, StfDefault):
            words = default_command(each, program)
        elif isinstance(each, StfCommand) and "read" not in each.words[0] and "delete" not in each.words[0]:
            words = list(each.words)
        else:
            continue
        COMMANDS[words[0]].understand(words[1:], CommandScope(program))(api, lambda line: None)


def _bmv2(folder: Path, sample: _Sample, lines: int) -> _Log:
    """What simple_switch logs of the frames, which all come in by port 1, once that has so many lines."""
    # From a pipe instead of a file simple_switch takes frames as they come, so it is set up first.
    os.mkfifo(folder / "p1_in.pcap")
    command = ["simple_switch", "--log-file", "log", "--log-flush", "--use-files", "0", "-i", f"{_PORT}@p1"]
    # Without an address of its own for notifications each waits until the one before it has ended.
    command += ["--notifications-addr", "ipc://notifications"]
    program = str(COMPILED / f"{sample.name}.json")
    feed = os.open(folder / "p1_in.pcap", os.O_RDWR)
    os.write(feed, pcap.header())
    process, thrift = listening(lambda port: [*command, "--thrift-port", str(port), program], folder)
    try:
        with connect(TcpAddress("localhost", thrift), "") as api:
            _set_up(api, sample.statements)
        at = time.time_ns()
        for number, frame in enumerate(sample.frames):
            os.write(feed, pcap.packet(at + number * _APART_NS, frame))
        with suppress(AssertionError):  # then the test shows which lines are missing
            until(lambda: len(_of_packets(folder / "log.txt")) >= lines)
    finally:
        process.kill()
        process.wait()
        os.close(feed)
    return _of_packets(folder / "log.txt")


def _of_packets(log: Path) -> _Log:
    parts = re.split(r"(?m)^(?=\[\d\d:\d\d:\d\d)", log.read_text())
    matches = [_LINE.fullmatch(part.removesuffix("\n")) for part in parts if part]
    lines = [(_LETTERS[match[1]], match[2]) for match in matches if match]
    return [(level, text) for level, text in lines if re.match(r"\[\d+\.\d+\] \[cxt 0\]", text)]


def _by_copy(lines: _Log) -> dict[str, _Log]:
    """Lines of each copy of a packet; BMv2's threads mix those of several."""
    copies: dict[str, _Log] = {}
    for level, text in lines:
        copies.setdefault(text.split("]", 1)[0], []).append((level, text))
    return copies


def _sample(which: Path | str) -> _Sample:
    """A sample of STF with its entries, or frames for a program of the corpus without any."""
    if isinstance(which, Path):
        statements = read_stf(which)
        return _Sample(which.stem, statements, [each.frame for each in statements if isinstance(each, StfPacket)])
    [program] = [each for each in programs.programs() if each.name == which]
    case, _ = load(program.golden, *program.load())
    return _Sample(which, [], [frame for _, frame in case.frames[: _FRAMES * 5 : 5]])


def _ours(sample: _Sample) -> _Log:
    frames = [(_PORT, frame) for frame in sample.frames]
    lines = logged(sample.name, lambda api: _set_up(api, sample.statements), frames)
    return [(level, text) for level, text in lines if text.startswith("[")]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Path | str, tuple[_Log, Future[_Log]]]]:
    """What detour and simple_switch log of each sample: the latter waits most of the time, so many do so at once."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        both = {}
        for which in _SAMPLES:
            sample = _sample(which)
            ours = _ours(sample)
            both[which] = ours, pool.submit(_bmv2, tmp_path_factory.mktemp("log"), sample, len(ours))
        yield both


@pytest.mark.parametrize("which", _SAMPLES, ids=lambda which: which if isinstance(which, str) else f"{which.stem}.stf")
def test_the_log_is_bmv2s(which: Path | str, logs: dict[Path | str, tuple[_Log, Future[_Log]]]) -> None:
    sample = _sample(which)
    ours, theirs = logs[which]
    expected, copies = _by_copy(theirs.result()), _by_copy(ours)
    assert len(expected) >= len(sample.frames)
    assert copies.keys() == expected.keys()
    for copy, lines in expected.items():
        wrong = list(difflib.unified_diff(list(map(str, lines)), list(map(str, copies[copy])), "BMv2", "detour", n=1))
        assert not wrong, "\n".join(wrong)
