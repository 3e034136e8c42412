# SPDX-License-Identifier: Apache-2.0
"""p4runtime-shell against one switch, in a tool environment of its own.

Its pins (protobuf below 3.21, IPython 7) contradict detour's, so it gets a virtual environment under detour's cache
folder, made on first use.
"""

from __future__ import annotations

import shutil
import subprocess
import venv
from collections.abc import Callable
from pathlib import Path

from detour.base.cache import cache_dir
from detour.base.errors import DetourError
from detour.base.secure_dir import Folder

_PACKAGES = ["p4runtime-shell==0.0.6", "p4runtime==1.4.1", "protobuf==3.20.3", "setuptools<81"]


def environment(progress: Callable[[str], None] = lambda text: None) -> Path:
    """The environment's Python; makes the environment if it is not there yet. Raises `DetourError`: it cannot be made
    (no package index in reach, for example)."""
    try:
        folder = Folder(cache_dir(), "tools", "p4runtime-shell-0.0.6").ready()
    except OSError as error:
        raise DetourError(f"p4runtime-shell cannot be installed: {error}") from None
    python = folder / "bin" / "python"
    if (folder / "ready").exists():
        return python
    progress(f"making an environment for p4runtime-shell in {folder} (once)")
    venv.create(folder, with_pip=True, clear=True)
    progress("installing p4runtime-shell there")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *_PACKAGES]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DetourError(f"p4runtime-shell cannot be installed: {reason}")
    (folder / "ready").touch()
    return python


def run(python: Path, address: str, device_id: int, election_id: int, arguments: list[str] | None = None) -> int:
    """Run the interactive shell of an `environment` in this terminal until the user leaves it; return its exit code.
    A shell with an election id below the controller's may read only (P4Runtime, 5.2)."""
    target = ["--grpc-addr", address, "--device-id", str(device_id), "--election-id", f"0,{election_id}"]
    command = [python, "-m", "p4runtime_sh", *target, *(arguments or [])]
    return subprocess.run(command, check=False).returncode
