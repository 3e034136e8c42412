# SPDX-License-Identifier: Apache-2.0
"""A lab on BMv2 in real time: its switches are processes of simple_switch_grpc with the lab's own programs and entries,
its cables veth pairs in a network namespace that vanishes with this process. Hosts are packet sockets: frames are sent
at given times and what comes is kept. Needs root."""

from __future__ import annotations

import selectors
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from finsy.proto import p4r

from detour.base.errors import DetourError
from detour.fabric.backends.bmv2.switch import SwitchProcess, missing
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.model import LabEnd
from detour.fabric.labs.programs import SwitchContent, contents_of, programs_of
from detour.fabric.labs.reading import read_lab
from detour.fabric.linux.netns import Namespace
from detour.topo import Switch
from tests.ptf.p4rt import Client

__all__ = ["Bmv2Lab", "Seen", "TimedFrame", "missing"]

_SNAP = 65_536
_ROOM = 1 << 22
"""bytes of sockets, so that none loses what this process is late for"""
_LEAD_S = 0.3
_CLI = "simple_switch_CLI"

Place = str | tuple[str, int]
"""a host, or what a switch sends on a port"""


@dataclass(frozen=True)
class TimedFrame:
    """A frame that a host is to send, seconds after the beginning."""

    at: float
    host: str
    frame: bytes


@dataclass(frozen=True)
class Seen:
    """A frame that came."""

    at: float
    place: Place
    frame: bytes


class Bmv2Lab:
    """A context manager. Two of them may be up at once. `sent`: what the last `play` sent, at the times that a busy
    machine really did."""

    def __init__(self, folder: Path, solution: bool = False) -> None:
        """Raises `DetourError`: BMv2 cannot be used here, or what is wrong with the lab, by file and line."""
        if why := missing():
            raise DetourError(why)
        self.lab = read_lab(LabFolder.given(str(folder), solution))
        self.sent: list[TimedFrame] = []
        self._undo = ExitStack()
        self._processes: dict[str, SwitchProcess] = {}
        with ExitStack() as undo:
            self._inside = Namespace()
            undo.callback(self._inside.close)
            self._folder = Path(tempfile.mkdtemp(prefix="detour-bmv2-lab-"))
            undo.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self._lay_cables()
            for number, content in enumerate(contents_of(self.lab, programs_of(self.lab))):
                self._boot(number, content, undo)
            self._undo = undo.pop_all()

    def _lay_cables(self) -> None:
        lines = ["link set lo up"]
        for link in self.lab.links:
            near, far = _interface(link.a), _interface(link.b)
            lines += [f"link add {near} type veth peer name {far}", f"link set {near} up", f"link set {far} up"]
        self._inside.ip(lines)

    def _boot(self, number: int, content: SwitchContent, undo: ExitStack) -> None:
        name = content.switch.name
        ends = [end for link in self.lab.links for end in (link.a, link.b) if end.node == name]
        interfaces = {end.port: _interface(end) for end in ends}
        switch = Switch(index=number, group=0, position=0, tier=0, ports=())
        process = SwitchProcess(switch, self._inside, self._folder, interfaces, content.switch.priorities)
        undo.callback(process.close)
        process.wait_ready()
        process.thrift().close()  # it listens
        _fill(process.target.address, switch.device_id, content)
        if content.switch.commands is not None:
            self._commands(number, content.switch.commands.read_text())
        self._processes[name] = process

    def _commands(self, number: int, text: str) -> None:
        """By simple_switch_CLI itself."""
        if shutil.which(_CLI) is None:
            raise DetourError(f"{_CLI} is not on PATH, which this lab's command files are for")
        command = self._inside.command([_CLI, "--thrift-port", str(9_090 + number)])
        subprocess.run(command, input=text, text=True, check=True, capture_output=True, pass_fds=[self._inside.fd])

    def set_queue_rate(self, switch: str, port: int, packets_per_second: int) -> None:
        """At most so many packets a second leave a port."""
        with self._processes[switch].thrift() as thrift:
            thrift.target.set_egress_queue_rate(port, packets_per_second)

    def play(self, sends: Iterable[TimedFrame], seconds: float, places: Sequence[Place]) -> list[Seen]:
        """Sends, and returns what has come to places by then, in its order. Raises `DetourError`: a place that is not
        there."""
        with ExitStack() as closing:
            out = {host.name: closing.enter_context(self._socket(host.name)) for host in self.lab.hosts}
            heard = {place: closing.enter_context(self._socket(place)) for place in places}
            begun = time.monotonic() + _LEAD_S
            seen: list[Seen] = []
            self.sent = []
            listener = threading.Thread(target=_listen, args=(heard, begun, seconds, seen))
            listener.start()
            for send in sorted(sends, key=lambda send: send.at):
                time.sleep(max(begun + send.at - time.monotonic(), 0.0))
                out[send.host].send(send.frame)
                self.sent.append(replace(send, at=time.monotonic() - begun))
            listener.join()
        return seen

    def _socket(self, place: Place) -> socket.socket:
        """Of a host, or at the far end of a switch's port."""
        end = self._end(place)
        inner = self._inside.packet_socket(_interface(end))
        inner.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
        inner.setblocking(False)
        return inner

    def _end(self, place: Place) -> LabEnd:
        for link in self.lab.links:
            for end, other in ((link.a, link.b), (link.b, link.a)):
                if (end.node == place) if isinstance(place, str) else ((other.node, other.port) == place):
                    return end
        raise DetourError(f"there is no {place} in this lab, or no cable of it")

    def __enter__(self) -> Bmv2Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()


def _interface(end: LabEnd) -> str:
    return f"{end.node}-{end.port}"


def _listen(heard: Mapping[Place, socket.socket], begun: float, seconds: float, seen: list[Seen]) -> None:
    with selectors.DefaultSelector() as selector:
        for place, sock in heard.items():
            selector.register(sock, selectors.EVENT_READ, place)
        while (now := time.monotonic() - begun) < seconds:
            for key, _ in selector.select(seconds - now):
                frame = heard[key.data].recv(_SNAP)
                seen.append(Seen(time.monotonic() - begun, key.data, frame))


def _fill(address: str, device: int, content: SwitchContent) -> None:
    """Program and entries, over P4Runtime."""
    if content.compiled is None:
        raise DetourError(f"{content.switch.name}: P4Runtime needs a program and its P4Info")
    with Client(address, device) as controller:
        controller.set_pipeline(content.compiled.message)
        for update in content.updates:
            controller.write((p4r.Update.Type.Name(update.update.type), update.update.entity))
