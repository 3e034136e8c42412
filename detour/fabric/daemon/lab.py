# SPDX-License-Identifier: Apache-2.0
"""A lab that stays up: the same state folder and the same `detour down` as of a fabric."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.fabric.backends.virtual.pace import TimePace
from detour.fabric.daemon import log
from detour.fabric.daemon.control_socket import ControlServer
from detour.fabric.daemon.options import UpOptions
from detour.fabric.daemon.state_dir import StateDir, about_this_fabric
from detour.fabric.labs.boot import LinkDefaults
from detour.fabric.labs.controllers import fill_build
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.linux import request_of
from detour.fabric.labs.model import Lab
from detour.fabric.labs.programs import contents_of, programs_of
from detour.fabric.labs.reading import read_lab
from detour.fabric.labs.running import LabStatus, RunningLab
from detour.fabric.labs.virtual import DEFAULTS as VIRTUAL_DEFAULTS
from detour.fabric.linux.hosts import processes_of
from detour.fabric.operations.registry import OPERATIONS

_LOOK_S = 0.2
_FREE = "free"
_PORTS = ("grpc_port", "thrift_port")
_LAST_PORT = 65_535

_LINK_TERMS = ("rate_bps", "delay_ps", "queue_packets", "loss")
"""of `LinkDefaults`, which options may say"""


def boot_lab(options: UpOptions, progress: Progress = silent) -> RunningLab:
    """A lab that is up. `options.lab` is its folder. Raises DetourError: something is wrong or missing; nothing is left
    running."""
    assert options.lab is not None
    pace = None if options.pace is None else TimePace.given(options.pace)
    named = ",".join([*([] if options.linux is None else [options.linux]), *processes_of(options.netns)])
    lab = read_lab(LabFolder.given(options.lab, options.solution, options.lab_args), named or None)
    if options.ports is not None:
        lab = with_ports(lab, options.ports)
    linux = request_of(lab, options.linux, options.netns, options.mtu)
    programs = programs_of(lab, options.program, empty=True, progress=progress, compiler=options.compiler)
    if options.program is None:
        fill_build(lab, programs, progress)
    contents = contents_of(lab, programs, progress)
    links = {name: value for name in _LINK_TERMS if (value := getattr(options, name)) is not None}
    defaults = replace(LinkDefaults() if pace is None else VIRTUAL_DEFAULTS, **links)
    pcap = None if options.pcap is None else Path(options.pcap)
    return RunningLab(lab, contents, defaults, pace, linux, progress, pcap)


def serve_lab(lab: RunningLab, state: StateDir, ready: Callable[[LabStatus], None], detached: bool) -> None:
    """Wait for `detour down` or a signal. What is asked of fabrics that detour itself controls is refused by name: of
    a lab the switches are asked, over P4Runtime and Thrift."""
    end = threading.Event()
    status = lab.status
    state.record({"target": "lab", "topology": status.lab, "switches": {s.name: s.thrift for s in status.switches}})

    def refuse(**arguments: Any) -> None:
        raise DetourError(
            f"the running fabric is a lab ({status.lab}), whose tables detour does not control: use "
            f"P4Runtime, Thrift or `detour cli`; {about_this_fabric('down')} ends it"
        )

    operations = dict.fromkeys(OPERATIONS, refuse) | {"down": end.set, "lab": lambda: lab.status, "hosts": lab.do}
    with ControlServer(state.socket, operations, warning=lambda name: lab.capture_error):
        if detached:
            log.up()
        ready(status)
        while not end.wait(_LOOK_S):
            lab.check()


def with_ports(lab: Lab, text: str) -> Lab:
    """The lab with ports that are larger by a number, or with `free` ones. Raises DetourError: it is neither, or a port
    would be out of range."""
    named = [port for switch in lab.switches for key in _PORTS if (port := getattr(switch, key)) is not None]
    if text == _FREE:
        with _free_ports(len(named)) as free:
            ports = dict(zip(named, free, strict=True))
    elif text.isdecimal() and max(named, default=0) + int(text) <= _LAST_PORT:
        ports = {port: port + int(text) for port in named}
    else:
        most = _LAST_PORT - max(named, default=0)
        raise DetourError(f"--ports {text}: expected {_FREE}, or a number to add to the lab's ports, {most} at most")
    switches = [replace(each, **{key: ports.get(getattr(each, key)) for key in _PORTS}) for each in lab.switches]
    topology = None if lab.topology is None else json.loads(lab.topology)
    for node in [] if topology is None else topology["nodes"]:
        node.update({key: ports[node[key]] for key in _PORTS if node.get(key) in ports})
    return replace(lab, switches=tuple(switches), topology=topology and json.dumps(topology))


@contextmanager
def _free_ports(count: int) -> Iterator[list[int]]:
    """Ports of loopback that nobody has, kept while it lasts."""
    with ExitStack() as kept:
        sockets = [kept.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in sockets]
