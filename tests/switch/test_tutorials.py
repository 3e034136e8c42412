# SPDX-License-Identifier: Apache-2.0
"""p4lang's tutorial exercises, end to end in Mininet, with `detour switch` where simple_switch_grpc was.

    DETOUR_TUTORIALS=/path/to/tutorials pytest tests/switch/test_tutorials.py

`DETOUR_TUTORIALS_SWITCH` names another executable (say, simple_switch_grpc itself, to compare).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tutorial_exercises as exercises

from detour.engine import warm


def the_checkout(exercise: exercises.Exercise) -> Path:
    named = os.environ.get("DETOUR_TUTORIALS")
    if not named:
        pytest.skip("DETOUR_TUTORIALS does not name a checkout of github.com/p4lang/tutorials")
    checkout = Path(named)
    if not (checkout / "utils" / "run_exercise.py").exists():
        pytest.skip(f"{checkout} holds no utils/run_exercise.py: not a checkout of p4lang/tutorials")
    if os.geteuid() != 0:
        pytest.skip("Mininet needs root")
    if lacking := exercises.missing(exercise):
        pytest.skip(f"the exercise {exercise.name} needs " + ", ".join(lacking))
    return checkout


def the_switch() -> Path:
    named = os.environ.get("DETOUR_TUTORIALS_SWITCH")
    if not named:
        warm.ensure(print)  # Mininet's own time-outs are for switches that start at once
    path = shutil.which(named) if named else str(Path(sys.executable).parent / "detour-switch-grpc")
    if path is None:
        pytest.skip(f"{named} is not on PATH")
    return Path(path)


@pytest.fixture(autouse=True)
def clean_mininet():
    yield
    if os.environ.get("DETOUR_TUTORIALS") and shutil.which("mnexec"):
        leftover = [name for name in os.listdir("/sys/class/net") if name.startswith("s") and "-eth" in name]
        for name in leftover:
            subprocess.run(["ip", "link", "delete", name], capture_output=True)


@pytest.mark.long
@pytest.mark.parametrize("exercise", exercises.EXERCISES, ids=lambda exercise: exercise.name)
def test_exercise(exercise: exercises.Exercise, tmp_path: Path) -> None:
    checkout, switch = the_checkout(exercise), the_switch()
    outcome = exercises.run(exercise, checkout, switch, tmp_path / "tutorials")
    failed = [text for text, holds in exercise.checks.items() if not holds(outcome)]
    logs = "\n".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in outcome.folder.glob("logs/s*.log"))
    assert not failed, f"{exercise.name}: not so: {failed}\n{outcome.output[-6000:]}\n{logs}"
