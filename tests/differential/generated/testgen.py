# SPDX-License-Identifier: Apache-2.0
"""Runs p4c's p4testgen, which looks for packets and entries that take a program to where it has not been yet."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from detour.base.places import P4SRC
from tests.differential.generated.suite import GeneratedTest, without_comments

BINARY = "p4testgen"
_SEED_SECONDS = 90.0
"""Of each seed. Some end up where every way is one that it cannot follow, and do not find out again."""
_BUG = re.compile(r"P4Testgen Bug: (.+)")
_LEAST = 5
"""tests of a seed that is worth another one"""
_OPTIONS = (
    *("--target", "bmv2", "--arch", "v1model", "--test-backend", "STF"),
    *("--path-selection", "GREEDY_STATEMENT_SEARCH", "--packet-size-range", "0:4096"),
    *("--track-coverage", "STATEMENTS", "--disable-info-logging"),
    # It cannot choose ranges, and gives every way up that comes to a table with one.
    *("--skip-control-plane-entities", "FabricIngress.acl.rules"),
)


def missing() -> str | None:
    """Why there is none here; None if there is one."""
    return None if shutil.which(BINARY) else f"{BINARY} is not on PATH"


class Refused(Exception):
    """P4Testgen ends with an error of its own instead of tests; its words."""


def generate(program: str, count: int, seed: int, report: Callable[[str], None]) -> list[GeneratedTest]:
    """Different tests of one of our programs: `count` of them, if seeds go on giving any. `seed`: the first one. Raises
    `Refused`."""
    tests: dict[str, GeneratedTest] = {}
    while len(tests) < count:
        before = len(tests)
        with tempfile.TemporaryDirectory(prefix="detour-testgen-") as folder:
            said = _run(program, Path(folder), count - before, seed)
            for path in sorted(Path(folder).glob("*.stf"), key=lambda path: int(path.stem.rsplit("_", 1)[1])):
                test = without_comments(path.read_text())
                tests[test.name] = test
        if not tests and (bug := _BUG.search(said)):
            raise Refused(f"P4Testgen refuses {program}: {bug[1]}")
        report(f"{program}: seed {seed} gave {len(tests) - before} new tests")
        if len(tests) - before < _LEAST:
            break
        seed += 1
    return list(tests.values())


def _run(program: str, folder: Path, count: int, seed: int) -> str:
    """What it says as errors. What it has found when it is stopped counts, too."""
    command = [
        BINARY,
        *_OPTIONS,
        "--max-tests",
        str(count),
        "--seed",
        str(seed),
        "--out-dir",
        str(folder),
        f"-I{P4SRC}",
    ]
    quiet, errors = subprocess.DEVNULL, folder / "errors.txt"
    with (
        errors.open("wb") as file,
        subprocess.Popen(
            [*command, str(P4SRC / f"{program}.p4")], stdin=quiet, stdout=quiet, stderr=file, start_new_session=True
        ) as process,
    ):
        try:
            process.wait(_SEED_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return errors.read_text(errors="replace")
