# SPDX-License-Identifier: Apache-2.0
"""Links that break during an exchange, and the controller that notices and plans anew.

A break is noticed in two paths. Ports that are down are seen when the controller looks at the switches (`look_ps`). A
link that only loses frames is found by probes (PTM and PTR of the path measurement): over every link of a leaf one of
its hosts sends another a probe, by a uSID list that leads up the link and down the same again; `patience` of them in a
row without an answer condemn it. Then, one after the other: hosts are told which links to avoid (`tell_ps`) and
the switches' routes change, and after the time that planning takes (measured, or `plan_ps`) the new plan waits for the
end of the phase. It is one for what waits then: a controller can foresee which phases are over by that time. Hosts get
it with the release of the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from detour.base.arrays import BoolArray, Int64Array
from detour.base.errors import DetourError
from detour.base.times import MAX_TIME, US
from detour.control.fors.fabric import FatTree, TreeLink
from detour.control.fors.paths import TreePaths, islands
from detour.fabric.traffic.phased import ABSENT, PhasedExchange
from detour.fabric.traffic.pinned import PinnedFabric
from detour.hosts import rdma
from detour.hosts.state import NIL

Planner = Callable[[FatTree, Int64Array, Int64Array, Int64Array, Int64Array], tuple[Int64Array, Int64Array]]
"""(fabric, phase, src, dst, path) of what waits -> (phase, path); phase -1: cannot be delivered"""


@dataclass(frozen=True)
class Break:
    """Links that break at a time; `leaves` are leaf switches that die, with all that is plugged in."""

    time_ps: int
    links: frozenset[TreeLink] = frozenset()
    leaves: frozenset[int] = frozenset()
    silent: bool = False


class Breaks:
    """Lets things break when their time has come."""

    def __init__(self, breaks: Iterable[Break]) -> None:
        self._left = sorted(breaks, key=lambda each: each.time_ps)
        self.due_ps = self._left[0].time_ps if self._left else MAX_TIME

    def act(self, exchange: PhasedExchange) -> None:
        fabric = exchange.fabric
        while self._left and self._left[0].time_ps <= fabric.now_ps:
            broken = self._left.pop(0)
            for link in sorted(broken.links.union(*(fabric.paths.beside(leaf) for leaf in broken.leaves))):
                fabric.cut(link, silent=broken.silent)
            for leaf in sorted(broken.leaves):
                fabric.cut_hosts(leaf)
        self.due_ps = self._left[0].time_ps if self._left else MAX_TIME


@dataclass(frozen=True)
class Delays:
    """Times of the controller, ps. `plan_ps` stands for computing; None: the CPU time that this machine takes for what
    waits when planning begins. Virtual time then depends on the machine, and no two runs are quite the same."""

    look_ps: int = 10 * US
    probe_ps: int = 50 * US
    patience: int = 2
    tell_ps: int = 5 * US
    plan_ps: int | None = None


@dataclass
class Detection:
    """The course of one detection, without wall-clock times: times in us, None if it did not come to that. `links` by
    their names."""

    links: list[str]
    detected_by: str
    detected_us: float | None
    hosts_told_us: float | None = None
    planned_us: float | None = None
    in_force_us: float | None = None
    in_force_from_phase: int | None = None
    phases_left: int = 0
    switch_entries_written: int = 0
    hosts_lost: list[int] = field(default_factory=list)


class OutageController:
    """Watches the links of an exchange and gives it new plans. An `Actor`."""

    def __init__(self, exchange: PhasedExchange, planner: Planner, delays: Delays | None = None) -> None:
        """`planner`: makes a plan for what waits."""
        self._planner, self.delays = planner, delays or Delays()
        fabric = exchange.fabric
        self.failed: set[TreeLink] = self._down(exchange, exchange.up)
        self._probes = Probes(fabric) if self.delays.probe_ps else None
        self._look_ps = fabric.now_ps
        self._probe_ps = fabric.now_ps if self._probes else MAX_TIME
        self._tell_ps = self._plan_ps = MAX_TIME
        self.detections: list[Detection] = []
        self.planning_seconds: list[float] = []
        """of each of them, that this machine computed"""
        self._untold: list[int] = []
        self._unplanned: list[int] = []
        self._waiting: list[int] = []

    @staticmethod
    def needs_probes(fabric: PinnedFabric, breaks: Iterable[Break]) -> None:
        """Raise DetourError: a link would break silently that nobody probes."""
        there = fabric.tree.population
        probed = {probe.links[-1] for probe in fabric.paths.probes() if there[probe.leaf] >= 2}
        silent = [each for each in breaks if each.silent]
        links = {link for each in silent for link in each.links}
        links.update(link for each in silent for leaf in each.leaves for link in fabric.paths.beside(leaf))
        for link in sorted(links - probed):
            name = fabric.tree.link_name(link)
            raise DetourError(f"link {name} cannot break silently: probing expected at least two hosts on its leaf")

    @staticmethod
    def connections(fabric: FatTree) -> int:
        """Largest number of connections that its probes take."""
        return len(TreePaths(fabric).probes())

    @property
    def due_ps(self) -> int:
        """The time at which it wants to act."""
        return min(self._look_ps, self._probe_ps, self._tell_ps, self._plan_ps)

    def act(self, exchange: PhasedExchange) -> None:
        now = exchange.fabric.now_ps
        if self._look_ps <= now:
            self._look_ps = now + self.delays.look_ps
            self._note(exchange, self._down(exchange, exchange.fabric.links_up()), "port")
        if self._probes and self._probe_ps <= now:
            self._probe_ps = now + self.delays.probe_ps
            self._probes.round()
            self._note(exchange, self._probes.missing(self.delays.patience, self.failed), "probe")
        if self._tell_ps <= now:
            self._tell(exchange)
        if self._plan_ps <= now:
            self._plan(exchange)
        self._watch_force(exchange)

    @staticmethod
    def _down(exchange: PhasedExchange, up: BoolArray) -> set[TreeLink]:
        links = exchange.fabric.paths.links
        return {links[number] for number in np.flatnonzero(~up).tolist()}

    def _note(self, exchange: PhasedExchange, dead: set[TreeLink], by: str) -> None:
        fresh = sorted(dead - self.failed)
        if not fresh:
            return
        self.failed |= dead
        now = exchange.fabric.now_ps
        names = [exchange.fabric.tree.link_name(link) for link in fresh]
        for numbers in (self._untold, self._unplanned):
            numbers.append(len(self.detections))
        self.detections.append(Detection(names, by, _us(now)))
        self.planning_seconds.append(0.0)
        self._tell_ps = now + self.delays.tell_ps
        self._plan_ps = now + max(self._planning_ps(exchange), self.delays.tell_ps)

    def _planning_ps(self, exchange: PhasedExchange) -> int:
        """Return how long planning takes: what was set, or what planning for all that waits now takes this machine."""
        if self.delays.plan_ps is not None:
            return self.delays.plan_ps
        begin = time.thread_time()
        plan_of(exchange, exchange.fabric.tree.with_failed(self.failed), self._planner)
        seconds = time.thread_time() - begin
        for number in self._unplanned:
            self.planning_seconds[number] = seconds
        return round(seconds * 1e12)

    def _tell(self, exchange: PhasedExchange) -> None:
        """Switches get other routes, hosts learn which links to avoid; leaves without any link are left out."""
        self._tell_ps = MAX_TIME
        up = np.array([link not in self.failed for link in exchange.fabric.paths.links], np.bool_)
        entries = exchange.fabric.reroute(self.failed)
        gone = self._cut_off(exchange, up)
        for number in self._untold:
            detection = self.detections[number]
            detection.hosts_told_us, detection.switch_entries_written = _us(exchange.fabric.now_ps), entries
            detection.hosts_lost = gone.tolist()
        self._untold = []
        if len(gone):
            exchange.leave_out(gone, up)
        else:
            exchange.links_changed(up)

    @staticmethod
    def _cut_off(exchange: PhasedExchange, up: BoolArray) -> Int64Array:
        """Hosts that no link joins with most of the others any more, not even by a longer path."""
        tree, members = exchange.fabric.tree, np.array(exchange.members, np.int64)
        part = islands(tree, up)[members // tree.hosts]
        return members[part != np.bincount(part).argmax()]

    def _plan(self, exchange: PhasedExchange) -> None:
        """The new plan for what waits, ready for the next phase."""
        self._plan_ps = MAX_TIME
        begin = time.thread_time()
        phases = replan(exchange, exchange.fabric.tree.with_failed(self.failed), self._planner)
        seconds = time.thread_time() - begin
        for number in self._unplanned:
            detection = self.detections[number]
            detection.planned_us = _us(exchange.fabric.now_ps)
            if self.delays.plan_ps is not None:
                self.planning_seconds[number] = seconds
            detection.in_force_from_phase, detection.phases_left = len(exchange.phase_flights), phases
        self._waiting += self._unplanned
        self._unplanned = []

    def _watch_force(self, exchange: PhasedExchange) -> None:
        """Notes when the phase with the new plan has begun."""
        begun = exchange.times.start_ps
        for number in self._waiting.copy():
            phase = self.detections[number].in_force_from_phase
            if phase is not None and phase < len(begun):
                self.detections[number].in_force_us = _us(begun[phase])
                self._waiting.remove(number)

    def finish(self, exchange: PhasedExchange) -> None:
        """The exchange is over: what came into force just before is noted too."""
        self._watch_force(exchange)


def _us(time_ps: int) -> float:
    return round(time_ps / US, 3)


def replan(exchange: PhasedExchange, fabric: FatTree, planner: Planner) -> int:
    """Give an exchange the planner's plan for what waits; return how many phases are left."""
    groups, paths = plan_of(exchange, fabric, planner)
    if exchange.more():
        exchange.replace(groups, paths)
    return len(groups)


def plan_of(exchange: PhasedExchange, fabric: FatTree, planner: Planner) -> tuple[Sequence[Int64Array], Int64Array]:
    """The planner's plan for what waits: messages of every phase, and the path of every message."""
    waiting = exchange.waiting()
    if not waiting:
        return [], exchange.path
    flights = np.concatenate(waiting)
    before = np.repeat(np.arange(len(waiting)), [len(group) for group in waiting])
    messages = exchange.messages
    phase, path = planner(fabric, before, messages.src[flights], messages.dst[flights], exchange.path[flights])
    paths = exchange.path.copy()
    paths[flights] = path
    return [flights[phase == number] for number in np.unique(phase[phase != ABSENT])], paths


class Probes:
    """Probes that find links which lose every frame while their ports are up (PTM and PTR of the path measurement):
    connections over every link that a leaf with two hosts sees, and how many probes in a row have not come back."""

    def __init__(self, fabric: PinnedFabric) -> None:
        tree = fabric.tree
        there = np.array(tree.population)
        self._probes = [probe for probe in fabric.paths.probes() if there[probe.leaf] >= 2]
        leaf, path = (np.array([probe[side] for probe in self._probes], np.int64) for side in range(2))
        first, count = leaf * tree.hosts, there[leaf]
        self._fabric = fabric
        self._rows = fabric.connect_pinned(first + path % count, first + (path + 1) % count, path).sender
        self._missed = np.zeros(len(self._rows), np.int64)
        self._sent = False

    def round(self) -> None:
        """Count what has not come back of the last round and send the next one."""
        hs = self._fabric.hs
        if self._sent:
            open_ = hs.candidate["asked"][self._rows, 0] != NIL
            self._missed = np.where(open_, self._missed + 1, 0)
        self._sent = True

        def send() -> None:
            for row in self._rows.tolist():
                rdma.probe_all(hs.listing, row)

        self._fabric.call_of(send, self._rows)

    def missing(self, patience: int, down: set[TreeLink]) -> set[TreeLink]:
        """Links whose last `patience` probes did not come back. `down`: links that are; what is probed through these
        says nothing of others."""
        late = [self._probes[k].links for k in np.flatnonzero(self._missed >= patience)]
        dead = down | {links[0] for links in late if len(links) == 1}
        return dead | {links[-1] for links in late if not dead.intersection(links[:-1])}
