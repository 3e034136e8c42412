# SPDX-License-Identifier: Apache-2.0
"""TCP of the IP hosts beside Linux's, in real time through the same engine: `detour reproduce tcp --linux` (root).

For every cell (loss, RTT) some cables of one network carry a flow of Linux each, between two network namespaces on veth
interfaces, and as many carry one of ours. Cables have the same rate, delay, queue and losses. All run at the same time.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.tables import Table
from detour.base.times import MS
from detour.engine.clock import RealTime
from detour.engine.network import Network
from detour.experiments.columns import row, shown, table
from detour.experiments.tcp.relay import Relay, RelaySide
from detour.hosts.ip.addressing import IpHostConfig
from detour.hosts.ip.hosts import IpStack
from detour.hosts.ip.tcp.algorithms import chosen
from detour.hosts.ip.tcp.config import TcpConfig

COMPARED_LOSSES = (0.0, 0.001, 0.01)
COMPARED_RTTS_MS = (20.0, 50.0, 100.0)
COMPARED_BPS = 10_000_000
COMPARED_SECONDS = 100.0
REPLICAS = 6
GOAL = 0.05

_SETTLE = 0.1
_FRAME = 1_514
_SECOND = 1_000 * MS
_A, _B = "10.0.1.1", "10.0.2.1"
_NO_MARKS = 1 << 20


@row
class LinuxRow:
    """A cell: mean goodputs in Mb/s, the standard error of their means, and how much ours differs (relative)."""

    cc: str
    loss: float = shown("loss", lambda loss: f"{100 * loss:g} %")
    rtt_ms: float = shown("RTT, ms", "g")
    replicas: int = shown("flows", means="of each kind, at the same time")
    linux: float = shown("Linux, Mb/s", ".3f")
    linux_error: float = shown("+-", ".3f", means="standard error of the mean")
    ours: float = shown("ours, Mb/s", ".3f")
    ours_error: float = shown("+-", ".3f")
    difference: float = shown("differs by", lambda difference: f"{100 * difference:+.1f} %")


@dataclass(frozen=True)
class LinuxFindings:
    """All cells, and by how much loop time was held back because the machine was too slow: above 0 times are wrong."""

    rows: Sequence[LinuxRow]
    seconds: float
    rate_bps: int
    lag_ms: float


@dataclass(frozen=True)
class _Cell:
    loss: float
    rtt_ms: float
    replica: int

    @property
    def queue(self) -> int:
        return max(round(COMPARED_BPS * self.rtt_ms / 1e3 / 8 / _FRAME), 20)


class _Comparison:
    """The network, its namespaces and its flows."""

    def __init__(self, cc: str, seconds: float, replicas: int, stack: ExitStack) -> None:
        self.cc, self.seconds = cc, seconds
        self.cells = [
            _Cell(loss, rtt, replica)
            for loss in COMPARED_LOSSES
            for rtt in COMPARED_RTTS_MS
            for replica in range(replicas if loss else 1)
        ]
        self._undo = stack
        self.network = stack.enter_context(Network(RealTime(), 1_000_000, 1))
        self._relay = Relay()
        self._ids = iter(range(1, 1 << 16))

    def _cable(self, cell: _Cell) -> tuple[int, int]:
        """Two switches with a cell's cable between them; their device ids."""
        ids = (next(self._ids), next(self._ids))
        for side, device in enumerate(ids, 1):
            self.network.add_switch(device)
            self.network.set_pipeline(device, self._relay, RelaySide(side, _NO_MARKS))
        self.network.connect((ids[0], 1), (ids[1], 1), COMPARED_BPS, round(cell.rtt_ms * MS / 2), cell.queue)
        if cell.loss:
            self.network.set_faults((ids[0], 1), loss=cell.loss, both=False)
        return ids

    def add_linux(self, number: int, cell: _Cell) -> tuple[str, str]:
        """Two namespaces on a cable; their names."""
        names = []
        for device, side, own, other in zip(self._cable(cell), "ab", (_A, _B), (_B, _A), strict=True):
            name, link = f"detour-tcp-{number}{side}", f"dtcp{number}{side}"
            _ip(f"netns add {name}")
            self._undo.callback(_ip, f"netns del {name}", False)
            mac, far = (f"02:00:00:01:{s:02x}:{number:02x}" for s in ((1, 2) if side == "a" else (2, 1)))
            _ip(f"link add {link} type veth peer name eth0 netns {name}")
            _ip(f"-n {name} link set eth0 address {mac}")
            _ip(f"link set {link} up")
            _ip(f"-n {name} link set eth0 up")
            _ip(f"-n {name} address add {own}/32 dev eth0")
            _ip(f"-n {name} route add {other}/32 dev eth0")
            _ip(f"-n {name} neighbour add {other} lladdr {far} dev eth0")
            self.network.attach_interface((device, 2), link)
            names.append(name)
        return names[0], names[1]

    def add_ours(self, cells: Sequence[_Cell]) -> IpStack:
        """Our hosts, two a cable."""
        configs = []
        for number in range(len(cells)):
            for side, own, other in ((1, _A, _B), (2, _B, _A)):
                mac, far = (f"02:00:00:02:{s:02x}:{number:02x}" for s in (side, 3 - side))
                name = f"{'ab'[side - 1]}{number}"
                configs.append(IpHostConfig(name, mac, f"{own}/8", neighbours={other: far}))
        stack = IpStack(configs, sockets=16)
        for number, cell in enumerate(cells):
            for side, device in enumerate(self._cable(cell)):
                self.network.attach_stack((device, 2), stack, 2 * number + side)
        return stack

    def run(self) -> LinuxFindings:
        names = [self.add_linux(number, cell) for number, cell in enumerate(self.cells)]
        stack = self.add_ours(self.cells)
        settle = self.seconds * _SETTLE
        self.network.start()
        receivers = [self._in(b, "receive", self.seconds, settle) for _, b in names]
        for receiver in receivers:
            assert receiver.stdout is not None
            receiver.stdout.readline()
        name = chosen(self.cc).name
        senders = [self._in(a, "send", _B, self.seconds, {"newreno": "reno"}.get(name, name)) for a, _ in names]
        config = TcpConfig(cc=self.cc)
        ours = [(stack.host(2 * k + 1).tcp_port(config=config), stack.host(2 * k)) for k in range(len(self.cells))]
        flows = [a.tcp(_B, config=config) for _, a in ours]
        time.sleep(settle)
        before = [flow.result().acked for flow in flows]
        time.sleep(self.seconds - settle)
        counting = self.seconds - settle
        mine = [(flow.result().acked - start) * 8 / counting for flow, start in zip(flows, before, strict=True)]
        theirs = [float(receiver.communicate(timeout=self.seconds)[0].split()[-1]) for receiver in receivers]
        for sender in senders:
            sender.kill()
            sender.wait()
        lag = self.network.loop_stats()
        return self._findings(theirs, mine, lag["slip_ps"] / MS)

    def _in(self, name: str, *arguments: Any) -> subprocess.Popen[str]:
        command = ["ip", "netns", "exec", name, sys.executable, str(Path(__file__).with_name("traffic.py"))]
        process = subprocess.Popen([*command, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
        self._undo.callback(process.kill)
        return process

    def _findings(self, theirs: Sequence[float], mine: Sequence[float], lag_ms: float) -> LinuxFindings:
        rows = []
        for loss in COMPARED_LOSSES:
            for rtt in COMPARED_RTTS_MS:
                chosen = [k for k, cell in enumerate(self.cells) if (cell.loss, cell.rtt_ms) == (loss, rtt)]
                both = [[rates[k] / 1e6 for k in chosen] for rates in (theirs, mine)]
                linux, ours = map(statistics.fmean, both)
                errors = [statistics.stdev(x) / len(x) ** 0.5 if len(x) > 1 else 0.0 for x in both]
                cell: dict[str, Any] = {"cc": self.cc, "loss": loss, "rtt_ms": rtt, "replicas": len(chosen)}
                means: dict[str, Any] = {"linux": linux, "ours": ours, "difference": ours / linux - 1 if linux else 0.0}
                rows.append(LinuxRow(**cell, **means, linux_error=errors[0], ours_error=errors[1]))
        return LinuxFindings(rows, self.seconds, COMPARED_BPS, lag_ms)


def _ip(arguments: str, needed: bool = True) -> None:
    done = subprocess.run(["ip", *arguments.split()], capture_output=True, text=True)
    if done.returncode and needed:
        raise DetourError(f"ip {arguments}: {done.stderr.strip() or 'failed'}")


def compare(cc: str = "cubic", seconds: float = COMPARED_SECONDS, replicas: int = REPLICAS) -> LinuxFindings:
    """All cells. Raises `DetourError`: not root, or no network namespaces."""
    name = chosen(cc).name
    if name not in ("newreno", "cubic"):
        raise DetourError(f"--linux compares newreno and cubic, not {name}")
    if seconds < 2:
        raise DetourError(f"a comparison of {seconds:g} s; expected at least 2")
    if os.geteuid() != 0:
        raise DetourError("--linux needs root, to create network namespaces")
    with ExitStack() as stack:
        return _Comparison(cc, seconds, replicas, stack).run()


def linux_table(findings: LinuxFindings) -> Table[LinuxRow]:
    """Both beside each other."""
    run = f"{findings.rows[0].cc}, {findings.seconds:g} s on {findings.rate_bps / 1e6:g} Mb/s"
    title = f"TCP of the IP hosts and Linux: {run}"
    if findings.lag_ms > 0:
        title += f" (the machine was too slow: times are {findings.lag_ms:.0f} ms wrong)"
    return table(LinuxRow, findings.rows, title)
