# SPDX-License-Identifier: Apache-2.0
"""Operation that keeps traffic going on a running fabric, so that there is something to see."""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from detour.base.errors import DetourError
from detour.fabric.footings.base import Fabric
from detour.fabric.footings.clock import PS, Ticker
from detour.fabric.operations.live_flows import WatchedFlows
from detour.fabric.operations.relisting import Relisting
from detour.fabric.operations.results import Loaded
from detour.fabric.traffic.flows import Flow, Pump
from detour.fabric.traffic.streams import PatternSink, PatternSource
from detour.fabric.traffic.workload import load_pairs, probing_choice
from detour.topo.topology import HostPair

_SLOT_BYTES = 16_000
_MOST_PAIRS = 512
"""connections: memory of the hosts' arena, and what Python can keep going"""


@dataclass
class _Load:
    """Traffic that goes on. `open`: by the number of a pair, the flow and its name for operations; `bytes_ok`,
    `bytes_wrong`: of flows that were made anew."""

    pattern: str
    pairs: list[HostPair]
    open: dict[int, tuple[str, Flow]] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    reopened: int = 0
    bytes_ok: int = 0
    bytes_wrong: int = 0
    ticker: Ticker | None = None

    @property
    def flows(self) -> list[Flow]:
        """Those that send now."""
        return [flow for _, flow in self.open.values()]


class Loading:
    """See the module. Methods may be called from several threads."""

    def __init__(self, fabric: Fabric, pump: Pump, relisting: Relisting, watched: WatchedFlows) -> None:
        self._fabric, self._topology, self._seed = fabric, fabric.topology, fabric.terms.seed
        self._pump, self._relisting, self._watched = pump, relisting, watched
        self._lock = threading.Lock()
        self._load: _Load | None = None

    def load(self, pattern: str | None = None, stop: bool = False) -> Loaded:
        """Begins to send between the pairs of a pattern without end, ends that, or says what it has done so far.

        Raises:
            DetourError: there is no such pattern, a load is on already, or none is.
        """
        if stop and pattern is not None:
            raise DetourError("a load is either begun or ended: give a pattern or --stop")
        with self._lock:
            if pattern is not None:
                self._start(pattern)
            elif self._load is None:
                raise DetourError("no load is on; begin one like `detour load adv1`")
            found = self._counted()
            if stop:
                self._stop()
            return found

    def close(self) -> None:
        """Ends what there is. May be called twice."""
        with self._lock:
            if self._load is not None:
                self._stop()

    def _start(self, pattern: str) -> None:
        if self._load is not None:
            raise DetourError(f"the load {self._load.pattern} is on; `detour load --stop` ends it")
        linux = self._fabric.linux_hosts()
        pairs = [pair for pair in load_pairs(self._topology, pattern, self._seed) if linux.isdisjoint(pair)]
        if not pairs:
            raise DetourError(f"{pattern}: all of its pairs have a Linux host, whose own programs send")
        if len(pairs) > _MOST_PAIRS:
            raise DetourError(f"{pattern}: {len(pairs)} connections; at most {_MOST_PAIRS} can be kept going")
        made = _Load(pattern, pairs)
        try:
            self._watched.begins(*(self._open(made, number) for number in range(len(pairs))))
        except BaseException:
            self._close(made)
            raise
        clock = self._pump.clock
        made.ticker = clock.every(lambda: clock.pause_ps / PS, lambda: self._turn(made), "load")
        self._load = made

    def _open(self, load: _Load, number: int) -> str:
        """Connection `number`: a new one, or in place of one that has failed; returns its name."""
        a, b = load.pairs[number]
        seed = (self._seed << 20) + number
        hosts = self._topology.hosts
        choice = probing_choice(self._topology, hosts[a], hosts[b], random.Random(seed + load.reopened))
        stream = PatternSource(seed), PatternSink(seed)
        with ExitStack() as opened:
            flow = self._pump.open(a, b, choice, stream, slot_bytes=_SLOT_BYTES)
            opened.callback(self._pump.close_flow, flow)
            name = self._watched.live.open(flow)
            opened.pop_all()
        load.open[number] = name, flow
        self._relisting.opened(name)
        return name

    def _turn(self, load: _Load) -> None:
        """Keeps all connections busy, and makes those anew that have failed."""
        self._pump.turn(load.flows)
        for number, (_, flow) in list(load.open.items()):
            if flow.failure is not None:
                load.bytes_ok += flow.bytes_ok
                load.bytes_wrong += flow.bytes_wrong
                load.reopened += 1
                self._end(load, number)
                self._watched.begins(self._open(load, number))

    def _counted(self) -> Loaded:
        load = self._load
        assert load is not None
        return Loaded(
            pattern=load.pattern,
            pairs=len(load.pairs),
            bytes_ok=load.bytes_ok + sum(flow.bytes_ok for flow in load.flows),
            bytes_wrong=load.bytes_wrong + sum(flow.bytes_wrong for flow in load.flows),
            reopened=load.reopened,
            seconds=round(time.monotonic() - load.began, 1),
        )

    def _stop(self) -> None:
        load, self._load = self._load, None
        assert load is not None
        if load.ticker is not None:
            load.ticker.stop()
        self._close(load)

    def _close(self, load: _Load) -> None:
        for number in list(load.open):
            self._end(load, number)

    def _end(self, load: _Load, number: int) -> None:
        name, flow = load.open.pop(number)
        self._relisting.closed(name)
        self._watched.ends(name)
        self._watched.live.close(name)
        self._pump.close_flow(flow)
