# SPDX-License-Identifier: Apache-2.0
"""CPU ports of p4-utils' switches as interfaces of Linux."""

from __future__ import annotations

import json
import os
import socket
from contextlib import closing
from pathlib import Path

import pytest
from forwarding_lab import MACS, write_app
from test_lab_running import free_ports

from detour.base.errors import DetourError
from detour.fabric.labs.controllers import attach_cpu_interfaces
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.linux import request_of
from detour.fabric.labs.programs import contents_of, programs_of
from detour.fabric.labs.reading import read_lab
from detour.fabric.labs.running import RunningLab
from detour.fabric.linux.keeper import missing
from detour.fabric.linux.opening import kind
from tests.waiting import until

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.skipif(os.geteuid() != 0 or kind() != "tap", reason="needs root and /dev/net/tun"),
]
INTERFACE = f"t{os.getpid()}-cpu-eth1"
"""of a switch that nobody else has"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The switch of h1 has a CPU port."""
    a, b, c, d = free_ports(4)
    folder = write_app(tmp_path / "lab", (a, b), (c, d))
    app = json.loads((folder / "p4app.json").read_text())
    app["topology"]["switches"]["s1"]["cpu_port"] = True
    text = json.dumps(app).replace('"s1"', f'"{INTERFACE.partition("-")[0]}"')
    (folder / "p4app.json").write_text(text)
    return folder


def up(folder: Path) -> RunningLab:
    lab = read_lab(LabFolder.given(str(folder)), "h1")
    return RunningLab(lab, contents_of(lab, programs_of(lab)), linux=request_of(lab, "h1"))


def test_what_is_sent_there_comes_in_at_the_cpu_port(folder: Path) -> None:
    with closing(up(folder)) as running:
        assert running.stack is not None
        with pytest.raises(DetourError, match=f"interface {INTERFACE} exists already"):
            attach_cpu_interfaces(running.booted)
        host = running.stack.host("h2")
        before = host.counters()["rx_frames"]
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as outside:
            outside.bind((INTERFACE, 0))
            outside.send(bytes.fromhex(MACS["h2"].replace(":", "")) + bytes(6) + b"\x12\x34" + bytes(46))
        until(lambda: host.counters()["rx_frames"] == before + 1)
    with pytest.raises(OSError, match="no interface with this name"):
        socket.if_nametoindex(INTERFACE)
