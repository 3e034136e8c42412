# SPDX-License-Identifier: Apache-2.0
"""Plans for libraries of collectives: MSCCL's XML, which NCCL and RCCL with MSCCL run, and JSON for everybody else.

Ranks are the servers that take part, in order of their numbers.

MSCCL knows no phases for all: each rank has a thread block for each phase in which it sends or receives, and a thread
block's steps wait for those of the one before. So a rank keeps its order, but may run ahead of others, and without a
barrier between phases two messages may share a link for a while. MSCCL does not know spines either; JSON has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from detour.base.errors import DetourError
from detour.control.edge_colouring import coloured
from detour.control.fors.paths import INSIDE
from detour.control.fors.plan import ForsPlan, UnequalPlan

_MOST_BLOCKS = 216  # MSCCL_MAX_NUM_THREAD_BLOCKS of microsoft/msccl: 108 * 2
_CHANNEL_BLOCKS = 32  # MSCCL_MAX_NUM_THREAD_BLOCKS_PER_CHANNEL: a channel has so many peers at most
_MOST_BYTES = 1 << 40  # Without it MSCCL takes an algorithm for less than 128 MB only.


def ranks_of(plan: ForsPlan) -> np.ndarray:
    """(slots,) int: each server's rank, -1 where it takes no part."""
    part = plan.fabric.taking_part()
    return np.where(part, np.cumsum(part) - 1, -1)


def schedule_json(plan: ForsPlan) -> str:
    """The plan as JSON: who sends to whom in every phase, over which spine (null inside a leaf), or over which
    aggregation switch and core of its plane."""
    ranks = ranks_of(plan)
    phases: list[list[dict[str, int | None]]] = [[] for _ in range(plan.phases)]
    over = _over(plan)
    for row, (phase, src, dst) in enumerate(
        zip(*(part.tolist() for part in (plan.phase, plan.src, plan.dst)), strict=True)
    ):
        flow = {"src": int(ranks[src]), "dst": int(ranks[dst])}
        flow |= {name: None if column[row] < 0 else int(column[row]) for name, column in over.items()}
        if isinstance(plan, UnequalPlan):
            flow["bytes"] = int(plan.sent[row])
        phases[phase].append(flow)
    head = {
        "collective": "alltoallv" if isinstance(plan, UnequalPlan) else "alltoall",
        "fabric": plan.fabric.name,
        "failed": plan.fabric.failed_names(),
        "servers": np.flatnonzero(ranks >= 0).tolist(),
    }
    lines = ",\n".join(json.dumps(part) for part in phases)
    return json.dumps(head)[:-1] + f', "phases": [\n{lines}\n]}}\n'


def _over(plan: ForsPlan) -> dict[str, np.ndarray]:
    """Return each flow's hops by their names in JSON; negative: there is none."""
    if plan.core is not None:
        return {"agg": plan.spine, "core": plan.core}
    if plan.cables is None:
        return {"spine": plan.spine}
    up, down = np.where(plan.spine == INSIDE, INSIDE, plan.cables)
    return {"spine": plan.spine, "up": up, "down": down}


def msccl(plan: ForsPlan) -> Iterator[str]:
    """Lines of an MSCCL algorithm for all-to-all, a chunk for each pair. Raises `DetourError`: more phases than MSCCL
    has thread blocks, or pairs are left out."""
    if plan.unreachable:
        raise DetourError("MSCCL's all-to-all needs every pair; this plan leaves out disconnected leaves")
    turns, blocks = _turns(plan)
    if blocks >= _MOST_BLOCKS:
        raise DetourError(
            f"MSCCL has {_MOST_BLOCKS} thread blocks per rank, but {blocks} phases need one each and one more"
        )
    ranks = ranks_of(plan)
    count = plan.fabric.servers
    channels = max(-(-blocks // _CHANNEL_BLOCKS), 1)
    peers = np.full((2, count, blocks), -1)
    peers[0, ranks[plan.src], turns] = ranks[plan.dst]
    peers[1, ranks[plan.dst], turns] = ranks[plan.src]
    yield (
        f'<algo name="fors" coll="alltoall" proto="Simple" nchannels="{channels}" nchunksperloop="{count}" '
        f'ngpus="{count}" inplace="0" outofplace="1" minBytes="0" maxBytes="{_MOST_BYTES}">'
    )
    for rank in range(count):
        yield f'  <gpu id="{rank}" i_chunks="{count}" o_chunks="{count}" s_chunks="0">'
        yield from _blocks(rank, peers[:, rank])
        yield "  </gpu>"
    yield "</algo>"


def _turns(plan: ForsPlan) -> tuple[np.ndarray, int]:
    """Phases (flows,) in which a rank sends once and receives once, and how many; where a plan's allow it more often,
    they are divided (Koenig)."""
    often = plan.fabric.at_once
    if often == 1:
        return plan.phase, plan.phases
    slots = plan.fabric.slots
    part = coloured(
        plan.phase.astype(np.int64) * slots + plan.src, plan.phase.astype(np.int64) * slots + plan.dst, often
    )
    return plan.phase * often + part, plan.phases * often


def _blocks(rank: int, peers: np.ndarray) -> Iterator[str]:
    """Thread blocks of a rank: a copy of its own part, then one for each phase in which it does something."""
    yield '    <tb id="0" send="-1" recv="-1" chan="0">'
    yield _step(0, "cpy", rank, rank, None, last=False)
    yield "    </tb>"
    before: tuple[int, int] | None = None
    busy = np.flatnonzero((peers >= 0).any(axis=0)).tolist()
    for block, phase in enumerate(busy, 1):
        to, source = peers[:, phase].tolist()
        yield f'    <tb id="{block}" send="{to}" recv="{source}" chan="{phase // _CHANNEL_BLOCKS}">'
        steps = [("s", to, rank)] if to >= 0 else []
        steps += [("r", rank, source)] if source >= 0 else []
        for number, (kind, at, there) in enumerate(steps):
            last = number == len(steps) - 1 and block < len(busy)
            yield _step(number, kind, at, there, before if number == 0 else None, last=last)
        yield "    </tb>"
        before = (block, len(steps) - 1)


def _step(number: int, kind: str, source: int, target: int, after: tuple[int, int] | None, *, last: bool) -> str:
    """`after`: thread block and step that must be over; `last`: another block waits for this step."""
    block, step = after or (-1, -1)
    return (
        f'      <step s="{number}" type="{kind}" srcbuf="i" srcoff="{source}" dstbuf="o" dstoff="{target}" cnt="1" '
        f'depid="{block}" deps="{step}" hasdep="{int(last)}"/>'
    )
