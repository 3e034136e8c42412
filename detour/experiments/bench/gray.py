# SPDX-License-Identifier: Apache-2.0
"""Paths that fail in part (gray failures, Huang et al., HotOS 2017): who notices, and how long nothing arrives.

One connection between two hosts has four shortest paths and four detours, each a delay of its own. From some moment on
all four shortest paths, or three of them, lose frames of one kind (`LOSS_KINDS`) and pass all others, probes among
them. A message is to arrive by what is left. The host stacks are those of every other run; there is no switch between
them, so that a run takes a fraction of a second. Schemes that give a connection one path only are left out, as are
those in which switches choose: they have no other path to take. LERP-reacting is rerouting by the NIC
(`hosts.paths.reacting`).

`gap`: the longest time in which no new data arrives, from posting the message until all of it is there, in round trips
of an idle shortest path.
"""

from __future__ import annotations

import heapq
import itertools
import struct
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from detour.base.progress import Progress, silent
from detour.base.times import US
from detour.experiments.bench.report import BenchReport, Goal, report_of_rows
from detour.experiments.columns import row, shown
from detour.fabric.backends.virtual.scheme import SCHEME_REGISTRY, SPRAY_LERP, RunSettings, Scheme
from detour.hosts.cc import algorithm
from detour.hosts.endpoint import MAX_FRAME, MAX_TIME, deadline, expire, make_hosts, receive, transmit
from detour.hosts.frames.wire import OP_ACK, PORT_PROBE
from detour.hosts.paths import path_scheme
from detour.hosts.state import QPS_RTS, set_host
from detour.hosts.verbs import Device
from detour.hosts.verbs.bulk import connect_many, post_many

SHORTEST, DETOURS = (0x0001, 0x0002, 0x0003, 0x0004), (0x8001, 0x8002, 0x8003, 0x8004)
ROUND_TRIP = 10 * US
_DETOUR_PS = 7 * US
"""one way, five links instead of three"""
_LONG = 256
"""bytes: longer frames are lost by a path with too small an MTU"""
BREAKS = (0, 60 * US)
"""when paths begin to lose: before anything is sent, and in the middle"""
SIZES = (650_000, 2_000_000)
AFFECTED = (4, 3)
"""shortest paths that lose frames"""
GRAY_SEEDS = (1,)
GOAL_RTT = 5.0
REACTING = "LERP-reacting"
_LIMIT = 1_000_000 * US
_HEADERS = 192
"""bytes of a frame that are delivered: all headers; payload is elided"""
_PORTS = struct.Struct(">HH")
FrameKind = Literal["data", "ack", "probe"]


@dataclass(frozen=True)
class CarriedFrame:
    """The properties that decide whether a path loses a frame. `number`: how many it has carried that way."""

    kind: FrameKind
    forward: bool
    length: int
    number: int


LOSS_KINDS: dict[str, Callable[[CarriedFrame], bool]] = {
    "all": lambda f: True,
    "data": lambda f: f.kind == "data",
    "long": lambda f: f.length > _LONG,
    "there": lambda f: f.forward,
    "back": lambda f: not f.forward,
    "acks": lambda f: f.kind == "ack",
    "second": lambda f: f.number % 2 == 1,
}
"""which frames are lost: everything, data, long frames, one direction, ACKs, every second one"""


@dataclass(frozen=True)
class Fault:
    """Some shortest paths lose frames from `begin_ps` on."""

    lost: Callable[[CarriedFrame], bool]
    paths: frozenset[int]
    begin_ps: int = 0


@dataclass(frozen=True)
class MessageOutcome:
    """The fate of a message. `gap_rtt`: see the module; `share`: of its packets, the part on shortest paths."""

    failed: bool
    gap_rtt: float
    us: float
    share: float


class GrayRun:
    """One connection of a scheme, and the frames that are under way."""

    def __init__(self, scheme: Scheme, fault: Fault, seed: int, choice: str | None = None) -> None:
        """`choice`: who chooses paths, if that is not as the scheme says."""
        config = RunSettings(seed=seed).host_config(scheme)
        self.hs = make_hosts(2, 2, 1 << 30, config=config, seed=seed, window=1024)
        set_host(self.hs, 0, "fd00:0:0:1::1")
        set_host(self.hs, 1, "fd00:0:1:2::1")
        paths = path_scheme(choice or scheme.paths)
        ports = DETOURS if paths.ports == "detours" else SHORTEST + DETOURS
        chosen = {"ports": np.array([ports]), "choice": paths}
        terms = {"transport": scheme.transport, "congestion_control": algorithm(scheme.control)}
        self.flows = connect_many(Device(self.hs), [0], [1], reordering=scheme.reorder, seed=seed, **terms, **chosen)
        self.now, self._gap, self._last = 0, 0, 0
        self._fault, self._rate = fault, config.link_rate_bps
        self._buf = np.zeros(2 * MAX_FRAME, np.uint8)
        self._bytes = self._buf.data
        self._free = [0, 0]
        self._due = [MAX_TIME, MAX_TIME]
        self._ready = {0, 1}
        self._order = itertools.count()
        self._under_way: list[tuple[int, int, int, int, bytes]] = []
        self._carried: dict[tuple[int, int], int] = {}

    def deliver(self, message: int) -> MessageOutcome:
        """Send a message of so many bytes and wait for its completion, or for the connection to fail."""
        post_many(self.flows, message)
        self._due = [deadline(self.hs, host) for host in (0, 1)]
        sender, receiver = int(self.flows.sender[0]), int(self.flows.receiver[0])
        state, una, end, received = (self.hs.qp[name].item for name in ("state", "sq_una", "sq_end", "st_rx_packets"))
        arrived = 0
        while self.now < _LIMIT and state(sender) == QPS_RTS and una(sender) != end(sender):
            self._step()
            if received(receiver) != arrived:
                arrived = received(receiver)
                self._heard()
        if state(sender) != QPS_RTS:
            self._heard()
        taken = self.hs.candidate[sender, : int(self.hs.qp[sender]["n_cand"])]
        short = int(taken["packets"][taken["sport"] < DETOURS[0]].sum())
        done = una(sender) == end(sender) and state(sender) == QPS_RTS
        total = max(1, int(taken["packets"].sum()))
        return MessageOutcome(not done, self._gap / ROUND_TRIP, self.now / US, short / total)

    def _heard(self) -> None:
        self._gap, self._last = max(self._gap, self.now - self._last), self.now

    def _step(self) -> None:
        for host in (0, 1):
            while host in self._ready and self._free[host] <= self.now:
                self._send(host)
        following = min(self._due)
        for free in self._free:
            if self.now < free < following:
                following = free
        if self._under_way and self._under_way[0][0] < following:
            following = self._under_way[0][0]
        self.now = max(self.now, following)
        while self._under_way and self._under_way[0][0] <= self.now:
            _, _, host, length, frame = heapq.heappop(self._under_way)
            self._bytes[: len(frame)] = frame
            receive(self.hs, host, self._buf, 0, length, self.now)
            self._touched(host)
        for host in (0, 1):
            if self._due[host] <= self.now:
                expire(self.hs, host, self.now)
                self._touched(host)

    def _touched(self, host: int) -> None:
        self._due[host] = deadline(self.hs, host)
        self._ready.add(host)

    def _send(self, host: int) -> None:
        """Send the host's next frame, if there is one; else there is none before it receives or expires."""
        length = transmit(self.hs, host, self._buf, 0, self.now)
        self._due[host] = deadline(self.hs, host)
        if length == 0:
            self._ready.remove(host)
            return
        self._free[host] = self.now + length * 8_000_000_000_000 // self._rate
        frame = bytes(self._bytes[: min(length, _HEADERS)])
        udp = 62 if frame[20] == 0 else 54
        sport, dport = _PORTS.unpack_from(frame, udp)
        number = self._carried[host, sport] = self._carried.get((host, sport), 0) + 1
        if sport in self._fault.paths and self.now >= self._fault.begin_ps:
            kind: FrameKind = "probe" if dport == PORT_PROBE else "ack" if frame[udp + 8] == OP_ACK else "data"
            if self._fault.lost(CarriedFrame(kind, host == 0, length, number)):
                return
        arrives = self._free[host] + (_DETOUR_PS if sport >= DETOURS[0] else ROUND_TRIP // 2)
        heapq.heappush(self._under_way, (arrives, next(self._order), 1 - host, length, frame))


@row
class GrayRow:
    """Runs of a scheme with one kind of loss."""

    scheme: str = shown("scheme")
    kind: str = shown("frames lost")
    failed: int = shown("failed")
    runs: int = shown("runs")
    worst_gap_rtt: float = shown("longest gap, round trips", ",.2f")


def contenders() -> dict[str, tuple[Scheme, str]]:
    """All in which the sender has a choice of paths, by name."""
    schemes = map(SCHEME_REGISTRY.find, SCHEME_REGISTRY.names())
    choices = {each.name: (each, each.paths) for each in schemes if path_scheme(each.paths).hooks}
    return choices | {REACTING: (SPRAY_LERP, "reacting")}


def gray_row(name: str, kind: str, seeds: Sequence[int]) -> GrayRow:
    """Every combination of size, moment and number of paths for each seed."""
    scheme, choice = contenders()[name]
    outcomes = [
        GrayRun(scheme, Fault(LOSS_KINDS[kind], frozenset(SHORTEST[:count]), begin), seed, choice).deliver(size)
        for count, begin, size, seed in itertools.product(AFFECTED, BREAKS, SIZES, seeds)
    ]
    failed, worst = sum(outcome.failed for outcome in outcomes), max(outcome.gap_rtt for outcome in outcomes)
    return GrayRow(scheme=name, kind=kind, failed=failed, runs=len(outcomes), worst_gap_rtt=round(worst, 2))


def run(progress: Progress = silent) -> BenchReport:
    """`detour bench transport --gray`."""
    rows = []
    for name, kind in itertools.product(contenders(), LOSS_KINDS):
        rows.append(gray_row(name, kind, GRAY_SEEDS))
        progress(f"{name}, {kind}: {rows[-1].failed} of {rows[-1].runs} failed")
    ours = max(line.worst_gap_rtt for line in rows if line.scheme == SPRAY_LERP.name)
    goals = (
        Goal("messages that failed although paths worked", sum(line.failed for line in rows), 0, most=True),
        Goal("SprayLERP's longest gap, round trips", ours, GOAL_RTT, most=True),
    )
    return report_of_rows("transport --gray", GrayRow, rows, {"gray": [asdict(line) for line in rows]}, goals)
