# SPDX-License-Identifier: Apache-2.0
"""Files and interfaces for a lab's controllers while it runs: folders `build` and `logs` (p4lang's tutorials); the
`topology.json` in which p4-utils' controllers look up switches, ports and addresses, and CPU ports of switches as
interfaces, on which they sniff and send (`s1-cpu-eth1`).

The interfaces are TAP devices in the namespace of who boots the lab, and end with that process. P4Runtime's packet-ins
are another thing: p4-utils' switches have none at these ports.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.progress import Progress
from detour.fabric.labs import tutorials
from detour.fabric.labs.boot import BootedLab
from detour.fabric.labs.folder import is_json_with
from detour.fabric.labs.model import Lab
from detour.fabric.labs.programs import ProgramFiles, SwitchContent
from detour.fabric.linux.opening import kind

_NAME = "topology.json"


class ControllerTopology:
    """The file. Labs of other formats have none."""

    def __init__(self, lab: Lab, contents: Sequence[SwitchContent]) -> None:
        self._path = lab.folder / _NAME
        self._text = None if lab.topology is None else _with_programs(lab.topology, contents)
        self._written = False

    def write(self, progress: Progress) -> None:
        """Write it, unless the folder cannot be written to, or holds another file of that name."""
        if self._text is None:
            return
        # p4-utils, or a lab that was killed, may have left one.
        if self._path.is_file() and not is_json_with(self._path, {"nodes", "links", "graph"}):
            progress(f"{self._path} is another lab's, and stays: p4-utils' controllers will not find this one")
            return
        try:
            self._path.write_text(self._text)
        except OSError as error:
            progress(f"{self._path}: {error.strerror}: p4-utils' controllers will not find it")
        else:
            self._written = True

    def remove(self) -> None:
        """Take it away, unless it has been changed. May be called twice."""
        if self._written:
            with suppress(OSError):
                if self._path.read_text() == self._text:
                    self._path.unlink()
        self._written = False


def _with_programs(topology: str, contents: Sequence[SwitchContent]) -> str:
    """With each switch's JSON and P4Info as they were found or compiled."""
    document = json.loads(topology)
    files = {content.switch.name: content.files for content in contents}
    for node in document["nodes"]:
        if (program := files.get(node["id"])) is not None:
            node["json_path"] = str(program.json)
            if program.p4info is not None:
                node["p4rt_path"] = str(program.p4info)
    return json.dumps(document)


def fill_build(lab: Lab, programs: Mapping[str, ProgramFiles | None], progress: Progress) -> None:
    """Make what controllers of p4lang's tutorials, which set their switches' programs, expect in their folder: what
    is made of the program in `build`, as the tutorials' Makefile does, and a folder `logs`."""
    files = {programs[switch.name] for switch in lab.switches if switch.program is None} - {None}
    if lab.format != tutorials.FORMAT or not files:
        return
    try:
        for folder in ("build", "logs"):
            (lab.folder / folder).mkdir(exist_ok=True)
        for program in files:
            assert program is not None
            for file, ending in ((program.json, ".json"), (program.p4info, ".p4.p4info.txtpb")):
                target = lab.folder / "build" / f"{program.json.stem}{ending}"
                if file is not None and file != target:
                    shutil.copyfile(file, target)
    except OSError as error:
        progress(f"{lab.folder}: {error.strerror}: its controller will not find build and logs")


def has_cpu_interfaces(lab: Lab) -> bool:
    """Return whether a lab expects such interfaces and this user can have them: root, with /dev/net/tun."""
    return lab.topology is not None and os.geteuid() == 0 and kind() == "tap"


def attach_cpu_interfaces(booted: BootedLab) -> None:
    """Make them. Raises DetourError: an interface of that name is there already, or the kernel does not allow it."""
    for switch in booted.lab.switches:
        if switch.cpu_port is None:
            continue
        name = f"{switch.name}-cpu-eth1"  # the controllers' end
        with suppress(OSError):
            socket.if_nametoindex(name)
            raise DetourError(
                f"{switch.where}: interface {name} exists already, but the CPU port of {switch.name} needs it"
            )
        booted.network.attach_interface((switch.device_id, switch.cpu_port), name)
        with suppress(OSError):  # a kernel without IPv6 sends nothing by itself
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
