# SPDX-License-Identifier: Apache-2.0
"""Counters of the loop as NumPy arrays. Reading them needs no turn: each number is whole, if not of one instant."""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.base.arrays import Int64Array
from detour.engine.loop.layout import PFC_BYTES, SWITCH_COUNTERS, TO_NOWHERE, TO_PORT
from detour.engine.loop.memory import Memory


def port_stats(memory: Memory) -> dict[str, np.ndarray]:
    """One element for each port that something is attached to: `device_id`, `port`, `rx_packets`, `rx_bytes`,
    `tx_packets`, `tx_bytes`, `queue_packets`, `queue_bytes`, `queue_peak_packets`, `queue_peak_bytes`, `queue_drops`,
    `egress_drops`, `link_drops`, `corrupted`, `duplicated`, `busy_ps` (time spent sending), `up`, `rate_bps`."""
    column = memory.column
    real = _attached(memory)
    switch = column("ports", "switch")[real]
    channel = column("ports", "channel")[real]
    first = column("ports", "queues")[real]
    priorities = column("ports", "priorities")[real]
    stats = {"device_id": column("switches", "device_id")[switch], "port": column("ports", "number")[real]}
    for name in ("rx_packets", "rx_bytes", "egress_drops"):
        stats[name] = column("ports", name)[real]
    pauses = column("ports", "pauses_sent")[real]
    stats["tx_packets"] = column("channels", "packets")[channel] - pauses
    stats["tx_bytes"] = column("channels", "bytes")[channel] - PFC_BYTES * pauses
    stats["queue_packets"] = column("ports", "waiting")[real]
    for name, field, combine in (
        ("queue_bytes", "bytes", np.add),
        ("queue_drops", "drops", np.add),
        ("queue_peak_packets", "peak_packets", np.maximum),
        ("queue_peak_bytes", "peak_bytes", np.maximum),
    ):
        stats[name] = _over_priorities(column("queues", field), first, priorities, combine)
    for name in ("busy_ps", "up", "rate_bps", "corrupted", "duplicated"):
        stats[name] = column("channels", name)[channel]
    stats["link_drops"] = (column("channels", "lost") + column("channels", "cut"))[channel]
    return stats


class PortTraffic:
    """The bytes of `port_stats`, for callers that ask often: ports, once attached, stay where they are."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._port = _attached(memory)
        row = memory.table("ports")[self._port]
        self._channel, self._first, self._priorities = (
            row[name].copy() for name in ("channel", "queues", "priorities")
        )

    def read(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return `tx_bytes`, `rx_bytes` and `queue_bytes` of all ports."""
        ports, channels, queues = map(self._memory.table, ("ports", "channels", "queues"))
        sent = channels["bytes"][self._channel] - PFC_BYTES * ports["pauses_sent"][self._port]
        waiting = np.flatnonzero(ports["waiting"][self._port])
        queued = np.zeros(len(self._port), np.int64)
        if len(waiting):
            first, priorities = self._first[waiting], self._priorities[waiting]
            queued[waiting] = _over_priorities(queues["bytes"], first, priorities, np.add)
        return sent, ports["rx_bytes"][self._port], queued


def _attached(memory: Memory) -> Int64Array:
    """The ports that something is attached to."""
    column = memory.column
    detached = column("channels", "kind")[column("ports", "channel")] == TO_NOWHERE
    return np.flatnonzero((column("ports", "number") >= 0) & ~detached)


def inner_ports(memory: Memory, switch: int) -> list[int]:
    """Numbers of a switch's ports (by its index) whose cable leads to a port of a switch."""
    column = memory.column
    kind = column("channels", "kind")[column("ports", "channel")]
    mine = (column("ports", "switch") == switch) & (column("ports", "number") >= 0) & (kind == TO_PORT)
    return column("ports", "number")[mine].tolist()


def _over_priorities(values: np.ndarray, first: np.ndarray, count: np.ndarray, combine: Any) -> np.ndarray:
    """Combine the values of each port's queues."""
    result = np.zeros(len(first), np.int64)
    for priority in range(int(count.max(initial=0))):
        has = count > priority
        result[has] = combine(result[has], values[first[has] + priority])
    return result


def switch_stats(memory: Memory) -> dict[str, np.ndarray]:
    """One element for each switch: `device_id`, `packets` (that came in), and how many were parsed with an error,
    cloned, copied, recirculated, or dropped, by reason."""
    return {name: memory.column("switches", name) for name in ("device_id", *SWITCH_COUNTERS)}


def host_stats(memory: Memory, chosen: list[int]) -> dict[str, np.ndarray]:
    """One element for each of the chosen NICs."""
    stats = {
        name: memory.column("nics", name)[chosen]
        for name in ("host", "rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "pool_waits")
    }
    channel = memory.column("nics", "channel")[chosen]
    stats["busy_ps"] = memory.column("channels", "busy_ps")[channel]
    stats["link_drops"] = (memory.column("channels", "lost") + memory.column("channels", "cut"))[channel]
    return stats


def link_drops(memory: Memory) -> int:
    """Frames that were lost on any cable, in either direction, those of all hosts among them."""
    return int((memory.column("channels", "lost") + memory.column("channels", "cut")).sum())


def socket_stats(memory: Memory) -> dict[str, np.ndarray]:
    """One element for each socket or interface, with `device_id` and `port` that it is attached to."""
    column, port = memory.column, memory.column("ios", "port")
    device = column("switches", "device_id")[column("ports", "switch")[port]]
    names = (
        "rx_packets",
        "rx_drops",
        "rx_errors",
        "rx_oversized",
        "tx_packets",
        "tx_drops",
        "tx_no_peer",
        "tx_retries",
    )
    counted = {name: column("ios", name) for name in (*names, "count")}
    return {"device_id": device, "port": column("ports", "number")[port]} | counted


def loop_stats(memory: Memory) -> dict[str, int]:
    """Numbers of the loop itself: events executed, packets in flight now and at most, drops for want of memory."""
    names = ("events", "used", "used_peak", "pool_drops", "up_drops", "taken_drops", "lag_peak_ps", "slip_ps")
    of_workers = ("events", "used", "pool_drops")
    return {name: int(memory.globals[name].sum() if name in of_workers else memory.g[name]) for name in names}
