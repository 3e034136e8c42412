# SPDX-License-Identifier: Apache-2.0
"""Operations that send: messages and files between hosts, probes, and traffic that goes on."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path as File

from detour.base.errors import DetourError
from detour.base.progress import Progress
from detour.fabric.backends.base import Fabric
from detour.fabric.backends.clock import PS, Ticker, ps
from detour.fabric.backends.virtual.path_sets import SET_PATHS, path_set
from detour.fabric.operations.control_plane import Paths
from detour.fabric.operations.live_flows import LiveFlows
from detour.fabric.operations.path_placement import PathPlacement
from detour.fabric.operations.results import (
    JobsRan,
    Loaded,
    ProbedPath,
    ProbedPaths,
    QueuingDelay,
    SentMessage,
    UsedPath,
)
from detour.fabric.traffic.flows import (
    Choice,
    FileSink,
    FileSource,
    Flow,
    PatternSink,
    PatternSource,
    Pump,
    probing_choice,
)
from detour.fabric.traffic.workload import load_pairs
from detour.hosts.verbs import CQ, PD, QP, Path
from detour.topo import Host
from detour.topo.topology import HostPair

SLOT_BYTES, LOAD_SLOT_BYTES = 64_000, 16_000
"""messages of `send`, and of `load`"""
_MOST_PAIRS = 512
"""connections of a load: memory of the hosts' arena, and what Python can keep going"""
_PROBED_S = 2.0


class Transfers:
    """See the module. Methods may be called from several threads."""

    def __init__(self, fabric: Fabric, pump: Pump, paths: Paths, placement: PathPlacement, live: LiveFlows) -> None:
        self._fabric, self._topology, self._pump = fabric, fabric.topology, pump
        self._paths, self._placement, self._live = paths, placement, live
        self._rng = random.Random(fabric.terms.seed)

    def send(
        self,
        source: str,
        target: str,
        length: int,
        file: str | None,
        store: str | None,
        sport: int | None,
        usid: str | None,
        spray: bool,
        progress: Progress,
        cancelled: threading.Event | None,
    ) -> SentMessage:
        """Send a message, or a file, and check what arrives: on the path that is given, or that the placement has for
        these hosts, or on one of several that are probed; with `spray` every packet on one of all these, or of a set of
        paths over all planes. Raises DetourError: no such host, path or file, the connection fails, or `cancelled` is
        set."""
        a, b = self._ends(source, target)
        if length < 1:
            raise DetourError(f"{length} bytes to send; expected at least 1")
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
            opened.callback(self._live.close, self._live.open(flow, placed))
            cancelled = cancelled or threading.Event()
            seconds = self._pump.send_once(flow, cancelled, lambda arrived: progress(f"{arrived} of {length} bytes"))
            if flow.failure:
                raise type(flow.failure)(f"{source} to {target}: {flow.failure}")
            if cancelled.is_set():
                raise DetourError(f"{source} to {target}: cancelled after {flow.bytes_ok} bytes")
            return self._sent(a, b, seconds, flow)

    def run_jobs(self, jobs: str, progress: Progress, cancelled: threading.Event | None) -> JobsRan:
        """Run a job file once, on the paths of the placement for hosts that are in it. Raises DetourError: the file is
        wrong, the jobs are too large, a connection fails, or `cancelled` is set."""
        from detour.fabric.operations.job_runs import run_once  # with all of virtual time, which few daemons need

        hosts = self._topology.hosts
        with ExitStack() as opened:

            def connect(source: int, target: int, stream: PatternSource) -> Flow:
                a, b = hosts[source], hosts[target]
                placed, choice = self._choice(a, b, None, None, False)
                self._paths.need_one(a, b, choice.paths)
                sink = PatternSink(stream.seed)
                flow = self._pump.open(source, target, choice, (stream, sink), slot_bytes=LOAD_SLOT_BYTES)
                opened.callback(self._pump.close_flow, flow)
                opened.callback(self._live.close, self._live.open(flow, placed))
                return flow

            cancelled = cancelled or threading.Event()
            return run_once(File(jobs), self._fabric, self._pump, self._paths, connect, self._rng, progress, cancelled)

    def _ends(self, source: str, target: str) -> tuple[Host, Host]:
        """The hosts of these names. Raises DetourError: there is none, they are one, or one is a namespace of Linux."""
        ends = self._paths.ends(source, target)
        for host in ends:
            if self._fabric.linux and host.name in self._fabric.linux:
                raise DetourError(
                    f"{host.name} is a Linux host: send from it with `detour exec {host.name} -- ping6 ...`"
                )
        return ends

    def _choice(self, a: Host, b: Host, sport: int | None, usid: str | None, spray: bool) -> tuple[int | None, Choice]:
        """The flow of the placement that a connection is, if it is one, and its paths."""
        if spray and (sport is not None or usid is not None):
            raise DetourError("--sport and --usid select one path; they do not go with --spray")
        if spray:
            return None, self._spraying(a, b)
        if sport is not None or usid is not None:
            return None, Choice((self._paths.chosen(b, sport, usid),))
        placement = self._placement
        if placement.placed is not None and (placed := placement.next_path(a.index, b.index)) is not None:
            return placed[0], Choice((placed[1],))
        return None, probing_choice(self._topology, a, b, self._rng)

    def _spraying(self, a: Host, b: Host) -> Choice:
        """All lists of the placement, a set of paths over several planes, or else what is probed."""
        if placed := self._placement.placed_paths(a.index, b.index):
            return Choice(placed, spray="spray")
        if self._topology.planes > 1:
            paths = path_set(self._topology, a, b, SET_PATHS, self._rng)
            return Choice(tuple(Path(one.sport, usids=one.usids) for one in paths), spray="pathset")
        return replace(probing_choice(self._topology, a, b, self._rng), spray="spray")

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
        """Probe all candidate paths between two hosts and report their queuing delays."""
        a, b = self._ends(source, target)
        choice = probing_choice(self._topology, a, b, self._rng)
        delays = probe(self._fabric, a.index, b.index, choice.paths)
        tick_ns = self._fabric.terms.hosts.tick_ps // 1000
        names = self._paths.hop_names(a, b, choice.paths)
        rows = [
            ProbedPath(str(path), None if delay is None else delay * tick_ns, hops)
            for path, delay, hops in zip(choice.paths, delays, names, strict=True)
        ]
        return ProbedPaths(source, target, rows)


def _files(file: File, store: File | None) -> tuple[FileSource, FileSink]:
    """Return the source and the sink of a file."""
    source = FileSource(file)
    try:
        return source, FileSink(file, store)
    except BaseException:
        source.close()
        raise


def probe(fabric: Fabric, source: int, target: int, candidates: Sequence[Path]) -> list[int | None]:
    """Accumulated queuing delay on each candidate in ticks; None: no answer within two seconds."""
    sender, receiver, clock = fabric.context(source), fabric.context(target), fabric.clock
    with ExitStack() as opened:
        queues = [opened.enter_context(closing(CQ(context))) for context in (sender, receiver)]
        ours, theirs = (opened.enter_context(closing(QP(PD(queue.context), queue))) for queue in queues)
        ours.connect(theirs.endpoint, candidates=candidates)
        ours.probe()
        end = clock.now_ps + ps(_PROBED_S)
        while None in ours.probed() and clock.now_ps < end:
            clock.wait(clock.now_ps + clock.pause_ps)
        return ours.probed()


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
        """The flows that send now."""
        return [flow for _, flow in self.open.values()]


class Loading:
    """Keeps traffic going, so that there is something to see. Methods may be called from several threads."""

    def __init__(self, fabric: Fabric, pump: Pump, live: LiveFlows) -> None:
        self._fabric, self._topology, self._seed = fabric, fabric.topology, fabric.terms.seed
        self._pump, self._live = pump, live
        self._lock = threading.Lock()
        self._load: _Load | None = None

    def load(self, pattern: str | None, stop: bool) -> Loaded:
        """Begin to send between the pairs of a pattern without end, end that, or say what it has done so far. Raises
        DetourError: there is no such pattern, a load is on already, or none is."""
        if stop and pattern is not None:
            raise DetourError("load: give either a pattern or --stop")
        with self._lock:
            if pattern is not None:
                self._start(pattern)
            elif self._load is None:
                raise DetourError("no load is running; start one like `detour load adv1`")
            counted = self._counted()
            if stop:
                self._stop()
            return counted

    def close(self) -> None:
        """End what there is. May be called twice."""
        with self._lock:
            if self._load is not None:
                self._stop()

    def _start(self, pattern: str) -> None:
        if self._load is not None:
            raise DetourError(f"the load {self._load.pattern} is running; stop it with `detour load --stop`")
        linux = self._fabric.linux_hosts()
        pairs = [pair for pair in load_pairs(self._topology, pattern, self._seed) if linux.isdisjoint(pair)]
        if not pairs:
            raise DetourError(f"{pattern}: all of its pairs have a Linux host")
        if len(pairs) > _MOST_PAIRS:
            raise DetourError(f"{pattern}: {len(pairs)} connections; expected at most {_MOST_PAIRS}")
        load = _Load(pattern, pairs)
        try:
            self._open(load, range(len(pairs)))
        except BaseException:
            self._close(load)
            raise
        clock = self._pump.clock
        load.ticker = clock.every(lambda: clock.pause_ps / PS, lambda: self._turn(load), "load")
        self._load = load

    def _open(self, load: _Load, numbers: Iterable[int]) -> None:
        """Connections: new ones, or in place of those that have failed."""
        opened: dict[int, Flow] = {}
        try:
            for number in numbers:
                opened[number] = self._connected(load, number)
            names = self._live.open_all(opened.values())
        except BaseException:
            for flow in opened.values():
                self._pump.close_flow(flow)
            raise
        load.open |= {number: (name, flow) for (number, flow), name in zip(opened.items(), names, strict=True)}

    def _connected(self, load: _Load, number: int) -> Flow:
        a, b = load.pairs[number]
        seed = (self._seed << 20) + number
        hosts = self._topology.hosts
        choice = probing_choice(self._topology, hosts[a], hosts[b], random.Random(seed + load.reopened))
        stream = PatternSource(seed), PatternSink(seed)
        return self._pump.open(a, b, choice, stream, slot_bytes=LOAD_SLOT_BYTES)

    def _turn(self, load: _Load) -> None:
        """Keep all connections busy, and make those anew that have failed."""
        self._pump.turn(load.flows)
        for number, (_, flow) in list(load.open.items()):
            if flow.failure is not None:
                load.bytes_ok += flow.bytes_ok
                load.bytes_wrong += flow.bytes_wrong
                load.reopened += 1
                self._end(load, number)
                self._open(load, [number])

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
        self._live.close(name)
        self._pump.close_flow(flow)
