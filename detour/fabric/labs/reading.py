# SPDX-License-Identifier: Apache-2.0
"""The format in which a folder holds a lab, and the lab."""

from __future__ import annotations

from dataclasses import replace

from detour.base.errors import DetourError
from detour.fabric.labs import p4app, p4sim, scripts, tutorials
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.host_commands import check_commands
from detour.fabric.labs.linux import chosen
from detour.fabric.labs.model import Lab
from detour.fabric.labs.workloads import check_tasks

FORMATS = (
    (tutorials.topology_file, tutorials.read),
    (scripts.candidate, scripts.read),
    (p4app.candidate, p4app.read),
    (p4sim.candidate, p4sim.read),
)
_WANTED = (
    "topology.json (p4lang's tutorials), network.py or p4app.json (p4-utils), or topo.txt with flowtable_N.txt (p4sim)"
)


def read_lab(folder: LabFolder, linux: str | None = None) -> Lab:
    """The lab of a folder. `linux`: which of its hosts will be Linux's, as `linux.chosen` reads it. Raises DetourError:
    it holds none, or what is wrong with it, by file and line."""
    for candidate, read in FORMATS:
        path = candidate(folder)
        if path is not None:
            if folder.arguments and path.suffix != ".py":
                raise DetourError(f"--lab-args is for labs with a script, not for {path}")
            lab = replace(read(folder, path), solution=folder.solution)
            check_commands(lab, chosen(lab, linux))
            check_tasks(lab, chosen(lab, linux))
            return lab
    raise DetourError(f"{folder.file or folder.path} is not a lab; expected {_WANTED}")
