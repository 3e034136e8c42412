# SPDX-License-Identifier: Apache-2.0
"""Workloads for other simulators: Chakra execution traces, which astra-sim runs, and GOAL schedules for LogGOPSim and
ATLAHS, as text or as what its `txt2bin` makes of them.

A message becomes a send at its source and a receive at its destination; rank k is host k. Messages of two hosts have
tags of their own, in order, so that it does not matter in which order a simulator looks for matches. Collectives are
the messages that they consist of: what is exported is what runs here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from detour.base.files import write_file
from detour.base.times import NS, US
from detour.fabric.workloads.chakra_nodes import ChakraNode, encoded_nodes
from detour.fabric.workloads.goal import CALC, COOKIE, HEAD, NODE, RECV, SEND
from detour.fabric.workloads.tasks import TaskGraph

_CPUS = 200
"""units of one's own that a schedule tells apart; the format has 256"""


@dataclass
class RankOperation:
    """An operation of a rank: `kind` of GOAL; `size` in bytes, or in ps; the rank at the other end. `after`: operations
    of the rank, by number, and whether only their beginning is waited for."""

    kind: int
    size: int
    peer: int = 0
    tag: int = 0
    unit: int = 0
    after: list[tuple[int, bool]] = field(default_factory=list)


def rank_operations(graph: TaskGraph) -> list[list[RankOperation]]:
    """List each host's operations, in the order of the tasks, up to the last one that does anything; others compute
    nothing."""
    ranks: list[list[RankOperation]] = [[] for _ in range(graph.hosts)]
    first, last, received = ([-1] * len(graph) for _ in range(3))
    tags: dict[tuple[int, int], int] = {}
    at_time: dict[tuple[int, int], list[int]] = {}

    def add(rank: int, operation: RankOperation) -> int:
        ranks[rank].append(operation)
        return len(ranks[rank]) - 1

    for task, row in enumerate(graph.tasks.tolist()):
        source, destination, size, start_ps, compute_ps, _, _, unit, _ = row
        own = unit if unit >= 0 else 1 + task % _CPUS if compute_ps else 0
        before = []
        if compute_ps or destination < 0:
            first[task] = last[task] = add(source, RankOperation(CALC, compute_ps, unit=own))
            before = [(first[task], False)]
        if destination >= 0:
            tag = tags.get((source, destination), 0)
            tags[source, destination] = tag + 1
            last[task] = add(source, RankOperation(SEND, size, destination, tag, after=before))
            first[task] = first[task] if compute_ps else last[task]
            received[task] = add(destination, RankOperation(RECV, size, source, tag))
        if start_ps:
            at_time.setdefault((source, start_ps), []).append(first[task])
    _wait_for_times(ranks, at_time)
    source = graph.tasks["source"].tolist()
    for (one, then), on_start in zip(graph.dependencies.tolist(), graph.starts.tolist(), strict=True):
        mine = source[one] == source[then]
        waited = first[one] if on_start else last[one] if mine else received[one]
        ranks[source[then]][first[then]].after.append((waited, on_start))
    while not ranks[-1]:
        ranks.pop()
    return [operations or [RankOperation(CALC, 0)] for operations in ranks]


def _wait_for_times(ranks: list[list[RankOperation]], at_time: dict[tuple[int, int], list[int]]) -> None:
    """Make operations of a rank wait for a time in ps. A unit does one thing at a time, so each wait of a rank begins
    where the one before it ends."""
    waits: dict[int, tuple[int, int]] = {}
    for (rank, start_ps), operations in sorted(at_time.items()):
        begin_ps, before = waits.get(rank, (0, -1))
        wait = RankOperation(CALC, start_ps - begin_ps, unit=1 + _CPUS, after=[(before, False)] if begin_ps else [])
        waits[rank] = start_ps, len(ranks[rank])
        for operation in operations:
            ranks[rank][operation].after.append((len(ranks[rank]), False))
        ranks[rank].append(wait)


# -- Chakra -------------------------------------------------------------------------------------------------


def write_chakra(file: Path, graph: TaskGraph) -> list[Path]:
    """`FILE.0.et`, `FILE.1.et`... of all hosts, without the ending of `file`; returns them. The format knows whole
    microseconds: each computation takes over what rounding left of those before it, so that sums are right. Nobody
    waits for a beginning there: what does waits for what that waits for. A rank that waits for the time of a task keeps
    its accelerator busy: ASTRA-sim (518bd51) aborts when the processor does it. Raises DetourError: they cannot be
    written."""
    files = []
    for rank, operations in enumerate(rank_operations(graph)):
        files.append(file.with_name(f"{file.name.removesuffix('.et')}.{rank}.et"))
        write_file(files[-1], encoded_nodes(_nodes(rank, operations)))
    return files


def _nodes(rank: int, operations: Sequence[RankOperation]) -> list[ChakraNode]:
    nodes, left_ps = [], 0
    for number, operation in enumerate(operations):
        ends, micros = _ends(operations, number), 0
        kind, attributes = "COMP_NODE", {"is_cpu_op": False, "num_ops": 0, "tensor_size": 0}
        if operation.kind == CALC:
            left_ps += operation.size
            micros = round(left_ps / US)
            left_ps -= micros * US
        else:
            sends = operation.kind == SEND
            source, destination = (rank, operation.peer) if sends else (operation.peer, rank)
            kind = "COMM_SEND_NODE" if sends else "COMM_RECV_NODE"
            attributes = {
                "is_cpu_op": False, "comm_size": operation.size, "comm_src": source, "comm_dst": destination,
                "comm_tag": operation.tag,
            }  # fmt: skip
        name = f"{kind.removesuffix('_NODE').lower()} {number}"
        nodes.append(ChakraNode(number, name, kind, tuple(dict.fromkeys(ends)), micros, attributes, number))
    return nodes


def _ends(operations: Sequence[RankOperation], number: int) -> list[int]:
    """Operations whose ends the beginning of one waits for."""
    ends, todo = [], [number]
    for each in todo:  # grows while it is gone through
        for before, on_start in operations[each].after:
            (todo if on_start else ends).append(before)
    return ends


# -- GOAL ---------------------------------------------------------------------------------------------------


def write_goal(file: Path, graph: TaskGraph, *, binary: bool = False) -> list[Path]:
    """The schedule; returns the file. The format knows whole nanoseconds. Raises DetourError: it cannot be written."""
    ranks = rank_operations(graph)
    write_file(file, goal_binary(ranks) if binary else goal_text(ranks))
    return [file]


def _size(operation: RankOperation) -> int:
    return round(operation.size / NS) if operation.kind == CALC else operation.size


def goal_text(ranks: Sequence[Sequence[RankOperation]]) -> str:
    """As LogGOPSim's `txt2bin` reads it."""
    lines = [f"num_ranks {len(ranks)}"]
    for rank, operations in enumerate(ranks):
        lines.append(f"rank {rank} {{")
        for number, one in enumerate(operations):
            ends = f"to {one.peer}" if one.kind == SEND else f"from {one.peer}"
            what = f"{'send' if one.kind == SEND else 'recv'} {one.size}b {ends} tag {one.tag} cpu 0"
            lines.append(f"l{number}: " + (f"calc {_size(one)} cpu {one.unit}" if one.kind == CALC else what))
        for number, one in enumerate(operations):
            lines += [f"l{number} {'i' * on_start}requires l{before}" for before, on_start in one.after]
        lines.append("}")
    return "\n".join(lines) + "\n"


def goal_binary(ranks: Sequence[Sequence[RankOperation]]) -> bytes:
    """As LogGOPSim's `txt2bin` writes it: offsets count from behind the cookie."""
    sections = [_section(operations) for operations in ranks]
    at = HEAD.size + 16 * len(sections)
    table = b""
    for section in sections:
        table += struct.pack("<QQ", at, at + len(section))
        at += len(section)
    cpus = max((one.unit for operations in ranks for one in operations), default=0)
    return struct.pack("<Q", COOKIE) + HEAD.pack(len(ranks), cpus, 0) + table + b"".join(sections)


def _section(operations: Sequence[RankOperation]) -> bytes:
    """A rank: how many operations, which of them wait for nothing, all of them, and who waits for each."""
    nodes = np.zeros(len(operations), NODE)
    for number, one in enumerate(operations):
        nodes[number] = (len(one.after), one.kind, one.peer, _size(one), one.tag, one.unit, 0, 0, 0, 0, 0)
    waiting: list[tuple[list[int], list[int]]] = [([], []) for _ in operations]
    for number, one in enumerate(operations):
        for before, on_start in one.after:
            waiting[before][on_start].append(number)
    at = 0
    for number, both in enumerate(waiting):
        for name, some in zip(("done", "start"), both, strict=True):
            nodes[number][f"{name}_count"], nodes[number][f"{name}_first"] = len(some), at
            at += len(some)
    roots = np.flatnonzero(nodes["waits"] == 0).astype("<u4")
    later = np.array(list(chain.from_iterable(chain.from_iterable(waiting))), "<u4")
    return struct.pack("<II", len(nodes), len(roots)) + roots.tobytes() + nodes.tobytes() + later.tobytes()
