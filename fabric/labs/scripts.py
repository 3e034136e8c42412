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
from dataclasses import asdict
from pathlib import Path

from detour.base.errors import DetourError
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.model import Lab
from detour.fabric.labs.p4utils import lab_of
from detour.fabric.labs.p4utils_network import P4UtilsLink, P4UtilsNetwork, P4UtilsNode
from detour.fabric.labs.p4utils_tasks import P4UtilsTask

_PATIENCE_S = 60
_IMPORT = "p4utils.mininetlib.network_API"


def candidate(folder: LabFolder) -> Path | None:
    """The script, if a folder is of this format.

    Raises:
        DetourError: there are several, and none is named.
    """
    if folder.file is not None:
        return folder.file if folder.file.suffix == ".py" else None
    direct = folder.path / "network.py"
    if direct.is_file():
        return direct
    found = [path for path in sorted(folder.path.glob("network*.py")) if _IMPORT in path.read_text(errors="replace")]
    if len(found) > 1:
        raise DetourError(f"{folder.path} has several labs; name one of {', '.join(path.name for path in found)}")
    return found[0] if found else None


def read(folder: LabFolder, script: Path) -> Lab:
    """The lab that a script puts together.

    Raises:
        DetourError: the script ends with an error, or never starts its network.
    """
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
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise DetourError(said[-1] if said else f"{script}: ended without a word, exit code {done.returncode}")
        return network_of(json.loads(answer.read_text()))


def document_of(network: P4UtilsNetwork) -> dict[str, object]:
    """For the way from one process to the other."""
    return {
        "nodes": [asdict(node) for node in network.nodes.values()],
        "links": [asdict(link) for link in network.links],
        "scripts": network.scripts,
        "tasks": [asdict(task) for task in network.tasks],
        "arp": [network.arp_tables, network.gateway_arp],
    }


def network_of(document: dict[str, list]) -> P4UtilsNetwork:
    """And back."""
    network = P4UtilsNetwork()
    network.nodes = {said["name"]: P4UtilsNode(**said) for said in document["nodes"]}
    network.links = [P4UtilsLink(**said) for said in document["links"]]
    network.scripts = list(document["scripts"])
    network.tasks = [P4UtilsTask(**said) for said in document["tasks"]]
    network.arp_tables, network.gateway_arp = document["arp"]
    return network
