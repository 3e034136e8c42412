# SPDX-License-Identifier: Apache-2.0
"""Tasks of a host: computations that take time and messages that are posted, each when its time has come.

Everything that happens to a task happens at its host, when its event queue says so, and native: a fabric of a hundred
thousand messages that wait for each other stops for none of them.

A unit that is slowed by communication kernels (`records.Unit`) reaches an amount of work later than at full rate, never
sooner. So an event comes when it would be reached at full rate; if it is not, the next one comes after what is left.

A message takes one of the lanes of its two hosts: in a round the next one that is idle, else the one that has least
before it. If even that one's send queue is full it waits in the lane.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.hosts import event_queue, leases, state
from detour.hosts.records import RdmaHost, Task, TaskLane, Unit
from detour.hosts.rows import cfg_row, host_row, lane_row, qp_row, task_row, unit_row
from detour.hosts.state import NIL, Handle
from detour.hosts.transport import queues

# Constants of arguments have one type each, see `base.jit.inner`.
_BEGIN, _DONE, _NOTHING, _FLAGS = int64(state.ON_BEGIN), int64(state.ON_DONE), int64(0), int64(state.WQE_TASK)


@inner
def perform(hs: Handle, host: int, now: int) -> None:
    """Do all that is due."""
    h = host_row(hs, host)
    while h.events_when <= now:
        number = event_queue.pop(hs, h)
        task = task_row(hs, number)
        if task.state == state.TASK_READY:
            _get_ready(hs, h, task, number, now)
        elif task.state == state.TASK_BOOKED:
            if not _is_early(hs, h, task, number, now):
                _begin(hs, h, task, number, now)
        elif task.state == state.TASK_COMPUTING:
            if not _is_early(hs, h, task, number, now):
                _computed(hs, h, task, number, now)
        elif task.state == state.TASK_QUEUED:
            _post(hs, task, number, now)


@inner
def _get_ready(hs: Handle, h: RdmaHost, task: Task, number: int, now: int) -> None:
    """The task waits for nothing but the unit that computes it, one thing at a time."""
    if task.unit == NIL or task.compute == 0:
        _begin(hs, h, task, number, now)
        return
    unit = unit_row(hs, task.unit)
    task.due = max(_work(unit, now), unit.busy_until)
    unit.busy_until = task.due + task.compute
    task.state = state.TASK_BOOKED
    if not _is_early(hs, h, task, number, now):
        _begin(hs, h, task, number, now)


@inner
def _work(unit: Unit, now: int) -> int:
    """The unit's work by now."""
    passed = now - unit.at
    return unit.work + passed - passed * unit.slowed // state.FULL_RATE


@inner
def _is_early(hs: Handle, h: RdmaHost, task: Task, number: int, now: int) -> bool:
    """Return whether the task's unit has not done the work that the task waits for, and come back if so."""
    if task.unit == NIL:
        return False
    left = task.due - _work(unit_row(hs, task.unit), now)
    if left <= 0:
        return False
    event_queue.push(hs, h, now + left, number)
    return True


@inner
def _slow(unit: Unit, slows: int, now: int) -> None:
    """A communication kernel begins or ends; several take no more than one."""
    unit.work = _work(unit, now)
    unit.at = now
    unit.kernels += 1 if slows > 0 else -1
    unit.slowed = abs(slows) if unit.kernels > 0 else 0


@inner
def _begin(hs: Handle, h: RdmaHost, task: Task, number: int, now: int) -> None:
    task.began = now
    if task.slows != 0:
        _slow(unit_row(hs, task.unit), task.slows, now)
    event_queue.successors_of(hs, task, _BEGIN, now)
    if task.compute > 0:
        task.state = state.TASK_COMPUTING
        task.due += task.compute
        event_queue.push(hs, h, now + task.compute, number)
    else:
        _computed(hs, h, task, number, now)


@inner
def _computed(hs: Handle, h: RdmaHost, task: Task, number: int, now: int) -> None:
    if task.bytes > 0:
        task.sent = now
        task.on = _choose(hs, task)
        _post(hs, task, number, now)
        return
    task.done = now
    task.acked = now
    task.state = state.TASK_OVER
    h.tasks_left -= 1
    event_queue.successors_of(hs, task, _DONE, now)


@inner
def _choose(hs: Handle, task: Task) -> int:
    """The lane for a message."""
    first = lane_row(hs, task.lane)
    best, least = task.lane, int64(1 << 62)
    for k in range(task.lanes):
        at = task.lane + (first.turn + k) % task.lanes
        lane = lane_row(hs, at)
        before = _queued(hs, lane) + lane.waiting
        if before < least:
            best, least = at, before
            if before == 0:
                break
    if task.lanes > 1:
        first.turn = (best - task.lane + 1) % task.lanes
    return best


@inner
def _post(hs: Handle, task: Task, number: int, now: int) -> None:
    """Post a message, or let it wait behind those that wait already."""
    lane = lane_row(hs, task.on)
    full = (task.state != state.TASK_QUEUED and lane.waiting > 0) or _queued(hs, lane) >= cfg_row(hs).sq_depth
    if full:
        _wait(hs, task, lane, number)
        return
    task.state = state.TASK_SENT
    i, rkey = leases.sender_of(hs, task.on, now), int64(lane.rkey)
    refused = i == NIL or queues.post_write(hs, i, number, _NOTHING, _NOTHING, rkey, task.bytes, _FLAGS, _NOTHING, now)
    if refused:
        task.state = state.TASK_FAILED


@inner
def _queued(hs: Handle, lane: TaskLane) -> int:
    """Messages in a lane's send queue."""
    if lane.qp == NIL:
        return int64(0)
    q = qp_row(hs, int64(lane.qp))
    return q.sq_end - q.sq_una


@inner
def _wait(hs: Handle, task: Task, lane: TaskLane, number: int) -> None:
    task.next = NIL
    if lane.tail == NIL:
        lane.head = number
    else:
        task_row(hs, int64(lane.tail)).next = number
    lane.tail = number
    lane.waiting += 1
