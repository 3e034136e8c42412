# SPDX-License-Identifier: Apache-2.0
"""Where packets go, from the switches' own tables."""

from __future__ import annotations

from collections.abc import Iterable

from detour.base.errors import DetourError
from detour.fabric.operations.control_plane import ControlPlane
from detour.fabric.operations.results import PathHop, TracedPath
from detour.hosts.verbs import Path
from detour.topo import Host
from detour.topo.paths import completed_usids, parse_usid_list


class Paths:
    """See the module. Methods may be called from several threads."""

    def __init__(self, control: ControlPlane) -> None:
        self._control, self._topology = control, control.topology

    def ends(self, source: str, target: str) -> tuple[Host, Host]:
        """The hosts of these names.

        Raises:
            DetourError: there is none, or they are one.
        """
        ends = self._topology.host(source), self._topology.host(target)
        if ends[0] == ends[1]:
            raise DetourError(f"source and destination are both {source}; they must differ")
        return ends

    def chosen(self, target: Host, sport: int | None, usid: str | None) -> Path:
        """What the options mean; a list that does not end at the destination host is completed."""
        if usid is None:
            return Path(sport or 0)
        return Path(sport or 0, completed_usids(self._topology, parse_usid_list(self._topology, usid), target))

    def path(self, source: str, target: str, sport: int | None = None, usid: str | None = None) -> TracedPath:
        """The hops of a packet."""
        a, b = self.ends(source, target)
        way = self.chosen(b, sport, usid)
        with self._control.tracer() as tracer:
            found = tracer.trace(a, b, way.sport, way.usids or None)
        hops = [PathHop(f"s{hop.switch}", hop.in_port, hop.out_port, hop.why) for hop in found.hops]
        return TracedPath(str(way), found.delivered, found.outcome, hops)

    def need_one(self, source: Host, target: Host, paths: Iterable[Path]) -> None:
        """Looks whether packets arrive on one of these paths, while anything is down.

        Raises:
            DetourError: they arrive on none, so a connection would wait in vain.
        """
        if not self._control.failures:
            return
        outcome = ""
        with self._control.tracer() as tracer:
            for path in paths:
                found = tracer.trace(source, target, path.sport, path.usids or None)
                if found.delivered:
                    return
                outcome = outcome or found.outcome
        down = ", ".join(self._control.failure_names())
        raise DetourError(f"no packet of {source.name} reaches {target.name}: {outcome} (down: {down}; `detour heal`)")

    def hops(self, ways: Iterable[tuple[Host, Host, Path]]) -> list[tuple[int, ...]]:
        """The switches that packets pass from a host to another one on a path, for each of them."""
        with self._control.tracer() as tracer:
            return [tracer.trace(a, b, path.sport, path.usids or None).switches for a, b, path in ways]

    def hop_names(self, source: Host, target: Host, paths: Iterable[Path]) -> list[list[str]]:
        """The same by name, for several paths between two hosts."""
        return [[f"s{switch}" for switch in hops] for hops in self.hops((source, target, path) for path in paths)]
