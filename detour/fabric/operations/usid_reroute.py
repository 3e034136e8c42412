# SPDX-License-Identifier: Apache-2.0
"""Senders of an expander whose uSID list has lost a link get another one, and their own again when that is whole.

It concerns flows that name every switch on their way, are no part of a placement (`placed` repairs that) and were not
given several paths. The new list is one of the pair's DF-KSP paths without what is down, within the lossless classes;
a pair that has none sends by address meanwhile. Which switch or sender hears first does not matter: by the tables that
class packets nothing can deadlock (`control.routes.queueing`), and these do not change.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from detour.base.errors import DetourError
from detour.control.expander.proof import LIST_HOPS
from detour.control.expander.routes import PathPolicy, rows_anew
from detour.control.policy import Policy
from detour.fabric.operations.live_flows import LiveFlow, LiveFlows
from detour.fabric.operations.results import ReroutedSenders
from detour.hosts.verbs import Path
from detour.topo import Topology
from detour.topo.expander.booted import expander_of, is_expander
from detour.topo.expander.network import Expander
from detour.topo.failures import NONE, Failures
from detour.topo.paths import SwitchPath, named_switches, path_usids

_log = logging.getLogger(__name__)

LISTS_OF_A_PAIR = 8
"""paths that flows of a pair whose lists are broken are spread over"""


@dataclass(frozen=True)
class _Move:
    """A flow that is to send by `path`. `own`: the list that it was given; the same: it returns to that."""

    name: str
    own: Path
    path: Path


@dataclass(frozen=True)
class _Broken:
    """A flow whose `own` list has lost a link, and the switches at its ends."""

    live: LiveFlow
    own: Path
    ends: tuple[int, int]


class UsidRerouting:
    """See the module; elsewhere than in expanders it does nothing. Methods may be called from several threads."""

    def __init__(self, topology: Topology, policy: Policy, live: LiveFlows) -> None:
        self._topology, self._live = topology, live
        self._network = expander_of(topology) if is_expander(topology) else None
        self._policy = PathPolicy(LISTS_OF_A_PAIR, max(1, policy.channels), max_hops=LIST_HOPS)
        self._failures: Failures = NONE
        self._diverted: dict[str, _Move] = {}
        """flows that do not send by their own lists at the moment, by name"""
        self._lock = threading.RLock()
        if self._network is not None:
            live.subscribers.append(self)

    def repair(self, failures: Failures) -> ReroutedSenders | None:
        """Adapt the lists of all senders to what is down now; None where there are none to adapt."""
        if self._network is None:
            return None
        with self._lock:
            # Computed before any sender hears of it: an error leaves all of them as they were.
            moves = self._moves(self._network.under(failures), self._live.all())
            self._failures = failures
            done = [move for move in moves if self._carry_out(move)]
        returned = sum(move.path == move.own for move in done)
        by_address = sum(not move.path.usids for move in done)
        return ReroutedSenders(moved=len(done) - returned - by_address, returned=returned, by_address=by_address)

    def opened(self, flows: Sequence[LiveFlow]) -> None:
        """Their lists may be broken already."""
        with self._lock:
            if self._network is not None and self._failures:
                for move in self._moves(self._network.under(self._failures), flows):
                    self._carry_out(move)

    def closed(self, flow: LiveFlow) -> None:
        """A flow ends."""
        with self._lock:
            self._diverted.pop(flow.name, None)

    def _carry_out(self, move: _Move) -> bool:
        """Return whether the sender took it: it may have ended meanwhile."""
        try:
            self._live.reroute(move.name, move.path)
        except DetourError as error:
            _log.info("%s has no use for another list: %s", move.name, error)
            return False
        if move.path == move.own:
            self._diverted.pop(move.name, None)
        else:
            self._diverted[move.name] = move
        return True

    def _moves(self, network: Expander, flows: Iterable[LiveFlow]) -> list[_Move]:
        """Return the moves to make while only `network` is left."""
        moves: list[_Move] = []
        broken: list[_Broken] = []
        turn = Counter[tuple[int, int]]()
        for live in flows:
            if live.placed is not None or len(live.flow.paths) != 1:
                continue
            now, move = next(iter(live.flow.paths)), self._diverted.get(live.name)
            # Another object with the same list: somebody has put the flow there by hand, and there it stays.
            own = move.own if move is not None and move.path is now else now
            switches = self._named(live, own)
            if switches is None:
                continue
            ends = switches[0], switches[-1] % network.size
            if _whole(network, switches):
                moves += [_Move(live.name, own, own)] if own != now else []
                continue
            instead = None if own == now else self._named(live, now)
            if instead is None or not _whole(network, instead):
                broken.append(_Broken(live, own, ends))
            else:
                turn[ends] += 1
        return moves + self._instead(network, broken, turn)

    def _named(self, live: LiveFlow, path: Path) -> SwitchPath | None:
        source = self._topology.hosts[live.flow.source_host]
        return named_switches(self._topology, source, path.usids) if path.usids else None

    def _instead(self, network: Expander, broken: Sequence[_Broken], turn: Counter[tuple[int, int]]) -> list[_Move]:
        """Other paths for flows: those of a pair take turns (`turn`: how many had one before)."""
        if not broken:
            return []
        numbers = []
        for each in broken:
            numbers.append(turn[each.ends])
            turn[each.ends] += 1
        moves, hosts = [], self._topology.hosts
        routes, rows = rows_anew(network, self._policy, [each.ends for each in broken], numbers)
        for each, row in zip(broken, rows, strict=True):
            flow, usids = each.live.flow, tuple[int, ...]()
            if row is not None:
                usids = path_usids(self._topology, tuple(routes.path(row, each.ends[0])[0]), hosts[flow.target_host])
            path = Path(each.own.sport, usids)
            if path != flow.paths[0]:
                moves.append(_Move(each.live.name, each.own, path))
        return moves


def _whole(network: Expander, switches: SwitchPath) -> bool:
    """Return whether all links of a path are there."""
    return all((network.stops[a % network.size] == stop).any() for a, stop in pairwise(switches))
