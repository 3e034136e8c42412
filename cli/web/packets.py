# SPDX-License-Identifier: Apache-2.0
"""Traced packets that the page shows, by number, so that a view of one can be linked to."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from detour.cli.web.server import NotThereError

KEPT_PACKETS = 64
_EXACT = 1 << 53
"""numbers of JavaScript are exact below"""


class PacketShelf:
    """Keeps the last ones. Methods may be called from several threads."""

    def __init__(self, kept: int = KEPT_PACKETS) -> None:
        self._kept, self._next = kept, 1
        self._lock = threading.Lock()
        self._packets: OrderedDict[int, dict[str, Any]] = OrderedDict()

    def keep(self, document: dict[str, Any], about: str) -> dict[str, Any]:
        """The document (docs/trace.md) with its `id` and what it is `about`."""
        with self._lock:
            found = {"id": self._next, "about": about, **_readable(document)}
            self._packets[self._next] = found
            self._next += 1
            while len(self._packets) > self._kept:
                self._packets.popitem(last=False)
        return found

    def find(self, number: str) -> dict[str, Any]:
        """The packet of that number.

        Raises:
            NotThereError: there is none any more.
        """
        with self._lock:
            found = self._packets.get(int(number)) if number.isascii() and number.isdigit() else None
        if found is None:
            raise NotThereError(f"packet {number[:20]} is not there: the server keeps the last {self._kept}")
        return found

    def listed(self) -> list[dict[str, Any]]:
        """Numbers and what they are about, the newest first."""
        with self._lock:
            return [{"id": each["id"], "about": each["about"]} for each in reversed(self._packets.values())]


def _readable(value: Any) -> Any:
    """The same, with numbers that JavaScript cannot hold (addresses) in hexadecimal."""
    if isinstance(value, dict):
        return {key: _readable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_readable(each) for each in value]
    return hex(value) if isinstance(value, int) and abs(value) >= _EXACT else value
