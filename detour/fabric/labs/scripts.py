# SPDX-License-Identifier: Apache-2.0
"""p4-utils' `network.py`: runs the script in a process of its own, where its imports find `network_api`, up to the
moment at which it would start the network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.records import from_json
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.model import Lab
from detour.fabric.labs.p4utils import lab_of
from detour.fabric.labs.p4utils_network import P4UtilsNetwork

_PATIENCE_S = 60
_IMPORT = "p4utils.mininetlib.network_API"


def candidate(folder: LabFolder) -> Path | None:
    """The script, if a folder is of this format. Raises DetourError: there are several, and none is named."""
    return folder.lab_file(
        "network.py", lambda path: [p for p in path.glob("network*.py") if _IMPORT in p.read_text(errors="replace")]
    )


def read(folder: LabFolder, script: Path) -> Lab:
    """The lab that a script puts together. Raises DetourError: the script ends with an error, or never starts its
    network."""
    return lab_of(_run(script, folder.arguments), folder, "network.py", str(script))


def _run(script: Path, arguments: Sequence[str]) -> P4UtilsNetwork:
    with tempfile.TemporaryDirectory(prefix="detour-lab-") as scratch:
        answer = Path(scratch) / "network.json"
        command = [sys.executable, "-m", "detour.fabric.labs.script_runner", str(script), str(answer), *arguments]
        try:
            done = subprocess.run(
                command,
                cwd=script.parent,
                env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DetourError(f"{script}: has not started its network within {_PATIENCE_S} s") from None
        if not answer.is_file():
            words = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise DetourError(words[-1] if words else f"{script}: ended without output, exit code {done.returncode}")
        return from_json(P4UtilsNetwork, json.loads(answer.read_text()))
