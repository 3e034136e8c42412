# SPDX-License-Identifier: Apache-2.0
"""Event queues: for each host a binary heap of tasks and when something is to happen to them.

A host's heap is a part of one table, as long as the number of its tasks, each of which is in it once at most. Of the
same time the task of the lowest number comes first, whatever came into the heap first.

Here is also what a task that is over, for its source or for its destination, means to those that wait for it
(`successors_of`): it needs no more than rows, so that both halves of a transport can tell it. What is due is done in
`tasks`.
"""

from __future__ import annotations

from detour.base.heap import HeapEntry, make_heap
from detour.base.jit import inner, int64
from detour.hosts import state
from detour.hosts.records import QueuePair, RdmaHost, Task
from detour.hosts.rows import cfg_row, event_row, host_row, lane_row, successor_row, task_row, wqe_row
from detour.hosts.state import MAX_TIME, NIL, Handle


@inner(forceinline=True)
def _entry(hs: Handle, first: int, k: int) -> HeapEntry:
    return event_row(hs, first + k)


@inner(forceinline=True)
def _moved(hs: Handle, task: int, k: int, when: int) -> None:
    pass


_up, _, _remove = make_heap(_entry, _moved, ways=2, total=True)


@inner
def push(hs: Handle, h: RdmaHost, when: int, task: int) -> None:
    """Something happens to a task of host `h` at that time."""
    h.events_size += 1
    _up(hs, h.events_at, h.events_size - 1, when, task)
    h.events_when = event_row(hs, h.events_at).time


@inner
def pop(hs: Handle, h: RdmaHost) -> int:
    """Remove the first entry, of which there must be one; return its task."""
    task = event_row(hs, h.events_at).who
    h.events_size -= 1
    _remove(hs, h.events_at, h.events_size, int64(0))
    h.events_when = event_row(hs, h.events_at).time if h.events_size else MAX_TIME
    return task


@inner
def successors_of(hs: Handle, task: Task, on: int, now: int) -> None:
    """Whoever waits for `on` of a task waits for one thing less; who waits for nothing more enters its host's queue."""
    for k in range(task.first, task.last):
        edge = successor_row(hs, k)
        if edge.on != on:
            continue
        later = task_row(hs, edge.task)
        later.open -= 1
        if later.open == 0:
            later.state = state.TASK_READY
            later.ready = max(now, later.start)
            push(hs, host_row(hs, later.host), later.ready, edge.task)


@inner
def delivered(hs: Handle, q: QueuePair, now: int) -> None:
    """The last byte of the next message of lane `q.tasks_of` - 1 is in memory: of a task, unless somebody else posted
    it."""
    sender = int64(lane_row(hs, q.tasks_of - 1).qp)  # it has its row until it knows
    w = wqe_row(hs, sender, q.rcv_msn & (cfg_row(hs).sq_depth - 1))
    if not w.flags & state.WQE_TASK:
        return
    task = task_row(hs, w.wr_id)
    task.done = now
    host_row(hs, q.host).tasks_left -= 1  # not the sender's, which another thread may run
    successors_of(hs, task, state.ON_DONE, now)


@inner
def acknowledged(hs: Handle, number: int, status: int, now: int) -> None:
    """The sender's work request of a task is complete, or it failed: its lane has room for one that waits."""
    task = task_row(hs, number)
    lane = lane_row(hs, task.on)
    if status != state.WC_SUCCESS:
        task.state = state.TASK_FAILED
    else:
        task.state = state.TASK_OVER
        task.acked = now
        successors_of(hs, task, state.ON_ACKED, now)
    waiting = int64(lane.head)
    if waiting != NIL:
        later = task_row(hs, waiting)
        lane.head = later.next
        if lane.head == NIL:
            lane.tail = NIL
        lane.waiting -= 1
        later.state = state.TASK_QUEUED
        push(hs, host_row(hs, later.host), now, waiting)
