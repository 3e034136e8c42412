# SPDX-License-Identifier: Apache-2.0
"""Target `traced`: random packets through programs of the corpus on random state, once as it is and once with tracing
on (of all packets, or of those of some ports only). Frames, their times, registers, counters and meters must agree, and
the leaves of the traces are the frames that came out."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import numpy as np

from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.engine.trace.filters import parse_filter
from detour.engine.trace.recorder import Recorder
from detour.engine.trace.tree import Output, Visit
from tests.fuzz import seeds
from tests.fuzz.board import Board
from tests.fuzz.budget import Budget, Finding

_FRAMES = 200
_PORTS = range(1, 9)
_GAP_PS = 1_000_000
_FILTERS = ("", "port 1 or port 3", "not ip", "bytes 60 or port 2")
_RING_BYTES = 1 << 26
_LONGEST = 3_000
_ADDRESSES = ("_sw",)
"""fields of tables that hold where something lies"""

Sent = list[tuple[int, int, bytes]]
"""(time in ps, port, frame)"""


def run(board: Board, seed: int, budget: Budget) -> dict[str, Any]:
    """Tries programs until the budget is used up; returns what happened."""
    names = [seeds.FABRIC, *seeds.corpus()]
    random.Random(seed).shuffle(names)
    totals = {"packets": 0, "programs": 0, "traced": 0, "sent": 0}
    for number in budget.rounds(lambda: totals["packets"]):
        name = names[number % len(names)]
        board.note(program=name, seed=seed, round=number)
        _round(name, f"{seed} {number}", totals)
        board.beat()
        totals["packets"] += _FRAMES
        totals["programs"] += 1
    return totals


def _round(name: str, key: str, totals: dict[str, int]) -> None:
    rng = random.Random(f"frames {key}")
    frames = _frames(seeds.make(name, random.Random(key)).packets, rng)
    condition = rng.choice(_FILTERS)
    plain, plain_state, _ = _through(name, key, frames, None)
    traced, traced_state, visits = _through(name, key, frames, condition)
    if traced != plain:
        raise Finding(f"{name}: with tracing of {condition!r} other frames come out")
    for part, before in plain_state.items():
        if not np.array_equal(before, traced_state[part]):
            raise Finding(f"{name}: with tracing of {condition!r} {part} is another one")
    _compare_leaves(name, condition, plain, visits)
    totals["traced"] += len(visits)
    totals["sent"] += len(plain)


def _frames(packets: list[bytes], rng: random.Random) -> list[tuple[int, bytes]]:
    """Packets with bytes changed, cut or added, each with the port by which it comes."""
    frames = []
    for _ in range(_FRAMES):
        data = bytearray(rng.choice(packets))
        for _ in range(rng.choice((0, 0, 1, 3))):
            data[rng.randrange(len(data))] = rng.getrandbits(8)
        how = rng.random()
        if how < 0.1:
            data = data[: rng.randrange(1, len(data) + 1)]
        elif how < 0.15:
            data = (data + rng.randbytes(rng.randrange(1, _LONGEST)))[:_LONGEST]
        frames.append((rng.choice(_PORTS), bytes(data)))
    return frames


def _through(
    name: str, key: str, frames: list[tuple[int, bytes]], condition: str | None
) -> tuple[Sent, dict[str, np.ndarray], list[Visit]]:
    """What comes out of a switch, what its state is then, and the traces. `wanted`: a filter; None: without tracing."""
    subject = seeds.make(name, random.Random(key))
    sent: Sent = []
    visits: list[Visit] = []
    with Network(Virtual(divide=False), packets=1 << 12) as network:
        network.add_switch(1, priorities=8, cpu_port=0)
        for port in range(511):
            network.attach_sink((1, port), lambda data, at, port=port: sent.append((at, port, bytes(data))))
        network.set_pipeline(1, subject.program, subject.state)
        for number, (port, data) in enumerate(frames, 1):
            network.inject((1, port), data, number * _GAP_PS)
        end = (len(frames) + 200) * _GAP_PS
        if condition is None:
            network.run(end)
        else:
            with Recorder(network, parse_filter(condition), ring_bytes=_RING_BYTES) as recorder:
                network.run(end)
                visits = recorder.collect()
                recorder.finish()
            if recorder.ring.missed:
                raise Finding(f"{name}: {recorder.ring.missed} packets were not traced")
    return sorted(sent), _state(subject.state), visits


def _state(state: Any) -> dict[str, np.ndarray]:
    """All registers, counters and meters, those of tables as well."""
    copies = {}
    kinds = {"register": state.registers, "counter": state.counters, "meter": state.meters, "table": state.tables}
    for kind, arrays in kinds.items():
        for name, each in arrays.items():
            for field, value in _fields(each):
                copies[f"{kind} {name}, {field}"] = value.copy()
    return copies


def _fields(thing: Any) -> list[tuple[str, np.ndarray]]:
    names = getattr(thing, "__dict__", {}).keys()
    values = [(name, getattr(thing, name)) for name in names if name not in _ADDRESSES]
    return [(name, value) for name, value in values if isinstance(value, np.ndarray)]


def _compare_leaves(name: str, condition: str, sent: Sent, visits: list[Visit]) -> None:
    """Frames of traces are among those that came out; of all packets they are those. Their text is their document."""
    out = Counter((port, frame) for _, port, frame in sent)
    leaves = Counter(
        (leaf.outcome.port, leaf.outcome.frame)
        for visit in visits
        for _, leaf in visit.tree.leaves()
        if isinstance(leaf.outcome, Output) and leaf.outcome.frame
    )
    if any(visit.tree.json() != json.dumps(visit.tree.as_json()) for visit in visits):
        raise Finding(f"{name}: the text of a trace is not its document")
    if leaves - out:
        raise Finding(f"{name}: a trace of {condition!r} ends in a frame that did not come out")
    if not condition and +out != leaves and not any(visit.tree.fork for visit in visits):
        raise Finding(f"{name}: frames came out that no trace ends in")
