# SPDX-License-Identifier: Apache-2.0
"""Target `pipeline`: mutated packets through compiled programs, in memory that cannot be left unnoticed.

Rounds alternate between fabric.p4 on a switch of the planner's Dragonfly D1 and a program of the corpus on random
state. A round depends on nothing but the seed and its number, so that it can be repeated alone.
"""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np

from detour.engine import phv
from detour.hosts.frames.sizes import MAX_FRAME
from tests.fuzz import seeds
from tests.fuzz.board import Board
from tests.fuzz.budget import Budget, Finding
from tests.fuzz.flight import fly
from tests.fuzz.guard import Region, guarded_state
from tests.fuzz.job import JOB, PATHS, RULES, STAGES

PACKETS_PER_ROUND = 50_000
PACKETS_PER_BATCH = 10_000
_SEEDS = 1024
_COUNTED = ("parsed", "parser_errors", "faults", "dropped", "sent", "clones", "again", "digests", "paths")


def run(board: Board, seed: int, budget: Budget) -> dict[str, Any]:
    """Sends packets until the budget is used up; returns what happened."""
    names = seeds.corpus()
    random.Random(seed).shuffle(names)
    totals: dict[str, int] = dict.fromkeys(("packets", "programs", *_COUNTED), 0)
    programs: set[str] = set()
    busy = 0.0
    for number in budget.rounds(lambda: totals["packets"]):
        name = seeds.FABRIC if number % 2 == 0 else names[number // 2 % len(names)]
        programs.add(name)
        board.note(program=name, seed=seed, round=number)
        rng = random.Random(f"{seed} {number}")
        with guarded_state():
            subject = seeds.make(name, rng)
        flight = Round(board, name, subject, rng)
        start = time.perf_counter()
        flight.run(PACKETS_PER_ROUND)
        busy += time.perf_counter() - start
        totals["packets"] += PACKETS_PER_ROUND
        for field in _COUNTED:
            totals[field] += int(board.jobs[0][field])
    totals["programs"] = len(programs)
    totals["packets_per_s"] = int(totals["packets"] / max(busy, 1e-9))
    return totals


class Round:
    """One program, one state, one sequence of packets."""

    def __init__(self, board: Board, name: str, subject: seeds.Subject, rng: random.Random) -> None:
        self._board, self.name, self._subject = board, name, subject
        board.jobs[0] = np.zeros(1, JOB)[0]
        self._rng = np.array([rng.getrandbits(64)], np.uint64)
        program = subject.program
        self._regions = {
            "packets": Region(MAX_FRAME),
            **{name: Region(program.phv_size) for name in ("phv", "other", "spare")},
            "out": Region(program.max_header_bytes),
            "digest_out": Region(program.max_digest_bytes),
        }
        self._compose = np.zeros(MAX_FRAME + program.max_header_bytes, np.uint8)
        self._checks = checks(program)
        self._seeds, self._lengths = seeds.packed_packets(subject.packets, _SEEDS)
        self._known = np.array([len(subject.packets)], np.int64)
        self._words = seeds.packed_words(subject.words)
        self._seen = np.zeros(PATHS, np.uint8)
        self._fill_job()

    def _fill_job(self) -> None:
        job, program = self._board.jobs[0], self._subject.program
        for function in ("parse", "ingress", "egress", "deparse", "preserve", "digest"):
            job[function] = getattr(program, f"{function}_addr")
        job["state"] = self._subject.state.sw
        job["phv_size"], job["max_headers"] = program.phv_size, program.max_header_bytes
        job["max_digest"], job["capacity"] = program.max_digest_bytes, MAX_FRAME
        job["errors"] = 1 + max(program.model.errors.values())
        job["compose"] = self._compose.ctypes.data

    def run(self, packets: int) -> None:
        """Sends packets, at either end of the guarded memory by turns."""
        done = 0
        while done < packets:
            count = min(packets - done, PACKETS_PER_BATCH)
            self.batch(count, rear=done // PACKETS_PER_BATCH % 2 == 0)
            done += count

    def batch(self, count: int, rear: bool) -> None:
        """Sends `count` packets; raises Finding if a rule or a canary was broken."""
        self._board.beat()
        job = self._board.jobs[0]
        job["rear"] = rear
        for name, region in self._regions.items():
            job[name] = region.use(rear).ctypes.data
        rule = fly(
            self._board.jobs.ctypes.data,
            self._board.work[:MAX_FRAME],
            self._seeds,
            self._lengths,
            self._known,
            self._words,
            self._seen,
            self._checks,
            self._rng,
            count,
        )
        if rule:
            raise Finding(f"{self.name}: {RULES[rule]} (packet {job['index']}, in {STAGES[job['stage']]})")
        for name, region in self._regions.items():
            if not region.intact():
                raise Finding(f"{self.name}: something wrote next to '{name}' before packet {job['index']}")


def checks(program: Any) -> np.ndarray:
    """What is checked of a PHV, as `flight` takes it."""
    layout, model = program.layout, program.model
    rows = [(at, 1, 1, 3) for at in layout.valid.values()]
    for stacks in (model.stacks, model.union_stacks):
        rows += [(layout.next[name], 4, len(stack.elements), 4) for name, stack in stacks.items()]
    for header in model.headers.values():
        for spec in header.type.fields:
            if spec.variable:
                rows.append((layout.place(header, spec).length, 4, spec.bits, 5))
    return np.array(rows or [(phv.FIXED_SIZE, 1, 255, 3)], np.int64)
