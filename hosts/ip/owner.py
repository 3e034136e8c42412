# SPDX-License-Identifier: Apache-2.0
"""What a socket has to know of its host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np

from detour.hosts.ip.memory import StackMemory

T = TypeVar("T")


class Owner(Protocol):
    """`hosts.IpHost`."""

    name: str
    number: int
    memory: StackMemory

    @property
    def row(self) -> np.void:
        """Its row of the table of hosts."""
        ...

    @property
    def now_ps(self) -> int:
        """Its time."""
        ...

    def address(self, v6: bool = False) -> str:
        """Its IPv4 (IPv6) address, or a DetourError."""
        ...

    def do(self, work: Callable[[], T]) -> T:
        """Runs `work` while nothing else touches the tables."""
        ...
