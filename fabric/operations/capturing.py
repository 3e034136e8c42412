# SPDX-License-Identifier: Apache-2.0
"""Operation that begins and ends captures on a running fabric."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from detour.base.errors import DetourError
from detour.fabric.footings.base import Fabric
from detour.fabric.operations.results import Captured
from detour.topo import Failure, Topology, parse_failure


class Capturing:
    """See the module. Methods may be called from several threads."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._lock = threading.Lock()
        self._now = Captured(None, [])

    def capture(self, folder: str | None = None, where: list[str] | None = None, stop: bool = False) -> Captured:
        """Begins to write a pcapng file a port into a folder, ends that, or says what is being written. `where`: links,
        switches and hosts whose ports are wanted (None: all).

        Raises:
            DetourError: there is no such link, switch or host, captures run already, none runs, or the folder cannot be
                written.
        """
        if stop and (folder is not None or where):
            raise DetourError("a capture is either begun or ended: give a folder or --stop")
        with self._lock:
            if stop:
                return self._stop()
            if folder is not None:
                self._start(folder, where or [])
            elif where:
                raise DetourError("a capture needs a folder for its files")
            return replace(self._now, error=self.error)

    @property
    def error(self) -> str | None:
        """What has ended the writing, if anything has."""
        return None if self._now.folder is None else self._fabric.capture_error()

    def _start(self, folder: str, where: list[str]) -> None:
        if self._now.folder is not None:
            raise DetourError(f"captures are being written to {self._now.folder}; `detour capture --stop` ends them")
        names = ports_of(self._fabric.topology, where)
        self._fabric.capture(Path(folder), frozenset(names) if where else None)
        self._now = Captured(folder, [f"{name}.pcapng" for name in names])

    def _stop(self) -> Captured:
        if self._now.folder is None:
            raise DetourError("no captures are being written")
        ended, self._now = self._now, Captured(None, [])
        self._fabric.capture(None)
        return ended


def ports_of(topology: Topology, where: list[str]) -> list[str]:
    """Ports by name, like `s3-1`, of links, switches and hosts; of all if none is named.

    Raises:
        DetourError: there is no such link, switch or host.
    """
    wanted = [parse_failure(topology, text) for text in where]
    return [
        f"s{switch}-{port}"
        for switch, port, link in _switch_ports(topology)
        if not wanted or Failure("link", link) in wanted or Failure("switch", switch) in wanted
    ]


def _switch_ports(topology: Topology) -> list[tuple[int, int, int]]:
    """(switch, port, link) of every switch port that has a link."""
    ends = [
        (*end, link.index) for link in topology.links for end in (link.a, link.b)[: 1 if link.kind == "host" else 2]
    ]
    return sorted(ends)
