# SPDX-License-Identifier: Apache-2.0
"""p4lang's tutorial exercises with their solutions, as labs in virtual time.

DETOUR_TUTORIALS=/path/to/tutorials pytest tests/switch/test_lab_exercises.py
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import lab_exercises as exercises
import pytest

from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.programs import contents_of, programs_of
from detour.fabric.labs.reading import read_lab
from detour.fabric.labs.virtual import VirtualLab


def the_exercise(exercise: exercises.LabExercise) -> LabFolder:
    named = os.environ.get("DETOUR_TUTORIALS")
    if not named:
        pytest.skip("DETOUR_TUTORIALS does not name a checkout of github.com/p4lang/tutorials")
    folder = Path(named) / "exercises" / exercise.name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there: not a checkout of p4lang/tutorials")
    if shutil.which("p4c-bm2-ss") is None:
        pytest.skip("p4c-bm2-ss is not on PATH")
    return LabFolder.given(str(folder), solution=True)


@pytest.mark.slow
@pytest.mark.parametrize("exercise", exercises.EXERCISES, ids=lambda exercise: exercise.name)
def test_exercise(exercise: exercises.LabExercise) -> None:
    lab = read_lab(the_exercise(exercise))
    with VirtualLab(lab, contents_of(lab, programs_of(lab))) as virtual:
        exercise.check(exercises.Running(virtual))
