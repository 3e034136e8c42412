# SPDX-License-Identifier: Apache-2.0
"""Counters of all switches over P4Runtime: what passed each port, what was marked, what was dropped and why."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from finsy.proto import p4r

from detour.control.p4runtime.client import FabricClient, SwitchClient
from detour.control.p4runtime.watching import Cell

PORT_COUNTERS = {
    "rx": "FabricIngress.port_rx",
    "enqueued": "FabricIngress.port_enqueued",
    "tx": "FabricEgress.port_tx",
    "marked": "FabricEgress.ecn.ecn_marked",
}
REASONS_COUNTER = "FabricIngress.verdict.reasons"

REASONS = (
    "forwarded", "malformed", "not IPv6", "no route", "unknown SID", "access rule", "hop limit", "SID exhausted",
    "SID loop", "punt limit", "punted by rule", "recirculated", "congestion message", "bad SRH", "address scope",
)  # fmt: skip
"""what the indices of the verdict counter mean (detour/p4src/include/headers.p4)"""

DROPS = (1, 2, 3, 4, 5, 8, 9, 14)
"""verdicts that lose the packet (3: and the controller tells the sender); 6, 7, 10 and 13 hand it to the controller"""


@dataclass(frozen=True)
class Count:
    """Packets and bytes."""

    packets: int = 0
    bytes: int = 0

    def __sub__(self, other: Count) -> Count:
        """Return the counts since `other`; a switch that was restarted meanwhile has begun from zero."""
        if self.packets < other.packets:
            return self
        return Count(self.packets - other.packets, self.bytes - other.bytes)


@dataclass(frozen=True)
class Sample:
    """All counters at one time. `ports`: (device id, port, counter); `reasons`: (device id, verdict). `read_at`: when
    those of a device were read, which on a busy machine takes more of the time between two samples than `seconds`, the
    end of the reading, says."""

    seconds: float
    ports: Mapping[tuple[int, int, str], Count]
    reasons: Mapping[tuple[int, int], Count]
    read_at: Mapping[int, float] = field(default_factory=dict)

    def port(self, device: int, port: int, counter: str) -> Count:
        """A port's counter; nothing counted: zero."""
        return self.ports.get((device, port, counter), Count())

    def reason(self, device: int, verdict: int) -> Count:
        """Return the number of packets of a switch with a verdict."""
        return self.reasons.get((device, verdict), Count())

    def dropped(self, device: int) -> int:
        """Packets that a switch dropped in its pipeline (queues not included)."""
        return sum(self.reason(device, verdict).packets for verdict in DROPS)

    def since(self, earlier: Sample) -> Sample:
        """Return the counts between two samples; `seconds` is then the time between them."""
        zero = Count()
        return Sample(
            self.seconds - earlier.seconds,
            {key: value - earlier.ports.get(key, zero) for key, value in self.ports.items()},
            {key: value - earlier.reasons.get(key, zero) for key, value in self.reasons.items()},
            {key: at - earlier.read_at[key] for key, at in self.read_at.items() if key in earlier.read_at},
        )

    def rate_bps(self, device: int, port: int) -> float:
        """Bits a second through a port; of a difference of samples."""
        seconds = self.read_at.get(device, self.seconds)
        return 8 * self.port(device, port, "tx").bytes / seconds if seconds > 0 else 0.0


class CellReader:
    """Reads cells of counters, one request a switch, all switches at once."""

    def __init__(self, fabric: FabricClient) -> None:
        self._fabric = fabric
        self._asked: dict[int, tuple[Sequence[Cell], list[p4r.Entity]]] = {}

    def _request(self, switch: SwitchClient, cells: Sequence[Cell]) -> list[p4r.Entity]:
        """The request, which is mostly that of the last time."""
        device = switch.target.device_id
        if device not in self._asked or self._asked[device][0] != cells:
            self._asked[device] = cells, switch.codec.read_counters(cells)
        return self._asked[device][1]

    async def read(
        self, cells: Mapping[int, Sequence[Cell]], answered: Callable[[int], None] = lambda device: None
    ) -> dict[int, list[tuple[int, int]]]:
        """device id -> (packets, bytes) of each of its cells, in order; `cells`: device id -> (counter, index).
        `answered` is called with each device id at the time of its answer. Raises `DetourError`: a switch does not
        answer."""

        async def ask(switch: SwitchClient) -> list[tuple[int, int]]:
            own = cells[switch.target.device_id]
            values: dict[Cell, tuple[int, int]] = {}
            messages = await switch.read_messages(self._request(switch, own))
            answered(switch.target.device_id)
            for message in messages:
                entry = message.counter_entry
                key = switch.codec.counter_names[entry.counter_id], entry.index.index
                values[key] = entry.data.packet_count, entry.data.byte_count
            return [values[cell] for cell in own]

        return await self._fabric.each(ask, [device for device, own in cells.items() if own])


class Monitor:
    """Reads the counters of the ports that exist, one request a switch, all switches at once."""

    def __init__(
        self, fabric: FabricClient, ports: Mapping[int, Iterable[int]], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """`ports`: device id -> numbers of its ports. `now_s`: the time that links go by."""
        self._now_s = now_s
        self._reader = CellReader(fabric)
        self._cells = {device: _cells(list(numbers)) for device, numbers in ports.items()}

    async def sample(self) -> Sample:
        """The counters now."""
        short = {name: alias for alias, name in PORT_COUNTERS.items()}
        ports: dict[tuple[int, int, str], Count] = {}
        reasons: dict[tuple[int, int], Count] = {}
        read_at: dict[int, float] = {}

        def answered(device: int) -> None:
            read_at[device] = self._now_s()

        for device, counts in (await self._reader.read(self._cells, answered)).items():
            for (name, index), count in zip(self._cells[device], counts, strict=True):
                if name == REASONS_COUNTER:
                    reasons[device, index] = Count(*count)
                else:
                    ports[device, index, short[name]] = Count(*count)
        return Sample(self._now_s(), ports, reasons, read_at)


def _cells(numbers: Sequence[int]) -> list[Cell]:
    cells = [(counter, port) for counter in PORT_COUNTERS.values() for port in numbers]
    return cells + [(REASONS_COUNTER, verdict) for verdict in range(len(REASONS))]
