# SPDX-License-Identifier: Apache-2.0
"""One path that goes wrong, spelled out hop by hop."""

from __future__ import annotations

from detour.control.entries import TableEntry
from detour.control.verifier.fabric_state import FabricState
from detour.topo import address
from detour.topo.topology import Host


class Witness:
    """Searches all paths of a pair's packets for one that fails: depth first, the first found is told.

    A pair that is not `connected` may lose its packets, but not send them round.
    """

    def __init__(self, state: FabricState, source: Host, target: Host, via: int | None, connected: bool) -> None:
        self._state, self._source, self._target, self._via = state, source, target, via
        self._connected = connected
        self._fine: dict[int, int] = {}  # switch -> longest path so far from where everything was right

    def text(self, bound: int) -> str:
        """`h0 -> h9, source bit 1 by way of group 3: s0 s2 s13 then dropped: s13 has no route to fd00:...`"""
        bit = "source bit 0" if self._via is None else f"source bit 1 by way of group {self._via}"
        path = self._failing([self._source.switch], bound)
        return f"{self._source.name} -> {self._target.name}, {bit}: {path or 'fails on some path'}"

    def _failing(self, path: list[int], bound: int) -> str | None:
        names = " ".join(f"s{switch}" for switch in path)
        at = path[-1]
        if at in path[:-1]:
            return f"{names} then round again"
        if self._connected and len(path) > bound:
            return f"{names} passes more than {bound} switches"
        if self._fine.get(at, 0) >= len(path):
            return None
        problem = self._choice_failing(path, bound, self._entry(at))
        if problem is None:
            self._fine[at] = len(path)
        return problem

    def _choice_failing(self, path: list[int], bound: int, entry: TableEntry | None) -> str | None:
        names, at = " ".join(f"s{switch}" for switch in path), path[-1]
        if entry is None or not entry.members():
            what = "no route to" if entry is None else "an empty action set for"
            dropped = f"{names} then dropped: s{at} has {what} {address.ipv6_text(self._target.address)}"
            return dropped if self._connected else None
        for action in entry.members():
            neighbour, host = self._state.effect(at, action)
            if neighbour is not None:
                found = self._failing([*path, neighbour], bound)
                if found:
                    return found
            elif self._connected and host != self._target.index:
                where = f"{action.name.rsplit('.', 1)[-1]}({', '.join(f'{k}={v}' for k, v in action.params)})"
                return f"{names} then {where} at s{at}, which is not {self._target.name}"
        return None

    def _entry(self, switch: int) -> TableEntry | None:
        tables, target = self._state.tables[switch], self._target
        if (
            self._via is not None
            and self._state.detour_choice(switch, self._source.group, target.group, self._via) is not None
        ):
            return tables.detour(self._via, target.group)
        return tables.route.lookup(target.address)
