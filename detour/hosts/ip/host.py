# SPDX-License-Identifier: Apache-2.0
"""A host of a stack: its row, its addresses, its neighbours, and frames that it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from detour.base.errors import DetourError
from detour.hosts.ip import layout, stack
from detour.hosts.ip.addressing import is_v6, mac_number, text_of, words
from detour.hosts.ip.memory import StackMemory
from detour.hosts.stacks import Call

T = TypeVar("T")


class StackHost:
    """A host of a stack, and how its state may be changed."""

    def __init__(self, memory: StackMemory, number: int, name: str) -> None:
        self.memory, self.number, self.name = memory, number, name
        self._call: Call | None = None
        self._kick: Callable[[], None] = lambda: None
        self._now: Callable[[], int] = lambda: 0

    def attach(self, call: Call, kick: Callable[[], None], now: Callable[[], int]) -> None:
        """Attach the host to a port and start what was requested before."""
        if self._call is not None:
            raise DetourError(f"host {self.name} is already attached to a port")
        self._call, self._kick, self._now = call, kick, now
        call(kick)

    def do(self, work: Callable[[], T]) -> T:
        """Run `work` while nothing else touches the tables, and let the host look for something to send."""
        if self._call is None:
            return work()

        def both() -> T:
            result = work()
            self._kick()
            return result

        return self._call(both)

    @property
    def now_ps(self) -> int:
        """Return the host's time."""
        return self._now()

    @property
    def row(self) -> np.void:
        """The host's row in the table of hosts."""
        return self.memory.tables["hosts"][self.number]

    @property
    def addresses(self) -> list[tuple[int, int]]:
        """The host's addresses, each as two words."""
        row = self.row
        pairs = [(0, int(row["v4_lo"])), (int(row["v6_hi"]), int(row["v6_lo"]))]
        return [pair for pair in pairs if any(pair)]

    def address(self, v6: bool = False) -> str:
        """Return the host's IPv4 (IPv6) address. Raises DetourError if it has none."""
        for pair in self.addresses:
            if is_v6(*pair) == v6:
                return text_of(*pair)
        raise DetourError(f"host {self.name} has no IPv{6 if v6 else 4} address")

    def add_neighbour(self, address: str, mac: str) -> None:
        """A MAC that need not be asked for, and replaces what was learned."""
        hi, lo = words(address)
        number = mac_number(mac)

        def enter() -> None:
            row, table = self.row, self.memory.tables["neighbours"]
            per_host = len(table) // len(self.memory.tables["hosts"])
            used = int(row["neighbours_used"])
            mine = table[self.number * per_host : self.number * per_host + per_host]
            place = next((k for k in range(used) if mine[k]["hi"] == hi and mine[k]["lo"] == lo), used)
            if place == per_host:
                raise DetourError(f"host {self.name} already has {per_host} neighbours")
            entry = mine[place]
            entry["hi"], entry["lo"], entry["mac"] = hi, lo, number
            entry["state"] = layout.NEIGHBOUR_STATIC
            entry["version"] += 1
            row["neighbours_used"] = max(used, place + 1)

        self.do(enter)

    def counters(self) -> dict[str, int]:
        """Return the host's counters: packets sent, received and refused."""
        return {name: int(self.row[name]) for name in layout.IP_HOST_COUNTERS}

    def sniff(self, everything: bool = True) -> None:
        """Keep frames that come in for `sniffed`: all, or those that nothing here takes."""

        def change() -> None:
            self.row["sniff"] = stack.SNIFF_ALL if everything else stack.SNIFF_UNKNOWN

        self.do(change)

    def sniffed(self) -> list[tuple[int, bytes]]:
        """Take the frames that were kept: when each came, ps, and its bytes (as far as they are stored)."""
        return self.do(self._take_inbox)

    def _take_inbox(self) -> list[tuple[int, bytes]]:
        g, tables, row = self.memory.globals[0], self.memory.tables, self.row
        depth, box = int(g["in_depth"]), int(g["box_bytes"])
        frames: list[tuple[int, bytes]] = []
        for number in range(int(row["in_head"]), int(row["in_tail"])):
            place = self.number * depth + number % depth
            entry = tables["inbox"][place]
            data = tables["inboxes"][place * box : place * box + int(entry["stored"])]
            frames.append((int(entry["time"]), data.tobytes()))
        row["in_head"] = row["in_tail"]
        return frames
