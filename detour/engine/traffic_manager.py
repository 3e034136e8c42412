# SPDX-License-Identifier: Apache-2.0
"""The traffic manager of a switch: what its queues, their scheduler and its pipeline are set to, and what they hold.

Every port has a rate (its cable's) and as many queues as its switch has priorities. A queue has a depth in packets and
one in bytes, a rate in packets or in bits a second, and a place in the order of service: strict priority as in
simple_switch, where the highest number goes first, or with a quantum a part in a deficit round robin, which gets what
strict queues leave. A switch has packet memory that its ports share (`buffers`), and a pipeline that takes time and so
many packets a second. The rules themselves are native code: `loop/queues.py`, `loop/buffers.py`, `loop/switch.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from detour.base.errors import DetourError
from detour.engine.wiring import Port, Wiring

SHORTEST_QUANTUM = 64
"""bytes: a round gives every queue at least the shortest frame, so that a long one needs few rounds"""

MOST_IN_ROUND = 32
"""queues of a port that may share in rounds: those of priorities below this"""

_PS = 1_000_000_000_000


@dataclass(frozen=True)
class QueueSettings:
    """Settings of a queue; 0 means no limit but for `packets`."""

    packets: int = 64
    """depth: how many may wait"""
    bytes_limit: int = 0
    """the same in bytes on the wire"""
    rate_pps: int = 0
    """packets a second: each leaves at the earliest so long after the one before it that was let in (BMv2's
    `set_queue_rate`)"""
    rate_bps: int = 0
    """bits a second of frames, likewise"""
    quantum: int = 0
    """bytes of a round of deficit round robin; 0: strict priority"""


@dataclass(frozen=True)
class QueueState:
    """The current content of a queue, and its counters."""

    priority: int
    packets: int
    bytes: int
    peak_packets: int
    peak_bytes: int
    drops: int
    drop_bytes: int


@dataclass(frozen=True)
class PipelineSpeed:
    """Speed of a switch's pipeline: `latency_ps` from the arrival of a packet to its output queue, and `packets_per_s`
    that it takes in at most (0: no limit). `waiting`: packets that may wait for it."""

    latency_ps: int = 0
    packets_per_s: int = 0
    waiting: int = 1024


def set_queue(
    wiring: Wiring,
    port: Port,
    *,
    packets: int | None = None,
    bytes_limit: int | None = None,
    rate_pps: int | None = None,
    rate_bps: int | None = None,
    quantum: int | None = None,
    priority: int | None = None,
) -> None:
    """Change some settings (`QueueSettings`) of a port's queues, or of the one of a priority. The highest number goes
    first.

    Raises:
        DetourError: there is no such queue, or a value is out of range.
    """
    values = (packets, bytes_limit, rate_pps, rate_bps, quantum)
    changes = {each.name: v for each, v in zip(fields(QueueSettings), values, strict=True) if v is not None}
    rows = wiring.queue_rows(port, priority)
    _check(port, (priority or 0) + len(rows) - 1, changes)
    for row in rows:
        for field, value in changes.items():
            row[_FIELDS.get(field, field)] = value
        if "rate_pps" in changes:
            row["interval_ps"] = 0 if changes["rate_pps"] == 0 else _PS // changes["rate_pps"]
        if "quantum" in changes:
            row["deficit"] = 0
    # What the loop has to know of the port (`layout.PORT`).
    queues = wiring.queue_rows(port, None)
    shared = sum(1 << priority for priority, row in enumerate(queues) if row["quantum"])
    paced = any(row["interval_ps"] or row["rate_bps"] for row in queues)
    wiring.memory.row("ports", wiring.port_index(port))["managed"] = shared << 1 | int(bool(shared) or paced)


_FIELDS = {"packets": "limit_packets", "bytes_limit": "limit_bytes"}


def _check(port: Port, highest: int, changes: dict[str, int]) -> None:
    if any(value < 0 for value in changes.values()):
        raise DetourError(f"port {port[1]}: a queue's limits cannot be negative")
    if changes.get("rate_pps", 0) > _PS:
        raise DetourError(f"port {port[1]}: {changes['rate_pps']} packets a second; expected at most 10^12")
    quantum = changes.get("quantum", 0)
    if 0 < quantum < SHORTEST_QUANTUM:
        raise DetourError(f"port {port[1]}: a quantum of {quantum} bytes; it must be 0 or at least {SHORTEST_QUANTUM}")
    if quantum and highest >= MOST_IN_ROUND:
        raise DetourError(f"port {port[1]}: rounds are for priorities below {MOST_IN_ROUND}, not {highest}")


def queue_settings(wiring: Wiring, port: Port, priority: int = 0) -> QueueSettings:
    """Return the settings of a queue.

    Raises:
        DetourError: there is no such queue.
    """
    (row,) = wiring.queue_rows(port, priority)
    return QueueSettings(**{each.name: int(row[_FIELDS.get(each.name, each.name)]) for each in fields(QueueSettings)})


def queue_states(wiring: Wiring, port: Port) -> list[QueueState]:
    """Return the current content and the drops of a port's queues, by priority."""
    names = [each.name for each in fields(QueueState)][1:]
    rows = enumerate(wiring.queue_rows(port, None))
    return [QueueState(priority, *(int(row[name]) for name in names)) for priority, row in rows]


def set_pipeline_speed(wiring: Wiring, switch: int, speed: PipelineSpeed) -> None:
    """Say how much time a switch's pipeline takes; without, packets are in their output queue as they arrive. What is
    in it already keeps its time.

    Raises:
        DetourError: a value is out of range, or the switch has lossless classes: what is in the pipeline when a pause
            begins would have no place in their headroom.
    """
    wired = wiring.switch(switch)
    if speed.latency_ps < 0 or not 0 <= speed.packets_per_s <= _PS or speed.waiting < 1:
        raise DetourError(
            f"switch {wired.name}: a pipeline of {speed.packets_per_s} packets a second, {speed.latency_ps} ps and "
            f"{speed.waiting} waiting packets is out of range"
        )
    row = wiring.memory.row("switches", wired.index)
    takes_time = speed.latency_ps > 0 or speed.packets_per_s > 0
    if takes_time and row["lossless"]:
        raise DetourError(f"switch {wired.name} has lossless classes, so its pipeline cannot have latency")
    row["pipe_ps"] = speed.latency_ps
    row["pipe_gap_ps"] = 0 if speed.packets_per_s == 0 else _PS // speed.packets_per_s
    row["pipe_free_ps"] = 0
    row["pipe_pps"] = speed.packets_per_s
    row["input_limit"] = speed.waiting
    row["piped"] = int(takes_time)


def pipeline_speed(wiring: Wiring, switch: int) -> PipelineSpeed:
    """Return the latency and rate of a switch's pipeline."""
    row = wiring.memory.row("switches", wiring.switch(switch).index)
    return PipelineSpeed(int(row["pipe_ps"]), int(row["pipe_pps"]), int(row["input_limit"]))
