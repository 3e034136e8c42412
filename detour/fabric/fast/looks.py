# SPDX-License-Identifier: Apache-2.0
"""A look, between two slices of the loop: who has become busy or idle is noted, jumps end and begin."""

from __future__ import annotations

from detour.base.jit import inner
from detour.base.native import Part
from detour.engine.loop.suspension import loop_at
from detour.fabric.fast import carried, ends, fluid, jumps, memory, partitions, steadiness
from detour.fabric.fast.records import ASLEEP, AWAKE, FREE, NONE, State, flow_row, part_row, state_at
from detour.hosts import suspension
from detour.hosts.rows import host_row, qp_row
from detour.hosts.state import MAX_TIME, hosts_at

FAST = Part("fast", __name__)

_GUARD = 32
"""packets that a message has left at least after a jump, beside as many as are in flight"""
_WORTH = 6
"""looks that a jump is long at least"""
_ATTEMPTS = 3


@FAST.entry
def observe(state: int) -> int:
    """Note what connections have, and who has become busy or idle; return how many have become busy whose links are
    not known."""
    s = state_at(state, 0)
    hs, unknown = hosts_at(s.hosts, 0), 0
    for flow in range(s.count):
        f = flow_row(s, flow)
        if f.part != NONE and part_row(s, f.part).state == ASLEEP:
            continue
        q = qp_row(hs, f.sender)
        is_busy = 1 if q.snd_una < q.snd_end else 0
        f.changed = 1 if is_busy != f.busy else 0
        f.busy = is_busy
        if is_busy:
            jumps.observe(s, hs, flow)
            if f.first_hop == NONE:
                unknown += 1
    return unknown


@FAST.entry
def act(state: int) -> int:
    """End jumps whose time has come, let connections join and leave, and begin jumps; return when to look next."""
    s = state_at(state, 0)
    now = loop_at(s.loop).now
    for p in range(s.most):
        part = part_row(s, p)
        if part.state != ASLEEP or part.until_ps > now:
            continue
        if part.covers != 0:
            ends.act(s, p)
        elif not jumps.go_on(s, p):
            jumps.wake(s, p)
    for flow in range(s.count):
        f = flow_row(s, flow)
        if f.changed != 0:
            f.changed = 0
            if f.busy == 0:
                partitions.end(s, flow)
            elif not ends.join(s, flow):
                partitions.begin(s, flow)
    for p in range(s.most):
        if part_row(s, p).state == ASLEEP and part_row(s, p).covers != 0:
            ends.check(s, p)
    for p in range(s.most):
        if part_row(s, p).state == AWAKE:
            _try(s, p)
    s.look += 1
    return _next(s, now)


@inner
def _try(s: State, p: int) -> None:
    """Suspend a partition that is steady, or as it was when it last was, if that is worth it."""
    part = part_row(s, p)
    if flow_row(s, part.first).hops == 0 or part.refused >= _ATTEMPTS:
        return
    if s.fluid != 0 and _suspend_fluid(s, p):
        return
    most = memory.recall(s, p)
    looked = memory.TEST
    is_carried = False
    if most < _WORTH * s.every_ps:
        most = carried.take(s, p)
        is_carried = most >= _WORTH * s.every_ps
        if is_carried and s.covers != 0:
            ends.begin(s, p)
            return
    if most < _WORTH * s.every_ps:
        if not steadiness.is_steady(s, p):
            return
        most = steadiness.find_rates(s, p)
        if most < 0:
            return
        memory.keep(s, p, most)
        looked = part.half
    hs, jump, flow = hosts_at(s.hosts, 0), float(most), part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        spare = suspension.unsent(hs, f.sender) - qp_row(hs, f.sender).inflight - _GUARD
        jump = min(jump, spare / f.rate)
        flow = f.next
    looks = int(jump / s.every_ps)
    if looks >= _WORTH:
        if not is_carried:
            memory.spend(s, p, looks * s.every_ps)
        part.fluid_ps = NONE
        jumps.suspend(s, p, looks * s.every_ps)
    else:
        part.since += looked


@inner
def _suspend_fluid(s: State, p: int) -> bool:
    """Suspend a partition of senders whose own rates limit them, if that is worth it."""
    hs, part, flow = hosts_at(s.hosts, 0), part_row(s, p), part_row(s, p).first
    if s.error < fluid.BOUND or part.flows == 1 or not fluid.is_settled(s, hs, p):
        return False
    for _ in range(part.flows):
        f = flow_row(s, flow)
        f.spare = suspension.unsent(hs, f.sender) - qp_row(hs, f.sender).inflight - _GUARD
        f.gained = 0.0
        flow = f.next
    looks = fluid.looks_left(s, p)
    if looks < _WORTH:
        return False
    part.fluid_ps = 0
    jumps.suspend(s, p, looks * s.every_ps)
    return True


@inner
def _next(s: State, now: int) -> int:
    """The time of the next look: at a multiple of the time between looks."""
    if s.awake > 0:
        return now + s.every_ps
    hs, due = hosts_at(s.hosts, 0), MAX_TIME // 2
    for p in range(s.most):
        if part_row(s, p).state == ASLEEP:
            due = min(due, part_row(s, p).until_ps)
    for host in range(s.host_count):
        due = min(due, host_row(hs, host).events_when)
    return max(now + s.every_ps, -(-due // s.every_ps) * s.every_ps)


@FAST.entry
def wake_all(state: int) -> None:
    """End all jumps."""
    s = state_at(state, 0)
    for p in range(s.most):
        if part_row(s, p).state == ASLEEP:
            jumps.wake(s, p)


@FAST.entry
def count_all(state: int) -> None:
    """Links count what suspended partitions have sent so far."""
    s = state_at(state, 0)
    for p in range(s.most):
        if part_row(s, p).state == ASLEEP:
            jumps.count(s, p)


@FAST.entry
def dissolve_all(state: int) -> None:
    """There are no partitions, the links of connections are not known, and nothing is remembered; nothing is
    suspended."""
    s = state_at(state, 0)
    for p in range(s.most):
        if part_row(s, p).state != FREE:
            partitions.dissolve(s, p)
    for flow in range(s.count):
        f = flow_row(s, flow)
        f.first_hop = NONE
        f.busy = 0
        memory.forget(s, flow)
        carried.forget(s, flow)
