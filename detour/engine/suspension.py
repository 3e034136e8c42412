# SPDX-License-Identifier: Apache-2.0
"""Frames of some flows that leave the network for a while and come back as if it had not passed. Only with the loop's
turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from detour.base.arrays import Int64Array, UInt8Array
from detour.engine.loop import suspension
from detour.engine.loop.layout import TO_HOST, TO_PORT
from detour.engine.loop.memory import Memory
from detour.engine.loop.suspension import SUSPENSION as SUSPENSION
from detour.engine.wiring import Port, Wiring


@dataclass(frozen=True)
class Places:
    """Where frames may be: indices of channels, ports of switches and NICs."""

    links: Int64Array
    ports: Int64Array
    nics: Int64Array


@dataclass(frozen=True)
class SuspendedFrames:
    """Frames (`loop.suspension.FIELDS` each), and when the ports and NICs behind them are free again, counted from
    when that was."""

    frames: Int64Array
    places: Places
    ports_ps: Int64Array
    nics_ps: Int64Array


def take_frames(memory: Memory, places: Places, marks: UInt8Array, first: int, mask: int) -> SuspendedFrames:
    """Take the frames of marked QPs out of the network. The number of the QP with mark i is `first` + i, above `mask`
    anything."""
    channels, ports, nics = (memory.table(name) for name in ("channels", "ports", "nics"))
    room = int(channels["count"][places.links].sum() + ports["waiting"][places.ports].sum())
    taken, now = np.zeros((room, suspension.FIELDS), np.int64), int(memory.g["now"])
    count = suspension.take_frames(memory.address, marks.ctypes.data, first, mask, places.links, places.ports, taken)
    left = (np.maximum(rows["busy_until"][at] - now, 0) for rows, at in ((ports, places.ports), (nics, places.nics)))
    return SuspendedFrames(taken[:count], places, *left)


def put_frames(memory: Memory, suspended: SuspendedFrames, elapsed_ps: int) -> None:
    """Put them back, that time later."""
    places, now = suspended.places, int(memory.g["now"])
    for name, at, left in (("ports", places.ports, suspended.ports_ps), ("nics", places.nics, suspended.nics_ps)):
        rows = memory.table(name)
        rows["busy_until"][at] = np.maximum(rows["busy_until"][at], now + left)
    suspension.put_frames(memory.address, suspended.frames, len(suspended.frames), elapsed_ps)


def frame_places(wiring: Wiring) -> tuple[dict[Port, tuple[int, int]], dict[int, tuple[int, int]]]:
    """Index and outgoing channel of every port that has a cable, and of every host's NIC."""
    nics = wiring.memory.column("nics", "channel")
    ports = {port: (wiring.port_index(port), cable.out_channel) for port, cable in wiring.cables.items()}
    return ports, {host: (nic, int(nics[nic])) for host, nic in wiring.nics.items()}


def link_rates(wiring: Wiring) -> Int64Array:
    """Return the rates of all channels."""
    return wiring.memory.column("channels", "rate_bps")


def link_delays(wiring: Wiring) -> Int64Array:
    """Return the delays of all channels, ps."""
    return wiring.memory.column("channels", "delay_ps")


def set_link_rates(wiring: Wiring, links: Int64Array, rates_bps: Int64Array) -> None:
    """Set the rates of channels."""
    wiring.memory.table("channels")["rate_bps"][links] = rates_bps


def credit_frames(wiring: Wiring, links: Int64Array, packets: Int64Array, size: int) -> None:
    """Count frames of `size` bytes that were not sent as sent on channels."""
    channels, overhead = wiring.memory.table("channels"), int(wiring.memory.g["overhead_bytes"])
    np.add.at(channels["packets"], links, packets)
    np.add.at(channels["bytes"], links, packets * size)
    lasts = (size + overhead) * 8 * 10**12 // np.maximum(channels["rate_bps"][links], 1)
    np.add.at(channels["busy_ps"], links, packets * lasts)
    kind, index = channels["kind"][links], channels["index"][links]
    for table, number in (("ports", TO_PORT), ("nics", TO_HOST)):
        rows, of = wiring.memory.table(table), kind == number
        np.add.at(rows["rx_packets"], index[of], packets[of])
        np.add.at(rows["rx_bytes"], index[of], packets[of] * size)
