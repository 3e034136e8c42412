# SPDX-License-Identifier: Apache-2.0
"""Hosts of a lab that are network namespaces of Linux."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from forwarding_lab import IPS, MACS, write_tutorial

from detour.base.errors import DetourError
from detour.fabric.backends.virtual.pace import TimePace
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.linux import chosen, interface_of, request_of
from detour.fabric.labs.model import Lab, LabTask
from detour.fabric.labs.programs import contents_of, programs_of
from detour.fabric.labs.reading import read_lab
from detour.fabric.labs.running import RunningLab
from detour.fabric.linux.hosts import LinuxHosts
from detour.fabric.linux.keeper import missing
from tests.waiting import until

kernel = [pytest.mark.kernel, pytest.mark.skipif(missing() is not None, reason=str(missing()))]
US = 10**6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two switches in a row, without the ports of the tutorials, which somebody else may have."""
    return write_tutorial(tmp_path / "lab")


def commanded(folder: Path, *commands: str) -> Path:
    """With these commands for h1."""
    file = folder / "topology.json"
    topology = json.loads(file.read_text())
    topology["hosts"]["h1"]["commands"] += commands
    file.write_text(json.dumps(topology, indent=1))
    return folder


def read(folder: Path, linux: str | None = None) -> Lab:
    return read_lab(LabFolder.given(str(folder)), linux)


def running(lab: Lab, linux: str, pace: TimePace | None = None) -> RunningLab:
    return RunningLab(lab, contents_of(lab, programs_of(lab)), pace=pace, linux=request_of(lab, linux))


def test_which_hosts(folder: Path) -> None:
    lab = read(folder)
    assert chosen(lab, None) == []
    assert chosen(lab, "all") == ["h1", "h2"]
    assert chosen(lab, "h2, h1") == ["h1", "h2"]
    for names, says in (
        ("h9", "--linux h9: there is no such host; the lab has h1, h2"),
        ("h1,h1", "--linux h1: that host appears twice"),
    ):
        with pytest.raises(DetourError, match=says):
            chosen(lab, names)
    with pytest.raises(DetourError, match="--mtu needs Linux hosts"):
        request_of(lab, None, mtu=1400)
    with pytest.raises(DetourError, match="--netns h1=x: expected a host and the number of a process"):
        request_of(lab, None, "h1=x")


def test_what_an_interface_has(folder: Path) -> None:
    lab = read(folder)
    interface = interface_of(lab, lab.host("h1"), 1400)
    assert (interface.name, interface.mac, interface.mtu) == ("eth0", MACS["h1"], 1400)
    assert interface.addresses == (f"{IPS['h1']}/24",)
    assert [(each.address, each.mac) for each in interface.neighbours] == [(IPS["h2"], MACS["h2"])]
    assert interface.own_sysctls == {"disable_ipv6": "1"}


def test_commands_that_only_a_shell_can_do(folder: Path) -> None:
    commanded(folder, "iptables -F")
    with pytest.raises(DetourError, match=r"the command 'iptables -F' is not supported.*--linux h1"):
        read(folder)
    with pytest.raises(DetourError, match="iptables -F"):
        read(folder, "h2")
    assert read(folder, "h1").host("h1").shell == ("iptables -F",)


def test_not_in_virtual_time(folder: Path) -> None:
    with pytest.raises(DetourError, match="Linux hosts need real time"):
        running(read(folder), "h1", pace=TimePace.given("max"))


class TestUp:
    pytestmark = kernel

    def test_linux_and_built_in_hosts_reach_each_other(self, folder: Path, tmp_path: Path) -> None:
        done = tmp_path / "done"
        lab = read(commanded(folder, "ethtool --offload eth0 rx off tx off", f"hostname > {done}"), "h1")
        with closing(running(lab, "h1")) as lab_up:
            assert done.read_text() == "h1\n"
            assert lab_up.stack is not None
            ping = lab_up.stack.host("h2").ping(IPS["h1"], count=2, interval_ps=1000 * US)
            until(lambda: ping.result().received == 2)
            status = lab_up.status
            assert status.linux is not None
            assert [(each.host, each.oversized) for each in status.linux] == [("h1", 0)]
            with pytest.raises(DetourError, match="h1 is a Linux host: use `detour exec h1 -- COMMAND`"):
                lab_up.do("udp:src=h2,dst=h1,rate=1M", 1.0, _never())

    def test_a_command_that_fails_is_told_and_nothing_stays(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made: list[LinuxHosts] = []
        monkeypatch.setattr(
            "detour.fabric.linux.hosts.LinuxHosts", lambda request: made.append(LinuxHosts(request)) or made[0]
        )
        with pytest.raises(DetourError, match=r"line \d+: the command 'echo no >&2; exit 3' failed: h1.* no"):
            running(read(commanded(folder, "echo no >&2; exit 3"), "all"), "all")
        assert [hosts.details(None, {}) for hosts in made] == [[]]

    def test_tasks_begin_and_end_at_their_times(self, folder: Path, tmp_path: Path) -> None:
        """One that ends by itself, one whose time is over, with its child, and one that the end of the lab ends."""
        begun, times = tmp_path / "begun", tmp_path / "times"
        tasks = (
            LabTask("h1", "a", 0.3, 0, f"hostname > {begun}", None),
            LabTask(
                "h1",
                "b",
                0.0,
                0.5,
                f"trap 'echo ended >> {times}; exit' TERM; echo begun > {times}; sleep 99 & wait",
                None,
            ),
            # Long enough to be told twice that it is to end, which it is not.
            LabTask(
                "h1", "c", 0.0, 0, f"trap 'echo last >> {tmp_path}/last; sleep 0.1; exit' TERM; sleep 99 & wait", None
            ),
        )
        with closing(running(replace(read(folder), tasks=tasks), "h1")):
            until(lambda: begun.exists() and begun.read_text() == "h1\n")
            until(lambda: times.exists() and times.read_text() == "begun\nended\n")
            assert not (tmp_path / "last").exists()
        assert (tmp_path / "last").read_text() == "last\n"


def _never() -> threading.Event:
    return threading.Event()
