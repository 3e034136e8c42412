# SPDX-License-Identifier: Apache-2.0
"""Operations that send: messages and files between hosts, and probes."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path as File

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.fabric.footings.base import Fabric
from detour.fabric.operations.live_flows import WatchedFlows
from detour.fabric.operations.paths import Paths
from detour.fabric.operations.prober import probe
from detour.fabric.operations.relisting import Relisting
from detour.fabric.operations.results import ProbedPath, ProbedPaths, QueuingDelay, SentMessage, UsedPath
from detour.fabric.operations.steering import Steering
from detour.fabric.traffic.flows import Choice, Flow, Pump
from detour.fabric.traffic.streams import FileSink, FileSource, PatternSink, PatternSource
from detour.fabric.traffic.workload import probing_choice, send_once
from detour.topo import Host

SLOT_BYTES = 64_000
"""messages of `send`"""


class Transfers:
    """See the module. Methods may be called from several threads."""

    def __init__(
        self,
        fabric: Fabric,
        pump: Pump,
        paths: Paths,
        steering: Steering,
        relisting: Relisting,
        watched: WatchedFlows,
    ) -> None:
        self._relisting = relisting
        self._fabric, self._topology, self._pump, self._live = fabric, fabric.topology, pump, watched.live
        self._paths, self._steering, self._watched = paths, steering, watched
        self._rng = random.Random(fabric.terms.seed)

    def send(
        self,
        source: str,
        target: str,
        length: int = 1_000_000,
        file: str | None = None,
        store: str | None = None,
        sport: int | None = None,
        usid: str | None = None,
        spray: bool = False,
        progress: Progress = silent,
        cancelled: threading.Event | None = None,
    ) -> SentMessage:
        """Sends a message, or a file, and checks what arrives: on the path that is given, or that the placement has for
        these hosts, or on one of several that are probed; with `spray` on all of these, every packet on its own.

        Raises:
            DetourError: no such host, path or file, the connection fails, or `cancelled` is set.
        """
        a, b = self._ends(source, target)
        if length < 1:
            raise DetourError(f"{length} bytes cannot be sent; at least 1")
        placed, choice = self._choice(a, b, sport, usid, spray)
        self._paths.need_one(a, b, choice.paths)
        seed = self._rng.randrange(1 << 63)
        if file is None:
            stream = PatternSource(seed, length), PatternSink(seed)
        else:
            stream = _files(File(file), None if store is None else File(store))
            length = stream[0].length
        with ExitStack() as opened:
            flow = self._pump.open(a.index, b.index, choice, stream, slot_bytes=SLOT_BYTES)
            opened.callback(self._pump.close_flow, flow)
            name = self._live.open(flow, placed)
            for end in (self._live.close, self._watched.ends, self._relisting.closed, self._steering.closed):
                opened.callback(end, name)
            self._steering.opened(name, placed)
            self._relisting.opened(name)
            self._watched.begins(name)
            cancelled = cancelled or threading.Event()
            seconds = send_once(self._pump, flow, cancelled, _counting(progress, length))
            if flow.failure:
                raise type(flow.failure)(f"{source} to {target}: {flow.failure}")
            if cancelled.is_set():
                raise DetourError(f"{source} to {target}: cancelled after {flow.bytes_ok} bytes")
            return self._sent(a, b, seconds, flow)

    def _ends(self, source: str, target: str) -> tuple[Host, Host]:
        for name in (source, target):
            self._fabric.own_host(name)
        return self._paths.ends(source, target)

    def _choice(self, a: Host, b: Host, sport: int | None, usid: str | None, spray: bool) -> tuple[int | None, Choice]:
        """The flow of the placement that a connection is, if it is one, and its paths."""
        if spray and (sport is not None or usid is not None):
            raise DetourError("a path was given, and spraying takes several; give one of the two")
        if spray:
            placed = self._steering.placed_paths(a.index, b.index)
            found = Choice(placed) if placed else probing_choice(self._topology, a, b, self._rng)
            return None, replace(found, spray=True)
        if sport is not None or usid is not None:
            return None, Choice((self._paths.chosen(b, sport, usid),))
        placed = self._steering.next_path(a.index, b.index)
        if placed is not None:
            return placed[0], Choice((placed[1],))
        return None, probing_choice(self._topology, a, b, self._rng)

    def _sent(self, a: Host, b: Host, seconds: float, flow: Flow) -> SentMessage:
        stats = flow.stats()
        used = flow.packets_by_path()
        names = self._paths.hop_names(a, b, used)
        paths = [UsedPath(str(path), used[path], hops) for path, hops in zip(used, names, strict=True)]
        return SentMessage(
            bytes_ok=flow.bytes_ok,
            throughput_mbps=flow.bytes_ok * 8 / seconds / 1e6,
            paths=paths,
            retransmitted=stats["retransmitted"],
            ecn_marked=stats["ecn_marked"],
            queuing_delay_ns=QueuingDelay(**(stats["queuing_delay_ns"] or {})),
        )

    def probe(self, source: str, target: str) -> ProbedPaths:
        """Probes all candidate paths between two hosts and reports their queuing delays."""
        a, b = self._ends(source, target)
        choice = probing_choice(self._topology, a, b, self._rng)
        found = probe(self._fabric, a.index, b.index, choice.paths)
        tick_ns = self._fabric.terms.hosts.tick_ps // 1000
        names = self._paths.hop_names(a, b, choice.paths)
        rows = [
            ProbedPath(str(path), None if delay is None else delay * tick_ns, hops)
            for path, delay, hops in zip(choice.paths, found, names, strict=True)
        ]
        return ProbedPaths(source, target, rows)


def _files(file: File, store: File | None) -> tuple[FileSource, FileSink]:
    """What sends a file and what takes it."""
    source = FileSource(file)
    try:
        return source, FileSink(file, store)
    except BaseException:
        source.close()
        raise


def _counting(progress: Progress, total: int) -> Callable[[int], None]:
    return lambda arrived: progress(f"{arrived} of {total} bytes")
