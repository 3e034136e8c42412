# SPDX-License-Identifier: Apache-2.0
"""The threads that execute the nodes of a divided fabric side by side (`detour.engine.loop.windows`).

Each worker has globals of its own, with its own slots, and a range of the nodes in the order of their switches: groups
and pods stay together. Ranges are cut anew from time to time so that each has the same share of the events so far.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.engine.division import Division, ends_of_channels
from detour.engine.loop import entry, layout
from detour.engine.loop.memory import Memory, zeros
from detour.engine.wiring import Wiring

_MAILS = 1 << 18
"""frames that a worker may send another one in a window: 16,384 hosts at 100 Gb/s send 100,000 in 1 us, if half of
their ways lead there; memory is not taken before it is used"""
_OFTEN = 64
"""slices after which nodes are divided anew"""
_OWN = (
    *("worker", "slots_own", "fresh", "slots_end", "free", "used", "used_peak", "pool_drops"),
    *("phv_fresh", "phvs_end", "phv_free"),
    *("events", "scratch", "system", "begin_0", "end_0", "begin_1", "end_1"),
    *("known_until", "first_arrival", "round", "waited_ns"),
)
"""globals that each worker has for itself"""
_SHARED = [name for name in layout.LoopGlobals.dtype.names or () if name not in _OWN]


def shares(cost: Int64Array, workers: int) -> Int64Array:
    """(nodes,) worker of each node: ranges in order, with about the same part of the `cost` (nodes,) each. The node in
    which a part ends belongs to the worker that gets more than half of it."""
    after = np.cumsum(np.maximum(cost, 1))
    return ((after - np.maximum(cost, 1) / 2) * workers // after[-1]).astype(np.int64)


def ranges(nodes: Int64Array, worker: Int64Array, workers: int) -> tuple[Int64Array, Int64Array]:
    """(workers,) begin and end of each one's range: of `nodes` (rising) it has those that `worker` (nodes,) says and no
    others. A worker without any has an empty one."""
    ends = np.append(0, nodes + 1)[np.searchsorted(worker, np.arange(workers), side="right")]
    return np.append(0, ends[:-1]), ends


class Workers:
    """As many threads as `memory` has globals for. The caller's waits, so that an interrupt reaches it at any time."""

    def __init__(self, memory: Memory, wiring: Wiring) -> None:
        self._memory, self._wiring = memory, wiring
        self.count = count = len(memory.globals)
        self.division: Division | None = None
        """how the fabric is divided, None: it is not, and one thread executes all"""
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="loop")
        self._mails = zeros(2 * count * count * _MAILS, layout.MailRecord.dtype).reshape(-1, _MAILS)
        self._mailboxes = zeros(len(self._mails), layout.MailboxRecord.dtype)
        self._mailboxes["mails"] = self._mails.ctypes.data + np.arange(len(self._mails)) * self._mails.strides[0]
        self._mailboxes["room"] = _MAILS
        self._progress = zeros(2 * count, layout.ProgressRecord.dtype)
        self._barrier = zeros(1, layout.ProgressRecord.dtype)
        self._stacks: list[list[int]] = []
        self._assigned: Division | None = None
        self._settled = -1
        self._slices = 0
        memory.globals["worker"] = np.arange(count)
        for name in ("mailboxes", "progress", "barrier"):
            memory.g[name] = getattr(self, f"_{name}").ctypes.data

    @property
    def waited_s(self) -> float:
        """Time that all threads have waited for each other."""
        return float(self._memory.globals["waited_ns"].sum()) / 1e9

    def add_stacks(self, records: list[int]) -> None:
        """Addresses of records of a stack that has one for each worker; hosts are attached with the first one."""
        self._stacks.append(records)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    def run(self, until: int, budget: int) -> int:
        """Execute events up to `until` ps or about `budget` of them a worker; say why it stopped (`loop.layout`).

        Raises:
            DetourError: there are no more packets.
        """
        memory = self._memory
        address = memory.address  # with every entity in its node
        self._assign(memory.settled)
        if self.division is None:
            return entry.run_slice(address, until, budget)
        why = self._run_all(address, until, budget * self.count)
        if why == layout.POOL_EMPTY:
            raise DetourError(
                f"the packet pool is exhausted ({int(memory.g['slots_own'])} packets), or {_MAILS} packets have passed"
                " from thread to thread in a window: use a larger pool, or one thread"
            )
        return why

    def _run_all(self, address: int, until: int, budget: int) -> int:
        """Let all workers execute their parts, which ends for all at the same window; what all return."""
        memory, size = self._memory, layout.LoopGlobals.dtype.itemsize
        memory.g["workers"] = self.count
        for name in _SHARED:
            memory.globals[name][1:] = memory.g[name]
        parts: list[Future[int]] = []

        def begin() -> None:
            while len(parts) < self.count:
                worker = address + len(parts) * size
                parts.append(self._threads.submit(entry.run_slice, worker, until, budget))

        try:
            begin()
            return {part.result() for part in parts}.pop()
        except BaseException:
            memory.g["wake"] = 1
            begin()  # those that have begun wait for the others
            wait(parts)  # nobody may touch the tables before that
            raise
        finally:
            memory.g["workers"] = 1

    def _assign(self, settled: int) -> None:
        """Divide the nodes among the workers if they have changed, or from time to time."""
        self._slices += 1
        often = self._slices & (self._slices - 1) == 0 or self._slices % _OFTEN == 0
        changed = settled != self._settled or self.division is not self._assigned
        self._settled, self._assigned = settled, self.division
        if self.division is not None and (changed or often):
            self._cut(self.division)
        elif changed:
            self._memory.table("channels")["mailbox"] = 0
            for side in "01":
                self._memory.g[f"begin_{side}"], self._memory.g[f"end_{side}"] = 0, self._memory.g["node_count"]

    def _cut(self, division: Division) -> None:
        memory = self._memory
        worker = np.zeros_like(division.side)
        for side in (0, 1):
            (ours,) = np.nonzero(division.side == side)
            if len(ours):
                worker[ours] = shares(memory.column("nodes", "events")[ours], self.count)
            memory.globals[f"begin_{side}"], memory.globals[f"end_{side}"] = ranges(ours, worker[ours], self.count)
        sender, receiver = (worker[nodes] for nodes in ends_of_channels(self._wiring, division.of_switch))
        channels = memory.table("channels")[: len(receiver)]
        channels["mailbox"] = np.where(sender == receiver, 0, receiver + 1)
        nics = memory.table("nics")[: memory.count("nics")]
        of_nic = sender[nics["channel"]]
        for records in self._stacks:
            ours = np.isin(nics["stack"], records)
            nics["stack"][ours] = np.array(records)[of_nic[ours]]
