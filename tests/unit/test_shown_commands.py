# SPDX-License-Identifier: Apache-2.0
"""Every command that README.md, CONTRIBUTING.md and docs/ show in a block is run, block by block, or stands below with
the reason why it is not; then its command line is checked at least."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from detour.cli import make_parser
from detour.engine.switch.options import parse as parse_switch

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(ROOT / "p4src" / "build" / "fabric.json")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

NOT_RUN = {
    r"(\S+=\S+ )*make ": "sets up an environment, or is what runs this test",
    r"detour (watch|shell|web|cli s1|metrics --serve)\b": "stays until Ctrl-C; tests/unit/cli, tests/unit/web",
    r"detour up (?!.*--detach)": "stays until Ctrl-C; tests/fault/test_daemon.py",
    r"detour sim .*--web": "stays until Ctrl-C; tests/unit/web",
    r"detour (up --.*--linux|exec)\b": "needs root; tests/fault/test_linux_programs.py",
    r"detour (sim|up) --lab tutorials": "other people's labs; tests/switch/test_tutorials.py",
    r"detour (path h0 h5 --usid|counters s2)": "of Linux hosts; tests/fault/test_linux_programs.py",
    r"detour (flows|reroute|metrics|entries|fail s4|send h1 h2)": "of flows that the reader's jobs.yaml places",
    r"detour fors schedule --population": "its numbers go on",
    r"detour fors schedule --skew": "a minute; tests/unit/cli/test_fors_command.py, tests/unit/control",
    r"detour trace --run": "not every run has such a packet; tests/unit/cli/test_option_effects.py",
    r"detour lab ping": "of a lab that is up; tests/unit/labs/test_lab_running.py",
    r"detour reproduce (?!--list)": "minutes; tests/unit/experiments",
    r"detour bench": "minutes of an idle machine; tests/bench",
    r"detour fors (run|rivals|export|verify|route --keep)": "minutes in all; tests/unit/cli/test_fors*",
    r"detour fcplus (?!build --n 120)": "minutes in all; tests/unit/expander, tests/unit/cli/test_fcplus_command.py",
    r"detour place (step|two)\.yaml": "minutes in all; tests/unit/experiments/test_job_runs_by_scheme.py",
    r"detour place .*ring1024": "half a minute each; tests/unit/control",
    r"detour place .*gpt175b": "seven minutes; tests/unit/fabric/test_fast.py",
    r"detour place (jobs\.yaml|.*net\.graphml)": "of the reader's own jobs, network; tests/fault/test_placed_fabric.py",
    r"detour sim .*(my\.graphml|WebSearch\.txt|shuffle=1)": "of the reader's own; tests/unit/cli/test_sim_command.py",
    r"detour .*own\.py:": "of the reader's own file, which the page shows; tests/unit/fabric/test_own_parts.py",
    r"detour (trace|web) --(program|stf|live|read)": "of the reader's own program or traffic; tests/unit/trace",
    r"detour (switch|cli --thrift)": "needs interfaces (root), goes on; tests/switch",
    r"detour conformance": "of the reader's server; tests/unit/p4runtime/test_conformance.py",
    r"detour (coverage|.*--coverage)": "of the reader's own runs; tests/unit/p4_coverage",
    r"(wireshark|tshark|simple_switch_CLI|cd docs/grafana|cd lab|docker|eval|sudo) ?": "another program",
}
"""which commands, from their beginning: why they are not run, and what tests them"""

BEFORE = {
    ("fabrics.md", "detour capture"): "detour up --detach",
    ("monitoring.md", "detour capture"): "detour up --detach",
    ("trace.md", "detour trace h0 h71 --topo"): "detour up --detach",
    ("test-generation.md", "detour test my.p4"): "cp docs/labs/firewall/firewall.p4 my.p4 && "
    "sed 's/ttl < 2/ttl < 3/' my.p4 | tee changed.p4 > other.p4",
}
"""what a block needs that an earlier one has done: by page and beginning of the block"""


@dataclass(frozen=True)
class Block:
    """Commands that stand together."""

    page: Path
    line: int
    commands: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def _indented(page: Path) -> Iterator[tuple[int, list[str]]]:
    """Blocks of code that are for a shell, with the number of their first line."""
    lines: list[str] = []
    fence: str | None = None
    for number, line in enumerate([*page.read_text().splitlines(), ""], start=1):
        if line.lstrip().startswith("```"):
            if fence in ("", "sh", "bash") and lines:
                yield number - len(lines), lines
            fence, lines = (line.strip()[3:] if fence is None else None), []
        elif fence is not None:
            lines.append(line)
        elif line.startswith("    "):
            lines.append(line[4:])
        elif lines:
            yield number - len(lines), lines
            lines = []


def _commands(lines: list[str]) -> Iterator[str]:
    """Lines of a shell, with what continues them."""
    text, end = "", None
    for line in lines:
        text = f"{text}\n{line}" if text else line
        if end is None and (here := re.search(r"<<(\w+)$", line)):
            end = here[1]
        elif end is not None:
            end = None if line == end else end
        if end is None and not line.endswith("\\"):
            yield text
            text = ""


def _is_command(text: str) -> bool:
    return bool(
        re.match(
            r"(\S+=\S+ )*(sudo )?(\.venv/bin/)?(detour|make|cat >|eval|cd|wireshark|tshark|simple_switch_CLI) ?", text
        )
    )


def _blocks() -> list[Block]:
    blocks = []
    for page in PAGES:
        for line, lines in _indented(page):
            commands = [text for text in _commands(lines) if _is_command(text)]
            if any(re.match(r"(\S+=\S+ )*(detour|make) ", text) for text in commands):
                blocks.append(Block(page, line, tuple(commands)))
    return blocks


BLOCKS = _blocks()


def _why_not(command: str) -> str | None:
    return next((why for start, why in NOT_RUN.items() if re.match(start, command)), None)


def _words(command: str) -> list[str]:
    """The first simple command of a line, as its words."""
    lexer = shlex.shlex(command.replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.commenters, lexer.whitespace_split = "#", True
    return list(itertools.takewhile(lambda word: word not in ("&&", ";", "&", "|"), lexer))


def test_blocks_were_found() -> None:
    assert len(BLOCKS) > 40
    assert {block.page.name for block in BLOCKS} >= {"README.md", "tutorial.md", "fabrics.md", "trace.md", "sim.md"}


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_command_lines_are_right(block: Block) -> None:
    parser = make_parser()
    for command in block.commands:
        words = _words(command)
        if words[0] != "detour":
            continue
        if words[1] == "switch":
            parse_switch([PROGRAM if word.endswith(".json") else word for word in words[2:]])
        else:
            parser.parse_args(words[1:])


def test_every_reason_is_for_some_command() -> None:
    shown = [command for block in BLOCKS for command in block.commands]
    idle = [start for start in NOT_RUN if not any(re.match(start, command) for command in shown)]
    assert not idle


class Shell:
    """Runs commands as a reader would, in a folder from which the repository's files look the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "here"
        self.folder.mkdir()
        for name in ("docs", "detour", "README.md"):
            (self.folder / name).symlink_to(ROOT / name)
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        for name, module in (("detour", "detour.cli"), ("detour-p4c", "detour.cli.p4c")):
            command = bin_folder / name
            command.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
            command.chmod(0o755)
        runtime = Path(tempfile.mkdtemp(prefix="d"))  # short: a socket's path has 107 bytes at most
        self.environment = os.environ | {
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "XDG_RUNTIME_DIR": str(runtime),
        }
        self.runtime = runtime

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """One command of a shell, to its end."""
        command = command.replace("/tmp/", f"{self.folder}/")
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def clean(self) -> None:
        """Ends every fabric that is still up."""
        for state in self.runtime.glob("detour*/"):
            name = state.name.removeprefix("detour").removeprefix("-")
            self.run(f"detour down {name and f'--name {name}'}")
        shutil.rmtree(self.runtime, ignore_errors=True)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.clean()


def _run_blocks() -> Iterator[Any]:
    """README.md each time; the other pages, whose commands have tests of their own, in `make test-long`."""
    for block in BLOCKS:
        if not all(map(_why_not, block.commands)):
            marks = () if block.page.name == "README.md" and block.page.parent == ROOT else pytest.mark.long
            yield pytest.param(block, marks=marks)


def _expected(command: str) -> int:
    comment = re.search(r"#.*exit code (\d)", command)
    return int(comment[1]) if comment else 0


@pytest.mark.slow
@pytest.mark.parametrize("block", list(_run_blocks()), ids=str)
def test_commands_do_what_they_are_shown_for(block: Block, shell: Shell) -> None:
    for (page, start), before in BEFORE.items():
        if block.page.name == page and block.commands[0].startswith(start):
            assert shell.run(before).returncode == 0
    for command in block.commands:
        if _why_not(command) is None:
            done = shell.run(command)
            assert done.returncode == _expected(command), f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            assert "internal error" not in done.stderr
