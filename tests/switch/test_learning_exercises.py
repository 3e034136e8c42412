# SPDX-License-Identifier: Apache-2.0
"""Examples of p4-learning, and its exercises with their solutions, as labs in virtual time.

DETOUR_P4_LEARNING=/path/to/p4-learning pytest tests/switch/test_learning_exercises.py
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import learning_exercises as exercises
import pytest
from lab_exercises import LabExercise, Running

from detour.fabric.labs.virtual import open_lab


def script_of(exercise: LabExercise) -> Path:
    named = os.environ.get("DETOUR_P4_LEARNING")
    if not named:
        pytest.skip("DETOUR_P4_LEARNING does not name a checkout of github.com/nsg-ethz/p4-learning")
    script = Path(named) / exercise.name
    if not script.is_file():
        pytest.skip(f"{script} is not there: not a checkout of nsg-ethz/p4-learning")
    if shutil.which("p4c-bm2-ss") is None:
        pytest.skip("p4c-bm2-ss is not on PATH")
    return script


@pytest.mark.slow
@pytest.mark.parametrize("exercise", exercises.EXERCISES, ids=lambda exercise: exercise.name)
def test_exercise(exercise: LabExercise) -> None:
    with open_lab(script_of(exercise)) as lab:
        exercise.check(Running(lab))
