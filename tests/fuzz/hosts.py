# SPDX-License-Identifier: Apache-2.0
"""Target `hosts`: mutated frames at the host stacks: requester, responder, probing, verbs and the codec.

Two hosts write to each other; their frames arrive, most of them, and between them mutants of these and of frames of
earlier connections, with checksums that are right or not. After every frame all memory must be what a model says that
was written without any of detour's code (`hosts_model`), immediates must be those that it reports, nothing may complete
of which no answer said that it arrived, and as long as no mutant with right sums has spoken for the peer, nothing of
which it did not arrive. Native code reads and writes in memory that ends at forbidden pages.
"""

from __future__ import annotations

import json
import random
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

from detour.base.errors import DetourError
from detour.hosts import state
from detour.hosts.decode import decode
from detour.hosts.endpoint import MAX_FRAME, deadline, expire, receive, transmit
from detour.hosts.parameters import host_config
from detour.hosts.records import QP_COUNTERS
from detour.hosts.verbs import (
    MR,
    QP,
    AccessFlag,
    Path,
    QPInitAttr,
    QPState,
    SendWR,
    WCOpcode,
    WCStatus,
)
from tests.fuzz.board import Board
from tests.fuzz.budget import Budget, Finding
from tests.fuzz.guard import GuardedNumpy, Region
from tests.fuzz.hosts_model import Fields, Receiver, Sender, read
from tests.fuzz.hosts_model import Region as Allowed
from tests.fuzz.hosts_mutations import Mutator
from tests.property.lossy import US, add_delay, check, make_pair, mark

STEPS = 2000
"""mutants of a round"""
_MEMORY, _WINDOW, _POOL, _ARCHIVE = 1 << 14, 32, 24, 64
_BOTH = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE
_PATHS = [Path(1), Path(0x8001), Path(0x8002)]
_SILENCE = 400 * US
_KINDS = [("lerp", False), ("gbn", False), ("gbn", True)]
_CODEC = {
    "data": "sport opcode solicited qpn psn count va rkey length imm payload ce has_delay delay",
    "ack": "sport opcode qpn psn syndrome msn trigger count base bitmap has_delay delay ce",
    "ptm": "sport qpn psn cand ce has_delay delay",
    "ptr": "sport qpn psn cand reflected ce has_delay delay",
    "cnp": "sport opcode qpn ce",
}


def run(board: Board, seed: int, budget: Budget) -> dict[str, Any]:
    """Delivers mutants until the budget is used up; returns what became of them."""
    totals: Counter[str] = Counter()
    for number in budget.rounds(lambda: totals["mutants"]):
        board.note(seed=seed, round=number)
        with _guarded_hosts():
            Round(board, random.Random(f"{seed} {number}"), totals, f"round {number}").run()
    return {"rounds": number - budget.first, **dict(sorted(totals.items()))}


@contextmanager
def _guarded_hosts() -> Iterator[None]:
    """Tables of hosts made meanwhile end at forbidden memory."""
    with mock.patch.object(state, "np", GuardedNumpy()):
        yield


@dataclass(frozen=True)
class Sent:
    """A frame for a host, and which connection it is of."""

    host: int
    frame: bytes
    connection: int


class End:
    """One end of a connection: its QP and what the model says of it."""

    def __init__(self, qp: QP, receiver: Receiver, sender: Sender) -> None:
        self.qp, self.receiver, self.sender = qp, receiver, sender
        self.posted: deque[tuple[int, int, int]] = deque()  # (wr_id, its first packet, the one behind its last)
        self.next = sender.first


class Round:
    """A pair of hosts and what happens to them."""

    def __init__(self, board: Board, rng: random.Random, totals: Counter[str], name: str) -> None:
        self.board, self.rng, self.totals, self.name = board, rng, totals, name
        self.kind = rng.choice(_KINDS)
        self.control = rng.choice(("fixed", "dctcp", "dcqcn"))
        self.sealed = rng.choice((0.0, 0.8, 0.8))
        cnps = rng.choice((0, 10 * US))
        config = host_config(
            ack_every=rng.choice((1, 3)), cnp_interval_ps=cnps, probe_backlog=2, delta3=5, retry_ps=2_000 * US,
            initial_rto_ps=100 * US, min_rto_ps=50 * US, dcqcn_decrease_ps=rng.choice((0, 4 * US)),
        )  # fmt: skip
        attr = self._attr()
        self.pair = make_pair(
            memory=_MEMORY, config=config, seed=rng.getrandbits(30), attr_a=attr, attr_b=attr, window=_WINDOW,
            n_qps=rng.choice((2, 4)), n_mrs=5, max_candidates=4, connect={"candidates": _PATHS},
        )  # fmt: skip
        pair = self.pair
        self.addresses = [_address(pair.hs, host) for host in (0, 1)]
        self.landing = [MR(pair.pd_a, _MEMORY, _BOTH, addr=pair.mr_a.addr), pair.mr_b]
        self.allowed = [[_allowed(self.landing[0])], [_allowed(self.landing[1])]]
        self.memory = pair.hs.memory.copy()
        self.room = Region(MAX_FRAME).use(rear=True)
        self.mutator = Mutator(rng)
        self.pool: list[Sent] = []
        self.archive: list[Sent] = []
        self.under_way: deque[Sent] = deque()
        self.now = 1
        self._begin()

    def _attr(self) -> QPInitAttr:
        psn = self.rng.choice((None, None, 0, 0xFFFFF0))
        transport, reordering = self.kind
        return QPInitAttr(psn=psn, transport=transport, reordering=reordering, congestion_control=self.control)

    def _begin(self) -> None:
        """The model of a new connection, whose QPs are there."""
        ends, in_order = [self.pair.qp_a, self.pair.qp_b], self.kind == ("gbn", False)
        self.ends = [
            End(
                qp,
                Receiver(_WINDOW, in_order, ends[1 - k].psn, self.allowed[k], self.memory),
                Sender(_WINDOW, self.kind[0] == "lerp", qp.psn, qp.psn),
            )
            for k, qp in enumerate(ends)
        ]
        self.tainted, self.quiet_since = False, self.now
        words = [qp.qp_num for qp in ends] + [mr.rkey for mr in self.landing] + [mr.addr for mr in self.landing]
        self.mutator.words = [*self.mutator.words[-24:], *words, *(qp.psn for qp in ends)]
        self.totals["connections"] += 1
        self.connection = self.totals["connections"]

    # -- a step ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """All steps of the round."""
        for step in range(STEPS):
            self.now += self.rng.randrange(2 * US)
            if step % 16 == 0:
                self._post(step)
            for host in (0, 1):
                self._let_send(host)
            while self.under_way and self.rng.random() < 0.9:
                sent = self.under_way.popleft()
                if self.rng.random() < 0.97:
                    self._arrive(sent)
            if self.pool:
                self._mutate()
            if step % 32 == 0:
                self._look()
            self._renew()
        for context in (self.pair.a, self.pair.b):
            counted = context.stats()
            for name in ("rx_old_connection", "rx_unknown_qp", "rx_out_of_window", "rx_malformed", "rx_bad_icrc"):
                self.totals[name] += counted[name]

    def _post(self, step: int) -> None:
        """A message, mostly from the first host to the second, some of them of nothing, to an old key or nowhere."""
        host = int(self.rng.random() < 0.2)
        end, source = self.ends[host], (self.pair.mr_a, self.pair.mr_b)[host]
        if end.qp.state is not QPState.RTS or len(end.posted) > 5:
            return
        size = self.rng.choice((0, 1, 7, 999, 1000, 1001, 3000, 6001))
        offset, target = self.rng.randrange(_MEMORY - size), self.landing[1 - host]
        fresh = self.rng.randbytes(size)
        source.write(fresh, offset)
        self.memory[source.addr + offset : source.addr + offset + size] = np.frombuffer(fresh, np.uint8)
        there, key = target.addr + self.rng.randrange(_MEMORY - size), target.rkey
        if self.rng.random() < 0.02:
            there, key = self.rng.choice(((there, self.rng.choice(self.mutator.words) & 0xFFFFFFFF), (5, key)))
        imm = self.rng.getrandbits(32) if self.rng.random() < 0.7 else None
        end.qp.post_send(SendWR(step, source.sge(offset, size), there, key, imm), self.now)
        end.posted.append((step, end.next, end.next + max(1, -(-size // 1000))))
        end.next = end.posted[-1][2]

    def _let_send(self, host: int) -> None:
        hs = self.pair.hs
        if deadline(hs, host) <= self.now:
            expire(hs, host, self.now)
        for _ in range(self.rng.randrange(4)):
            length = int(transmit(hs, host, self.room, 0, self.now))
            if length == 0:
                return
            frame = self.room[:length].tobytes()
            f = read(frame)
            if f is None:
                raise Finding(f"{self.name}: host {host} sent what is not a frame: {frame.hex()}")
            if f["kind"] == "data":
                self.ends[host].sender.emit(f)
                self.quiet_since = self.now
            sent = Sent(1 - host, self._through_switches(frame), self.connection)
            self.under_way.append(sent)
            if len(self.pool) < _POOL:
                self.pool.append(sent)
            else:
                self.pool[self.rng.randrange(_POOL)] = sent

    def _through_switches(self, frame: bytes) -> bytes:
        """What queues do to a frame: a delay in the option, perhaps a mark."""
        frame = add_delay(frame, self.rng.choice((0, 1, 900, 40_000)))
        return mark(frame) if self.rng.random() < 0.2 else frame

    def _mutate(self) -> None:
        if self.rng.random() < 0.1:
            self._arrive(self.rng.choice([*self.pool, *self.archive]))  # again
        sent, other = self.rng.choice(self.pool), self.rng.choice(self.pool)
        mutant = self.mutator.mutant(sent.frame, other.frame, self.rng.random() < self.sealed)
        mutant = mutant[:MAX_FRAME]
        self.totals["mutants"] += 1
        self._decode(mutant)
        if mutant == sent.frame:
            self._arrive(sent)
            return
        f = self._for_connection(sent.host, read(mutant))
        if f is not None:
            self.tainted = True
            self.totals["mutants believed or weighed"] += 1
        self._deliver(sent.host, mutant, f)

    def _decode(self, frame: bytes) -> None:
        """The codec for Python and the model read the same."""
        self.board.show(frame)
        expected = read(frame)
        try:
            decoded = decode(frame)
        except DetourError as error:
            if expected is not None or "\n" in str(error):
                raise Finding(f"{self.name}: {frame.hex()} is refused: {error}") from error
            return
        except Exception as error:
            raise Finding(f"{self.name}: decode({frame.hex()}): {type(error).__name__}: {error}") from error
        if expected is None or decoded["kind"] != expected["kind"]:
            raise Finding(f"{self.name}: {frame.hex()} is read as {decoded} and is {expected}")
        names = _CODEC[decoded["kind"]].split()
        wrong = [name for name in names if decoded[name] != expected[name]]
        if wrong:
            raise Finding(f"{self.name}: {wrong} of {frame.hex()}: {decoded} and not {expected}")
        self.totals["mutants well-formed"] += 1

    # -- arrival --------------------------------------------------------------------------------------------

    def _arrive(self, sent: Sent) -> None:
        """A frame comes in as it was sent. One of an earlier connection must not change anything."""
        mine = sent.connection == self.connection
        self._deliver(sent.host, sent.frame, self._for_connection(sent.host, read(sent.frame)) if mine else None)

    def _deliver(self, host: int, frame: bytes, f: Fields | None) -> None:
        """A frame comes in; afterwards everything is as the model says, which is told of `f`."""
        self.board.show(frame)
        self._expect(host, f)
        self.room[: len(frame)] = np.frombuffer(frame, np.uint8)
        self.room[len(frame) :] = 0xC5
        receive(self.pair.hs, host, self.room, 0, len(frame), self.now)
        self.totals["frames"] += 1
        wrong = np.flatnonzero(self.memory != self.pair.hs.memory)
        if len(wrong):
            raise Finding(f"{self.name}: {len(wrong)} bytes from {wrong[0]} on are wrong after {frame.hex()}")
        self._poll(frame)

    def _for_connection(self, host: int, f: Fields | None) -> Fields | None:
        """The fields if they are those of a frame for the living connection."""
        if f is None or f["dst"] not in self.addresses[host] or f["src"] != self.addresses[1 - host][0]:
            return None
        return f if f["kind"] != "ptm" and f["qpn"] == self.ends[host].qp.qp_num else None

    def _expect(self, host: int, f: Fields | None) -> None:
        """Tells the model of a frame for the living connection."""
        end = self.ends[host]
        if f is None:
            return
        if f["kind"] == "data" and (end.qp.state is QPState.RTS or end.receiver.refused is not None):
            before = end.receiver.delivered
            end.receiver.take(f)
            self.totals["bytes delivered"] += end.receiver.delivered - before
        elif f["kind"] == "ack" and end.qp.state is QPState.RTS:
            end.sender.take(f)

    def _poll(self, frame: bytes) -> None:
        for host, cq in enumerate((self.pair.cq_a, self.pair.cq_b)):
            end = self.ends[host]
            for wc in cq.poll(256):
                if wc.opcode is WCOpcode.RECV_RDMA_WITH_IMM:
                    expected = end.receiver.reports.pop(0) if end.receiver.reports else None
                    if (wc.imm_data, wc.byte_len) != expected:
                        raise Finding(f"{self.name}: immediate {wc} and not {expected} after {frame.hex()}")
                    self.totals["immediates"] += 1
                else:
                    self._completed(host, wc.wr_id, wc.status, frame)
            if end.receiver.reports:
                raise Finding(f"{self.name}: immediates {end.receiver.reports} are missing after {frame.hex()}")

    def _completed(self, host: int, wr_id: int, status: WCStatus, frame: bytes) -> None:
        """A work request has completed: in its turn, and not without what it takes."""
        end, there = self.ends[host], self.ends[1 - host].receiver
        number, first, behind = end.posted.popleft()
        self.totals[f"completions {status.name}"] += 1
        if number != wr_id:
            raise Finding(f"{self.name}: request {wr_id} completed before {number}")
        if status is not WCStatus.SUCCESS:
            return
        unsaid = [seq for seq in range(first, behind) if seq not in end.sender.claimed]
        if unsaid:
            raise Finding(f"{self.name}: {wr_id} completed, nobody acknowledged {unsaid}; after {frame.hex()}")
        missing = [seq for seq in range(first, behind) if seq >= there.expected and seq not in there.held]
        if missing and not self.tainted:
            raise Finding(f"{self.name}: {wr_id} completed, {missing} never arrived; after {frame.hex()}")

    # -- now and then ---------------------------------------------------------------------------------------

    def _look(self) -> None:
        """State is consistent, and what shows it works."""
        try:
            check(self.pair)
        except AssertionError as error:
            raise Finding(f"{self.name}: state is broken: {error}") from error
        for context, qp in ((self.pair.a, self.pair.qp_a), (self.pair.b, self.pair.qp_b)):
            json.dumps([qp.stats(), context.stats(), qp.probed(), qp.current_path])
        if self.rng.random() < 0.1:
            self.pair.qp_a.probe()
        if self.rng.random() < 0.05 and self.pair.qp_a.state is QPState.RTS:
            self.pair.qp_a.set_path(candidates=_PATHS, now_ps=self.now)

    def _renew(self) -> None:
        """Another connection in the same rows, when this one has failed or fallen silent, or for no reason."""
        failed = any(end.qp.state is QPState.ERR for end in self.ends)
        silent = self.now - self.quiet_since > _SILENCE and any(end.posted for end in self.ends)
        if not (failed and self.rng.random() < 0.1) and not silent and self.rng.random() > 0.002:
            return
        pair, attr = self.pair, self._attr()
        self.archive = [*self.archive, *self.rng.sample(self.pool, min(len(self.pool), 8))][-_ARCHIVE:]
        for name in QP_COUNTERS:
            if name in ("st_answers_dropped", "st_rx_refused", "st_rx_duplicates", "st_cnps", "st_ptrs"):
                self.totals[name[3:]] += sum(int(pair.hs.qp[end.qp.index][name]) for end in self.ends)
        pair.qp_a.close()
        pair.qp_b.close()
        if self.rng.random() < 0.5:
            self.landing[1].close()
            self.landing[1] = pair.mr_b = MR(pair.pd_b, _MEMORY, _BOTH, addr=self.landing[1].addr)
            self.allowed[1] = [_allowed(pair.mr_b)]
        pair.qp_a, pair.qp_b = QP(pair.pd_a, pair.cq_a, attr), QP(pair.pd_b, pair.cq_b, attr)
        pair.qp_a.connect(pair.qp_b.endpoint, candidates=_PATHS)
        pair.qp_b.connect(pair.qp_a.endpoint)
        self._begin()


def _allowed(region: MR) -> Allowed:
    return Allowed(region.rkey, region.addr, region.length, True)


def _address(hs: Any, host: int) -> tuple[bytes, bytes]:
    """A host's address and the one that it has behind a uSID list."""
    h = hs.host[host]
    words = [(h["addr_hi"], h["addr_lo"]), (h["usid_hi"], h["usid_lo"])]
    address, usid = (b"".join(int(word).to_bytes(8, "big", signed=True) for word in pair) for pair in words)
    return address, usid
