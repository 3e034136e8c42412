# SPDX-License-Identifier: Apache-2.0
"""Programs of tests/programs/compiler, compiled once a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from detour.engine.compiler.program import Program

from .mini_switch import MiniSwitch

PROGRAMS = Path(__file__).resolve().parents[2] / "programs" / "compiler"


@cache
def program(name: str) -> Program:
    """A compiled test program."""
    return Program.from_json(PROGRAMS / f"{name}.json")


@pytest.fixture
def switch() -> Callable[[str], MiniSwitch]:
    """Makes a switch that runs a test program."""
    return lambda name: MiniSwitch(program(name))
