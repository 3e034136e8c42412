# SPDX-License-Identifier: Apache-2.0
"""An all-to-all exchange in phases on a fat-tree: schedule, paths and barrier executed by host stacks in virtual time.

In a phase a host sends at most one message and gets at most one; nobody begins the next phase before every message of
the last one has been acknowledged (FORS, section 3.1). Hosts poll: for messages of the barrier's tree and for their own
completions, every `poll_ps`. What is planned can be exchanged for another plan between two phases (`replace`), for
which the root sends the hosts their part of it down the tree before they go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from detour.base.arrays import BoolArray, Int64Array
from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.fors.paths import INSIDE, by_phase, crowd
from detour.control.fors.plan import ForsPlan
from detour.fabric.traffic.barrier import Barrier, Lateness, Reactions, Stragglers
from detour.fabric.traffic.pinned import PinnedFabric
from detour.hosts.state import QPS_ERR
from detour.hosts.verbs.bulk import post_many

PLAN_ENTRY_BYTES = 4
"""what a host is told of a message to send: destination and path, 16 bits each"""
ABSENT = -1


@dataclass(frozen=True)
class PhasedMessages:
    """Messages of an exchange: phase, sender, receiver and path (`control.fors.paths`; `INSIDE` inside a leaf), as int
    arrays with one element a message."""

    phase: Int64Array
    src: Int64Array
    dst: Int64Array
    path: Int64Array
    size: Int64Array | None = None
    """(messages,) bytes of each; None: all have `Pace.message`"""

    @staticmethod
    def of(plan: ForsPlan) -> PhasedMessages:
        """Return the messages of a plan. Messages of a host to itself need no network and are left out."""
        sides = (plan.phase, plan.src, plan.dst, plan.paths())
        phase, src, dst, path = (np.asarray(side, np.int64) for side in sides)
        return PhasedMessages(phase, src, dst, path).only(src != dst)

    def only(self, kept: BoolArray) -> PhasedMessages:
        """Return the selected messages; `kept`: (messages,) bool."""
        size = None if self.size is None else self.size[kept]
        return PhasedMessages(self.phase[kept], self.src[kept], self.dst[kept], self.path[kept], size)

    def __len__(self) -> int:
        return len(self.phase)

    @property
    def phases(self) -> int:
        """Phases, those in which nobody sends not counted."""
        return len(np.unique(self.phase))

    def sample(self, count: int, seed: int) -> PhasedMessages:
        """`count` of the phases, one drawn from each of so many equal parts of the schedule; all if there are no more.
        Drawn, because a schedule's phases repeat with the number of spines: every n-th one would be of one kind."""
        numbers = np.unique(self.phase)
        if count >= len(numbers):
            return self
        edges = (np.arange(count + 1) * len(numbers)) // count
        chosen = numbers[np.random.default_rng([seed, 11]).integers(edges[:-1], edges[1:])]
        return self.only(np.isin(self.phase, chosen))


@dataclass(frozen=True)
class Pace:
    """`message`: bytes. `arity`: of the barrier's tree. `poll_ps`: time between two looks of a host's software at its
    memory and its completions; `limit_ps`: a phase in which nothing arrives for so long is given up. `jitter_ps`: a
    host's software acts up to so late, evenly drawn every time, on a release and on the end of what it waits for.
    `stragglers`: hosts, and ps by which they begin every phase late (the barrier's root: its release)."""

    message: int = 400_000
    arity: int = 4
    poll_ps: int = 200_000
    limit_ps: int = 100_000 * US
    jitter_ps: int = 0
    stragglers: Stragglers = ()

    def __post_init__(self) -> None:
        if self.message < 1:
            raise DetourError(f"a message of {self.message} bytes; it must be at least 1")
        if self.poll_ps < 1:
            raise DetourError("the polling interval must be above 0")
        if self.jitter_ps < 0 or any(late < 0 for _, late in self.stragglers):
            raise DetourError("jitter and stragglers' times must be 0 or more")


class Actor(Protocol):
    """Something beside the hosts that acts at a time: a fault, or a controller."""

    @property
    def due_ps(self) -> int:
        """The time at which it wants to act next."""
        ...

    def act(self, exchange: PhasedExchange) -> None:
        """Act: the time has come."""


@dataclass
class PhaseTimes:
    """Begin and end of phases, ps; `data_ps`: when the last message was acknowledged. One element a phase."""

    start_ps: list[int] = field(default_factory=list)
    data_ps: list[int] = field(default_factory=list)
    end_ps: list[int] = field(default_factory=list)

    def lengths(self) -> Int64Array:
        """From a release to the next one."""
        return np.array(self.end_ps, np.int64) - np.array(self.start_ps, np.int64)

    def barriers(self) -> Int64Array:
        """From the last acknowledgement to the root's release."""
        return np.array(self.end_ps, np.int64) - np.array(self.data_ps, np.int64)


@dataclass(frozen=True)
class ExchangeCounts:
    """Messages, as their receivers count them: `delivered` whole and once, `missing` (not whole), `repeated` (more
    bytes or messages than were sent), `given_up`; packets that were sent, or came, again."""

    messages: int
    delivered: int
    missing: int
    repeated: int
    given_up: int
    retransmitted_packets: int
    duplicate_packets: int


class PhasedExchange:
    """One exchange. `run` executes it; what happened is in its attributes. `state` of every message: 0 waits, 1 under
    way, 2 delivered, 3 given up (nobody can deliver it)."""

    WAITS, SENT, DELIVERED, GIVEN_UP = 0, 1, 2, 3

    def __init__(self, fabric: PinnedFabric, messages: PhasedMessages, pace: Pace) -> None:
        """Messages must not be pinned to links that have failed from the beginning."""
        self.fabric, self.messages, self.pace = fabric, messages, pace
        self.up: BoolArray = fabric.paths.working()
        """links that hosts may use as far as they know, shape (links,)"""
        self.path = messages.path.copy()
        self.state = np.zeros(len(messages), np.int64)
        self.size = np.full(len(messages), pace.message, np.int64) if messages.size is None else messages.size
        """bytes of every message"""
        self.flows = fabric.connect_messages(messages.src, messages.dst, self.path)
        self.members = np.unique(np.concatenate([messages.src, messages.dst])).tolist()
        self.barrier = Barrier(fabric, self.members, pace.arity, self.up)
        self.times = PhaseTimes()
        self.phase_flights: list[Int64Array] = []
        """messages of every phase that has begun"""
        self.crowds: list[int] = []
        """of every phase that has begun, the most messages under way on a link at a time"""
        self._queue = by_phase(messages.phase)
        self._plan_bytes: Int64Array | int = 0
        self._plan_edges: Int64Array | int = 0
        self._actors: list[Actor] = []
        self._coarse_until = 0
        slots = fabric.tree.slots
        self._late = Lateness(pace.jitter_ps, pace.stragglers, self.members, slots, fabric.tuning.seed)
        self._entering, self._reporting = Reactions(slots), Reactions(slots)
        self._awaited = False
        """somebody has not been released into the present phase yet"""
        self._moved = 0, -1
        """when bytes were counted last, and how many had arrived"""
        self._posted = messages.path.copy()
        """paths that messages began with"""

    @staticmethod
    def connections(messages: PhasedMessages) -> int:
        """Number of connections that a fabric must have room for: messages, the barrier's tree and, if hosts are lost,
        another one."""
        hosts = len(np.unique(np.concatenate([messages.src, messages.dst])))
        return len(messages) + 2 * Barrier.messages(hosts)

    def add(self, actor: Actor) -> None:
        """Somebody who acts while the exchange runs."""
        self._actors.append(actor)

    # -- running ----------------------------------------------------------------------------------------

    def run(self) -> None:
        """Execute the exchange to its end. Raises DetourError: a phase does not end."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[int]:
        """The same phase by phase: yields how many phases are over."""
        self._begin_phase()
        while True:
            self._advance()
            for actor in self._actors:
                if actor.due_ps <= self.fabric.now_ps:
                    actor.act(self)
            self._collect()
            self._enter()
            if self._report():
                self.times.end_ps.append(self.fabric.now_ps)
                self._note_crowd(self.phase_flights[-1], self._posted)
                yield len(self.times.end_ps)
                if not self.more():
                    return
                self._begin_phase()
            if self.fabric.now_ps > max(self.times.start_ps[-1], self._moved[0]) + self.pace.limit_ps:
                self._check_progress()

    def _check_progress(self) -> None:
        """Give up if nothing has arrived since bytes were counted last."""
        arrived = int(self.fabric.hs.qp["st_rx_bytes"].sum())
        if arrived == self._moved[1]:
            raise DetourError(
                f"phase {len(self.times.end_ps)} of the exchange is stuck, nothing arrives for "
                f"{self.pace.limit_ps / US:g} us of virtual time: {int((self.state == self.SENT).sum())} messages are "
                "under way"
            )
        self._moved = self.fabric.now_ps, arrived

    def more(self) -> bool:
        """Return whether there are phases to come."""
        return bool(self._queue)

    def _advance(self) -> None:
        """Run to the next poll, or to when somebody wants to act. While nobody can be done with a message yet hosts
        poll less often: what they could hear of is only that others have nothing to send."""
        now, step = self.fabric.now_ps, self.pace.poll_ps
        if now + 5 * step < self._coarse_until and not self._awaited:
            step *= 5
        due = min((actor.due_ps for actor in self._actors), default=now + step)
        due = min(due, self._entering.next_ps(now), self._reporting.next_ps(now))
        self.fabric.run(max(now + 1, min(now + step, due)))

    def _begin_phase(self) -> None:
        """The root begins the next phase: its release is on its way."""
        flights = self._queue.pop(0)
        self.phase_flights.append(flights)
        self.crowds.append(1)
        now = self.fabric.now_ps
        self.times.start_ps.append(now)
        self.times.data_ps.append(now)
        shortest = int(self.size[flights].min(initial=self.pace.message))
        wire_ps = shortest * 8 * 1_000_000_000_000 // self.fabric.tuning.rate_bps
        self._coarse_until = now + wire_ps if len(flights) else 0
        self._awaited = True
        root = np.array([self.barrier.root])
        sizes, self._plan_bytes = self._plan_bytes, 0
        self._plan_edges = self.barrier.subtree(sizes) if isinstance(sizes, np.ndarray) else sizes
        self.barrier.release(root, self._plan_edges)
        self._send(root)

    def _enter(self) -> None:
        """Hosts that have been released send, after passing the release on."""
        barrier, now = self.barrier, self.fabric.now_ps
        released = np.flatnonzero(barrier.members & (barrier.released() > barrier.forwarded))
        fresh = self._entering.unknown(released)
        self._entering.notice(fresh, now + self._late.acting(fresh) + self._late.beginning(fresh))
        entering = self._entering.acting(released, now)
        if len(entering):
            barrier.release(entering, self._plan_edges)
            self._send(entering)
        self._awaited = bool((barrier.forwarded[barrier.members] < barrier.forwarded[barrier.root]).any())

    def _send(self, hosts: Int64Array) -> None:
        """Hosts post their messages of this phase, if they have any."""
        sending = np.zeros(self.fabric.tree.slots, np.bool_)
        sending[hosts] = True
        flights = self.phase_flights[-1]
        mine = flights[sending[self.messages.src[flights]] & (self.state[flights] == self.WAITS)]
        self._avoid(mine)
        self.state[mine] = self.SENT
        self._posted[mine] = self.path[mine]
        post_many(self.flows, self.size[mine], now_ps=self.fabric.now_ps, wr_id=mine, which=mine)

    def _collect(self) -> None:
        """Look which messages have been acknowledged."""
        cq = self.fabric.hs.cq
        if not (cq["tail"] != cq["head"]).any():
            return
        cq["head"] = cq["tail"]
        sent = np.flatnonzero(self.state == self.SENT)
        rows = self.fabric.hs.qp[["state", "sq_una", "sq_end", "st_last_done_ps"]][self.flows.sender[sent]]
        over = rows["sq_una"] == rows["sq_end"]
        self.state[sent[over]] = np.where(rows["state"][over] == QPS_ERR, self.GIVEN_UP, self.DELIVERED)
        if over.any():
            self.times.data_ps[-1] = max(self.times.data_ps[-1], int(rows["st_last_done_ps"][over].max()))

    def _report(self) -> bool:
        """Hosts that are done and whose children are tell their parents; True when the root knows that all are."""
        barrier = self.barrier
        busy = np.zeros(self.fabric.tree.slots, np.bool_)
        busy[self.messages.src[self.state == self.SENT]] = True
        heard = barrier.heard()
        ready = barrier.members & ~busy & (barrier.notified < barrier.forwarded) & (heard >= barrier.forwarded)
        able, now = np.flatnonzero(ready), self.fabric.now_ps
        fresh = self._reporting.unknown(able)
        root = fresh == barrier.root  # it begins the next phase by its report
        self._reporting.notice(fresh, now + self._late.acting(fresh) + root * self._late.beginning(fresh))
        done = self._reporting.acting(able, now)
        if len(done):
            barrier.report(done)
        return bool((done == barrier.root).any())

    # -- change of plan ---------------------------------------------------------------------------------

    def waiting(self) -> list[Int64Array]:
        """Messages of the phases to come."""
        return [flights[self.state[flights] == self.WAITS] for flights in self._queue]

    def replace(self, phases: Sequence[Int64Array], path: Int64Array) -> None:
        """Another plan for what waits: messages of every phase, and the path of every message (shape of all messages).
        It comes into force with the next phase; hosts get their part with its release."""
        planned = np.sort(np.concatenate([np.zeros(0, np.int64), *phases]))
        missing = np.setdiff1d(np.concatenate([np.zeros(0, np.int64), *self.waiting()]), planned)
        if len(np.unique(planned)) != len(planned) or (self.state[planned] != self.WAITS).any():
            raise DetourError("a new plan may only have messages that have not been sent yet, each once")
        self.state[missing] = self.GIVEN_UP
        self._queue = [np.asarray(flights) for flights in phases if len(flights)]
        self.path[planned] = path[planned]
        self.fabric.pin(self.flows.sender[planned], self.messages.dst[planned], self.path[planned])
        self._plan_bytes = PLAN_ENTRY_BYTES * np.bincount(self.messages.src[planned], minlength=self.fabric.tree.slots)

    def links_changed(self, up: BoolArray) -> None:
        """Hosts have been told which links are up: what is under way and what comes takes others, the plan stays."""
        self.up = up.copy()
        self.barrier.repin(up)
        sent = np.flatnonzero(self.state == self.SENT)
        self._avoid(sent, move=True)

    def change_paths(self, flights: Int64Array, path: Int64Array) -> None:
        """Messages that have been sent go on by other paths."""
        self.path[flights] = path
        self.fabric.move(self.flows.sender[flights], self.messages.dst[flights], path)
        self._note_moved()

    def leave_out(self, hosts: Int64Array, up: BoolArray) -> None:
        """These hosts are gone: what they should have sent or got is given up, and the others go on without them on the
        links that are up. Raises DetourError: nobody else is left."""
        self.members = [host for host in self.members if host not in set(hosts.tolist())]
        theirs = np.isin(self.messages.src, hosts) | np.isin(self.messages.dst, hosts)
        self.state[theirs & (self.state != self.DELIVERED)] = self.GIVEN_UP
        self._queue = [flights for flights in self.waiting() if len(flights)]
        self.up = up.copy()
        self._avoid(np.flatnonzero(self.state == self.SENT), move=True)
        # A tree of new connections: everybody is released into the present phase again, which sends nothing twice.
        self.barrier = Barrier(self.fabric, self.members, self.pace.arity, self.up)
        self._plan_edges = 0
        root = np.array([self.barrier.root])
        self.barrier.release(root)
        self._send(root)

    def _leaves(self, flights: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the sender's and the receiver's leaf of each message."""
        hosts = self.fabric.tree.hosts
        return self.messages.src[flights] // hosts, self.messages.dst[flights] // hosts

    def _avoid(self, flights: Int64Array, move: bool = False) -> None:
        """Take messages off links that are known to be down, to one of the paths that remain, in turn. Where none
        does the message takes the plain address: it may find a longer path."""
        source, target = self._leaves(flights)
        path, paths = self.path[flights], self.fabric.paths
        links = paths.crossed(source, target, path)
        broken = np.flatnonzero(((links >= 0) & ~self.up[links]).any(axis=1))
        if not len(broken):
            return
        turn = self.messages.src[flights] + self.messages.dst[flights]
        for k in broken.tolist():
            usable = paths.usable(int(source[k]), int(target[k]), self.up)
            path[k] = usable[turn[k] % len(usable)] if len(usable) else INSIDE
        chosen = flights[broken]
        self.path[chosen] = path[broken]
        act = self.fabric.move if move else self.fabric.pin
        act(self.flows.sender[chosen], self.messages.dst[chosen], path[broken])
        if move:
            self._note_moved()

    # -- what came of it --------------------------------------------------------------------------------

    def _note_moved(self) -> None:
        """Messages of the phase that are not over have other paths now."""
        self._note_crowd(np.flatnonzero(self.state == self.SENT), self.path)

    def _note_crowd(self, flights: Int64Array, path: Int64Array) -> None:
        """Messages that are under way at a time, by these paths (shape of all messages)."""
        if len(flights):
            _, most = crowd(self.fabric.paths, np.zeros_like(flights), *self._leaves(flights), path[flights])
            self.crowds[-1] = max(self.crowds[-1], int(most[0]))

    def check(self) -> ExchangeCounts:
        """Counts, at the receivers, what became of the messages."""
        receiver, sender = (self.fabric.hs.qp[rows] for rows in (self.flows.receiver, self.flows.sender))
        got, count = receiver["st_rx_delivered"], receiver["rcv_msn"]
        given = self.state == self.GIVEN_UP
        once = (got == self.size) & (count == 1) & (self.state == self.DELIVERED)
        return ExchangeCounts(
            messages=len(self.messages),
            delivered=int(once.sum()),
            missing=int((~given & (got < self.size)).sum()),
            repeated=int(((got > self.size) | (count > 1)).sum()),
            given_up=int(given.sum()),
            retransmitted_packets=int(sender["st_retransmitted"].sum()),
            duplicate_packets=int(receiver["st_rx_duplicates"].sum()),
        )
