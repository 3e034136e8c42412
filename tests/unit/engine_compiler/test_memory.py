# SPDX-License-Identifier: Apache-2.0
"""No packet makes compiled code touch memory that is not its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import PROGRAMS

ROOT = Path(__file__).resolve().parents[3]
GUARDED = "tests.unit.engine_compiler.guarded"
NAMES = sorted(p.stem for p in PROGRAMS.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_random_packets_in_guarded_memory(name: str) -> None:
    """In a process of its own, which a wrong access would end with a signal."""
    command = [sys.executable, "-m", GUARDED, str(PROGRAMS / f"{name}.json"), "1500", "7"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stderr}"
    assert int(done.stdout) > 0
