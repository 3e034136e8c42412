# SPDX-License-Identifier: Apache-2.0
"""Where packets go, from the switches' own tables."""

from __future__ import annotations

from detour.base.errors import DetourError
from detour.fabric.operations.control_plane import ControlPlane
from detour.fabric.operations.results import PathHop, TracedPath
from detour.hosts.verbs.verbs import Path
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
        found = self._control.tracer().trace(a, b, way.sport, way.usids or None)
        hops = [PathHop(f"s{hop.switch}", hop.in_port, hop.out_port, hop.why) for hop in found.hops]
        return TracedPath(str(way), found.delivered, found.outcome, hops)

    def hops(self, source: Host, target: Host, path: Path) -> tuple[int, ...]:
        """Switches that packets on a path pass."""
        return self._control.tracer().trace(source, target, path.sport, path.usids or None).switches

    def hop_names(self, source: Host, target: Host, path: Path) -> list[str]:
        """The same by name."""
        return [f"s{switch}" for switch in self.hops(source, target, path)]
