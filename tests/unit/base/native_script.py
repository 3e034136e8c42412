# SPDX-License-Identifier: Apache-2.0
"""A small use of native code in a process of its own, with a cache of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
_PART = """
from detour.base.native import Part
TINY = Part("tiny", __name__)

@TINY.entry
def twice(count: int) -> int:
    return 2 * count
"""
_SCRIPT = """
import sys
import tiny

def size():
    global in_cache
    in_cache = tiny.TINY.cached
    return tiny.twice(551)

def loaded():
    return int(in_cache)
"""


def written(script: str, folder: Path) -> Path:
    """Write a script that may call `size()`, which native code of a part beside it computes, and then `loaded()`: 1 if
    that was in the cache."""
    (folder / "tiny.py").write_text(_PART)
    file = folder / "script.py"
    file.write_text(_SCRIPT + script)
    return file


def run(script: str, folder: Path, limits: Any = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Write a script and run it. `limits` is called in the new process."""
    # Python does not notice when it writes a part of the bytecode only.
    own = {"PYTHONPATH": f"{ROOT}:{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, str(written(script, folder))],
        env={name: value for name, value in (os.environ | own | environment).items() if value},
        capture_output=True, text=True, check=False, timeout=1500, preexec_fn=limits,
    )  # fmt: skip


def output_lines(script: str, folder: Path) -> list[str]:
    """The lines that it prints, with the folder as its cache."""
    done = run(script, folder, XDG_CACHE_HOME=str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()
