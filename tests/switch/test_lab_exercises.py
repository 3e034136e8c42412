# SPDX-License-Identifier: Apache-2.0
"""Exercises of p4lang's tutorials and of p4-learning with their solutions, as labs in virtual time.

DETOUR_TUTORIALS=/path/to/tutorials pytest tests/switch/test_lab_exercises.py
DETOUR_P4_LEARNING=/path/to/p4-learning pytest tests/switch/test_lab_exercises.py
"""

from __future__ import annotations

import os
from pathlib import Path

import lab_exercises as exercises
import learning_exercises as learning
import pytest
from lab_exercises import LabExercise, Running

from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.programs import contents_of, programs_of
from detour.fabric.labs.reading import read_lab
from detour.fabric.labs.virtual import VirtualLab, open_lab


def place_of(variable: str, repository: str, name: str) -> Path:
    """A file or folder of a checkout."""
    named = os.environ.get(variable)
    if not named:
        pytest.skip(f"{variable} does not name a checkout of github.com/{repository}")
    place = Path(named) / name
    if not place.exists():
        pytest.skip(f"{place} is not there: not a checkout of {repository}")
    return place


@pytest.mark.long
@pytest.mark.parametrize("exercise", exercises.EXERCISES, ids=lambda exercise: exercise.name)
def test_exercise(exercise: LabExercise) -> None:
    folder = place_of("DETOUR_TUTORIALS", "p4lang/tutorials", f"exercises/{exercise.name}")
    lab = read_lab(LabFolder.given(str(folder), solution=True))
    with VirtualLab(lab, contents_of(lab, programs_of(lab))) as virtual:
        exercise.check(Running(virtual))


@pytest.mark.long
@pytest.mark.parametrize("exercise", learning.EXERCISES, ids=lambda exercise: exercise.name)
def test_exercise_of_p4_learning(exercise: LabExercise) -> None:
    with open_lab(place_of("DETOUR_P4_LEARNING", "nsg-ethz/p4-learning", exercise.name)) as lab:
        exercise.check(Running(lab))
