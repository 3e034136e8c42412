# SPDX-License-Identifier: Apache-2.0
"""Packet memory and PFC as the loop's tables hold them: setting, reading, and finding deadlocks."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.engine.buffers import PFC_CLASSES, Buffers
from detour.engine.loop import layout
from detour.engine.loop.memory import Memory
from detour.engine.wiring import UNLIMITED_PACKETS, Port, WiredSwitch, Wiring


def set_buffers(wiring: Wiring, switch: int, buffers: Buffers) -> None:
    """Give a switch packet memory that its ports share, and classes under PFC, in place of its queues' limits. To be
    called when its cables are in place.

    Raises:
        DetourError: packets wait in the switch, or the accounts do not fit.
    """
    memory, wired = wiring.memory, wiring.switch(switch)
    ports = list(_cabled(wiring, wired))
    if any(memory.row("ports", wiring.port_index(port))["waiting"] for port in ports):
        raise DetourError(f"switch {wired.name}: packet memory can only change while the queues are empty")
    row = memory.row("switches", wired.index)
    if buffers.lossless and row["piped"]:
        raise DetourError(f"switch {wired.name}: a pipeline with latency cannot have lossless classes")
    row["shared_bytes"] = buffers.shared_bytes(len(ports))
    row["buffer_bytes"] = buffers.total_bytes
    row["alpha"] = round(buffers.alpha * layout.ALPHA_ONE)
    row["lossless"] = buffers.lossless
    row["headroom"] = buffers.headroom_bytes
    row["reserve"] = buffers.reserve_bytes
    row["xoff_shift"] = buffers.xoff_shift
    row["xon_offset"] = buffers.xon_offset_bytes
    for port in ports:
        for priority, queue in enumerate(wiring.queue_rows(port, None)):
            queue["limit_packets"] = UNLIMITED_PACKETS
            queue["limit_bytes"] = 0
            queue["lossless"] = buffers.lossless >> priority & 1


def _cabled(wiring: Wiring, switch: WiredSwitch) -> Iterator[Port]:
    """Ports of a switch that lead to a switch or a native host."""
    for port in switch.ports:
        leads_to = wiring.memory.row("channels", wiring.cables[port].out_channel)["kind"]
        if leads_to in (layout.TO_PORT, layout.TO_HOST):
            yield port


def buffer_stats(wiring: Wiring, now_ps: int, switch: int) -> dict[str, int]:
    """Use of a switch's packet memory in bytes (`buffer_bytes`, `buffer_used`, `buffer_peak`), drops for want of it
    (`buffer_drops`, `headroom_drops`), PFC frames (`pauses_sent`, `pauses_received`), and `paused_ps`: for how long
    its ports were paused in any class, added up."""
    memory, wired = wiring.memory, wiring.switch(switch)
    row = memory.row("switches", wired.index)
    names = ("buffer_bytes", "buffer_used", "buffer_peak", "buffer_drops", "headroom_drops")
    stats = {name: int(row[name]) for name in names}
    stats |= {"pauses_sent": 0, "pauses_received": 0, "paused_ps": 0}
    for port in _cabled(wiring, wired):
        row = memory.row("ports", wiring.port_index(port))
        stats["pauses_sent"] += int(row["pauses_sent"])
        stats["pauses_received"] += int(row["pauses_received"])
        stats["paused_ps"] += int(row["paused_ps"]) + (now_ps - int(row["paused_since"]) if row["paused"] else 0)
    return stats


def link_changed(wiring: Wiring, port: Port, up: bool) -> list[int]:
    """A cable went down or up: both ends forget pauses, and say again what they have paused when it is up.

    Returns the entities whose event is due now."""
    memory = wiring.memory
    entities = []
    for end in (port, wiring.cables[port].far):
        if end is None:
            continue
        row = memory.row("ports", wiring.port_index(end))
        row["paused"] = 0
        if row["mirror_paused"]:
            _store(int(row["mirror_paused"]), 0)
        accounts = range(int(row["queues"]), int(row["queues"]) + int(row["priorities"]))
        row["signal"] = int(up and any(memory.row("queues", account)["in_paused"] for account in accounts))
        entities.append(int(row["entity"]))
    return entities


class _Buffers:
    """Buffers as plain Python lists, for deadlock detection."""

    def __init__(self, memory: Memory) -> None:
        column = memory.column
        self.first = column("ports", "queues").tolist()
        self.priorities = column("ports", "priorities").tolist()
        self.paused = column("ports", "paused").tolist()
        self.packets = column("queues", "packets").tolist()
        self.in_paused = column("queues", "in_paused").tolist()
        self.head = column("queues", "head").tolist()
        self.charged = (column("queues", "in_bytes") + column("queues", "in_headroom")).tolist()
        self.slots = memory.table("slots")
        kind, index = column("channels", "kind").tolist(), column("channels", "index").tolist()
        self.far = [
            index[channel] if kind[channel] == layout.TO_PORT else -1 for channel in column("ports", "channel").tolist()
        ]

    def held(self) -> Iterator[tuple[int, int, int]]:
        """(port, priority, the account at the far end that keeps it paused) of queues that wait for a resume."""
        for port, far in enumerate(self.far):
            if far < 0 or not self.paused[port]:
                continue
            for priority in range(min(self.priorities[port], self.priorities[far])):
                queue, account = self.first[port] + priority, self.first[far] + priority
                if self.paused[port] >> priority & 1 and self.packets[queue] and self.in_paused[account]:
                    yield port, priority, account

    def accounts_in(self, queue: int) -> Counter[int]:
        """Bytes of a queue by the account that they are charged to."""
        charged, slot = Counter[int](), self.head[queue]
        for _ in range(self.packets[queue]):
            charged[int(self.slots[slot]["origin"])] += int(self.slots[slot]["wire"])
            slot = int(self.slots[slot]["next"])
        return charged


WaitingQueues = list[tuple[int, int, int]]
"""output queues: (device id, port, priority)"""


def deadlock(wiring: Wiring) -> WaitingQueues:
    """Output queues that PFC will never let move again, in order; none: no deadlock.

    A queue is stuck if it is paused by an account all of whose packets wait in stuck queues. The largest such set
    is found by striking out every queue whose account has a packet elsewhere, until nothing changes; packets in
    it cannot move whatever else happens, so there are no false alarms.
    """
    stuck, _ = _stuck(wiring.memory)
    return [_named(wiring.memory, *queue) for queue in sorted(stuck.values())]


def cyclic_wait(wiring: Wiring) -> WaitingQueues:
    """Return queues each of which waits for the next, and the last for the first."""
    stuck, waits_for = _stuck(wiring.memory)
    return [_named(wiring.memory, *stuck[queue]) for queue in _cycle(waits_for)]


def _named(memory: Memory, port: int, priority: int) -> tuple[int, int, int]:
    row = memory.row("ports", port)
    return int(memory.row("switches", int(row["switch"]))["device_id"]), int(row["number"]), priority


def _stuck(memory: Memory) -> tuple[dict[int, tuple[int, int]], dict[int, list[int]]]:
    """(port index, priority) of queues that are stuck, and the queues that each of them waits for."""
    if not memory.column("ports", "paused").any():
        return {}, {}
    fabric = _Buffers(memory)
    stuck = {fabric.first[port] + priority: (port, priority, account) for port, priority, account in fabric.held()}
    waits_in: dict[int, set[int]] = {}
    waiting = Counter[int]()
    for queue, packets in enumerate(fabric.packets):
        for account, size in fabric.accounts_in(queue).items() if packets and stuck else ():
            waits_in.setdefault(account, set()).add(queue)
            waiting[account] += size
    # Frames that are out of the network for a while (`engine.loop.suspension`) wait in no queue, and come back.
    absent = {account for _, _, account in stuck.values() if fabric.charged[account] > waiting[account]}

    def moves(account: int) -> bool:
        return account in absent or not waits_in.get(account, set()) <= stuck.keys()

    while free := [queue for queue, (_, _, account) in stuck.items() if moves(account)]:
        for queue in free:
            del stuck[queue]
    waits_for = {queue: sorted(waits_in.get(account, ())) for queue, (_, _, account) in stuck.items()}
    return {queue: (port, priority) for queue, (port, priority, _) in stuck.items()}, waits_for


def unmoved(wiring: Wiring, before: Int64Array | None) -> tuple[bool, Int64Array]:
    """(whether a paused queue was paused before and has sent nothing since, what to hand in the next time). Cheap: only
    if one has not moved can there be a deadlock that is as old. `before`: the second value of an earlier call."""
    memory = wiring.memory
    paused = memory.column("ports", "paused")
    ports = np.flatnonzero(paused)  # few, and only their queues are looked at
    if not len(ports):
        return False, ports
    masks = paused[ports].astype(np.int64)[:, None] >> np.arange(PFC_CLASSES) & 1
    row, priority = np.nonzero(masks)
    queues = memory.column("ports", "queues")[ports[row]] + priority
    queues = queues[memory.column("queues", "packets")[queues] > 0]
    now = queues << 32 | memory.column("queues", "head")[queues]
    return before is not None and bool(np.isin(now, before).any()), now


def _cycle(waits_for: dict[int, list[int]]) -> list[int]:
    """Queues of which each waits for the next and the last for the first."""
    for start in sorted(waits_for):
        walk: dict[int, int] = {}
        at = start
        while at not in walk and waits_for[at]:
            walk[at] = len(walk)
            at = waits_for[at][0]
        if at in walk:
            return list(walk)[walk[at] :]
    return []


def mirror_load(wiring: Wiring, port: Port, address: int) -> None:
    """Keep the number of packets that wait at a port in the 32-bit cell at `address`, for instance one of a P4
    register (`RegisterArray.address`). The cell must live as long as the network; 0: no more."""
    row: Any = wiring.memory.row("ports", wiring.port_index(port))
    row["mirror"] = address


def mirror_input(wiring: Wiring, port: Port, *, buffered: int = 0, paused: int = 0) -> None:
    """Keep two 32-bit cells at these addresses up to date (0: no more): bytes that came in by a port in lossless
    classes and wait in the switch; the mask of priorities that the other end has paused."""
    row: Any = wiring.memory.row("ports", wiring.port_index(port))
    row["mirror_input"] = buffered
    row["mirror_paused"] = paused
    waiting = sum(int(account["in_bytes"]) + int(account["in_headroom"]) for account in wiring.queue_rows(port, None))
    for cell, value in ((buffered, waiting), (paused, int(row["paused"]))):
        if cell:
            _store(cell, value)


def _store(address: int, value: int) -> None:
    ctypes.c_uint32.from_address(address).value = value
