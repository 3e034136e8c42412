# SPDX-License-Identifier: Apache-2.0
"""How the loop starts: from the cache, and without the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
_RUN = """
import sys
from detour.engine.network import Network
from detour.engine.clock import Virtual
with Network(Virtual()) as net:
    net.add_switch(1)
    net.run(1000)
print("numba" in sys.modules)
"""


def _python(*arguments: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, *arguments], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_a_second_process_takes_the_loop_from_the_cache():
    _python("-c", _RUN)
    assert _python("-c", _RUN).strip() == "False"


@pytest.mark.parametrize("file", ["test_switch.py", "test_realtime.py"])
def test_the_loop_runs_as_plain_python(file):
    only = "unicast or multicast or clone or recirculate or digest or frames_between or call"
    out = _python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", only, str(HERE / file), NUMBA_DISABLE_JIT="1")
    assert " passed" in out
