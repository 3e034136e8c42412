# SPDX-License-Identifier: Apache-2.0
"""A small use of native code in a process of its own, with a cache of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
_SCRIPT = """
import sys
from detour.hosts.frames.sample import FRAMES, data_frame
from detour.topo.spec import parse_topology

def size():
    global in_cache
    in_cache = FRAMES.cached
    hosts = parse_topology("dragonfly:p=1,a=2,h=1").hosts
    return len(data_frame(hosts[0], hosts[1]))

def loaded():
    return int(in_cache)
"""


def written(script: str, folder: Path) -> Path:
    """Write a script that may call `size()`, of a frame that native code writes, and then `loaded()`: 1 if its code was
    in the cache."""
    file = folder / "script.py"
    file.write_text(_SCRIPT + script)
    return file


def run(script: str, folder: Path, limits: Any = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Write a script and run it. `limits` is called in the new process."""
    return subprocess.run(
        [sys.executable, str(written(script, folder))],
        env={name: value for name, value in (os.environ | {"PYTHONPATH": str(ROOT)} | environment).items() if value},
        capture_output=True, text=True, check=False, timeout=1500, preexec_fn=limits,
    )  # fmt: skip


def output_lines(script: str, folder: Path) -> list[str]:
    """The lines that it prints, with the folder as its cache."""
    done = run(script, folder, XDG_CACHE_HOME=str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()
