# SPDX-License-Identifier: Apache-2.0
"""Hosts and what they share among their queue pairs: memory regions, completion queues, rows of tables."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from detour.base.errors import DetourError
from detour.hosts import rdma, state
from detour.hosts.addresses import to_text
from detour.hosts.records import HOST_COUNTERS
from detour.hosts.state import FIRST_QPN, Hosts
from detour.hosts.verbs.types import SGE, WC, AccessFlag, WCOpcode, WCStatus

T = TypeVar("T")


def qp_numbers(hs: Hosts, rows: Any) -> Any:
    """Numbers on the wire of rows of the table of QPs: the row in the low bits, its generation above. So a frame of an
    earlier connection names a QP that is none any more, at either end (docs/transports-reference.md)."""
    return FIRST_QPN + rows + hs.qp["generation"][rows] * (hs.cfg[0]["qpn_mask"] + 1)


def next_key(hs: Hosts, index: int, draw: int) -> int:
    """Key of the next registration in row `index` of the table of memory regions; `draw` is 0 to 255. 32 bits: the
    number of registrations, the row, a byte that is random at first. No key comes again before all others of the row
    have been used, at least 512."""
    r = hs.mr[index]
    if r["registrations"] == 0:
        r["variation"] = draw
    bits = int(hs.cfg[0]["mr_mask"]).bit_length()
    count, high = int(r["registrations"]), 24 - bits
    r["registrations"] += 1
    low = (int(r["variation"]) + (count >> high)) & 0xFF
    return (count & ((1 << high) - 1)) << (8 + bits) | index << 8 | low


class Device:
    """The hosts of a process: who runs them, and what of arena and tables is free."""

    def __init__(
        self,
        hs: Hosts,
        call: Callable[[Callable[[], Any]], Any] | None = None,
        kick: Callable[[int], None] | None = None,
        now: Callable[[], int] | None = None,
    ) -> None:
        """`call(function)` runs a function where `hs` may be changed and returns its result (default: at once, in
        this thread). `kick(host)` says that a host may have something to send. `now()` is the hosts' time in ps
        (default: that of the last call of any of them)."""
        self.hs = hs
        self._call = call
        self._kick = kick
        self._now = now or (lambda: int(hs.host["now"].max()))
        self._free = [(0, int(hs.cfg[0]["arena_bytes"]))]
        self._free_qps = deque(range(len(hs.qp)))
        self._resting: dict[int, int] = {}
        self.generations = ((1 << 24) - 2 * FIRST_QPN) // (int(hs.cfg[0]["qpn_mask"]) + 1)
        """QP numbers of a row of the table. 0xFFFFFF, the multicast QP, is none of them"""
        self._free_mrs = deque(range(len(hs.mr)))
        self._free_cqs = deque(range(len(hs.cq)))
        self.rooms: dict[int, tuple[PD, CQ, MR]] = {}
        """what `bulk` made, by host"""

    def call(self, function: Callable[[], T]) -> T:
        """Run `function` where state may be changed."""
        return function() if self._call is None else self._call(function)

    def kick(self, host: int) -> None:
        """Host `host` may have something to send."""
        if self._kick is not None:
            self._kick(host)

    def allocate(self, length: int) -> int:
        """Address of `length` free bytes of the arena, on a 64-byte boundary."""
        size = -(-length // 64) * 64
        for place, (start, room) in enumerate(self._free):
            if room >= size:
                self._free[place : place + 1] = [(start + size, room - size)] if room > size else []
                return start
        room = sum(room for _, room in self._free)
        raise DetourError(f"no contiguous {length} bytes in the arena of host memory ({room} bytes are free)")

    def release(self, start: int, length: int) -> None:
        """Give a range of the arena back."""
        self._free.append((start, -(-length // 64) * 64))
        merged: list[tuple[int, int]] = []
        for begin, room in sorted(self._free):
            if merged and merged[-1][0] + merged[-1][1] == begin:
                merged[-1] = (merged[-1][0], merged[-1][1] + room)
            else:
                merged.append((begin, room))
        self._free = merged

    def take(self, what: str) -> int:
        """Index of a free row of the table `qp`, `mr` or `cq`."""
        free = {"qp": self._free_qps, "mr": self._free_mrs, "cq": self._free_cqs}[what]
        resting = 0
        while resting < len(free):
            index = free.popleft()
            if what != "qp" or self._is_rested(index):
                return index
            free.append(index)
            resting += 1
        raise DetourError(
            f"all {len(getattr(self.hs, what))} rows of the table {what} are in use; make_hosts "
            f"takes the size as n_{what}s"
            + (f" ({resting} have no numbers left and rest for frame_life_ps)" if resting else "")
        )

    def give(self, what: str, index: int) -> None:
        """The row is free again; it is used as late as possible. A QP's row gets its next number, and after its last
        one rests until no frame can be under way any more that names its first ones."""
        if what == "qp":
            following = int(self.hs.qp[index]["generation"]) + 1
            self.call(lambda: assign(self.hs.qp[index], {"generation": following % self.generations}))
            if following == self.generations:
                self._resting[index] = self._now() + int(self.hs.cfg[0]["frame_life_ps"])
        {"qp": self._free_qps, "mr": self._free_mrs, "cq": self._free_cqs}[what].append(index)

    def _is_rested(self, row: int) -> bool:
        if self._resting.get(row, 0) > self._now():
            return False
        self._resting.pop(row, None)
        return True


class Context:
    """One host of a device."""

    def __init__(self, device: Device, host: int) -> None:
        if not 0 <= host < len(device.hs.host):
            raise DetourError(f"host {host} must be 0 to {len(device.hs.host) - 1}")
        self.device = device
        self.hs = device.hs
        self.host = host

    @property
    def address(self) -> str:
        """IPv6 address of the host."""
        h = self.hs.host[self.host]
        return to_text(h["addr_hi"], h["addr_lo"])

    def random(self, n: int) -> int:
        """Number below `n` from the host's generator."""
        return self.device.call(lambda: rdma.random_below(self.hs.listing, self.host, n))

    def stats(self) -> dict[str, int]:
        """The host's counters."""
        h = self.hs.host[self.host]
        return {name: int(h[name]) for name in HOST_COUNTERS}


class PD:
    """Protection domain: QPs reach memory regions of their own domain only."""

    _last = 0

    def __init__(self, context: Context) -> None:
        PD._last += 1
        self.context = context
        self.number = PD._last


class MR:
    """Memory region: `length` bytes of the arena, taken from what is free or, with `addr`, where the caller says."""

    def __init__(
        self, pd: PD, length: int, access: AccessFlag = AccessFlag.LOCAL_WRITE, addr: int | None = None
    ) -> None:
        device, arena = pd.context.device, int(pd.context.hs.cfg[0]["arena_bytes"])
        if length < 1:
            raise DetourError(f"a memory region of {length} bytes; expected at least 1")
        if addr is not None and not 0 <= addr <= arena - length:
            raise DetourError(f"memory region {addr:#x}+{length} is outside the arena of {arena} bytes")
        if access & AccessFlag.REMOTE_WRITE and not access & AccessFlag.LOCAL_WRITE:
            raise DetourError("a memory region with REMOTE_WRITE must have LOCAL_WRITE too")
        self.pd = pd
        self.length = length
        self._index = device.take("mr")
        self._own = addr is None
        try:
            self.addr = device.allocate(length) if addr is None else addr
        except DetourError:
            device.give("mr", self._index)
            raise
        hs, host = pd.context.hs, pd.context.host
        values = {"used": 1, "host": host, "pd": pd.number, "base": self.addr, "length": length, "access": int(access)}

        def register() -> int:
            key = next_key(hs, self._index, rdma.random_below(hs.listing, host, 256))
            assign(hs.mr[self._index], values | {"key": key})
            return key

        self.rkey = self.lkey = device.call(register)

    def sge(self, offset: int = 0, length: int | None = None) -> SGE:
        """Part of the region as the buffer of a work request."""
        return SGE(self.addr + offset, self.length - offset if length is None else length, self.lkey)

    def _range(self, offset: int, length: int) -> Any:
        if offset < 0 or length < 0 or offset + length > self.length:
            raise DetourError(f"bytes {offset}..{offset + length} are outside the region of {self.length} bytes")
        if not len(self.pd.context.hs.memory):
            raise DetourError("hosts that elide payload have no bytes to read or write (HostConfig.elide_payload)")
        return self.pd.context.hs.memory[self.addr + offset : self.addr + offset + length]

    def read(self, length: int | None = None, offset: int = 0) -> bytes:
        """Bytes of the region."""
        return self._range(offset, self.length - offset if length is None else length).tobytes()

    def write(self, data: bytes | bytearray | memoryview, offset: int = 0) -> None:
        """Write bytes into the region."""
        self._range(offset, len(data))[:] = np.frombuffer(data, np.uint8)

    def close(self) -> None:
        """Deregister the region and free its memory. May be called twice."""
        if self._index < 0:
            return
        device = self.pd.context.device
        device.call(lambda: assign(self.pd.context.hs.mr[self._index], {"used": 0}))
        device.give("mr", self._index)
        if self._own:
            device.release(self.addr, self.length)
        self._index = -1


class CQ:
    """Completion queue."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.index = context.device.take("cq")
        values = {"used": 1, "host": context.host, "head": 0, "tail": 0, "reserved": 0}
        context.device.call(lambda: assign(context.hs.cq[self.index], values))

    def poll(self, num_entries: int = 16) -> list[WC]:
        """Take up to `num_entries` completions (ibv_poll_cq)."""
        hs = self.context.hs
        c = hs.cq[self.index]
        head = int(c["head"])
        taken: list[WC] = []
        for at in range(head, min(int(c["tail"]), head + num_entries)):
            e = hs.cqe[self.index, at & (hs.cqe.shape[1] - 1)]
            status, opcode = WCStatus(int(e["status"])), WCOpcode(int(e["opcode"]))
            wr_id, length, qpn, posted, done = (int(e[name]) for name in ("wr_id", "length", "qpn", "posted", "done"))
            imm = int(e["imm"]) if e["flags"] & state.WC_WITH_IMM else None
            taken.append(WC(wr_id, status, opcode, length, qpn, imm, posted, done))
        c["head"] = head + len(taken)
        return taken

    def close(self) -> None:
        """Free the queue. May be called twice. Its QPs must be gone."""
        if self.index >= 0:
            self.context.device.call(lambda: assign(self.context.hs.cq[self.index], {"used": 0}))
            self.context.device.give("cq", self.index)
            self.index = -1


def assign(row: Any, values: dict[str, Any]) -> None:
    """Fields of a row of a table."""
    for name, value in values.items():
        row[name] = value
