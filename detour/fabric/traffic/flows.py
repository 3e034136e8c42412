# SPDX-License-Identifier: Apache-2.0
"""Messages between hosts over verbs: a flow is one connection that streams messages through slots of memory, from
patterns that are checked, or files.

A message is one RDMA WRITE with immediate into a slot of the receiver's region. When it has arrived, its bytes
are taken out of the receiver's memory and checked; only then is the slot used again, on both sides. All hosts
of a fabric are reached from this process, so that needs no message back.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from detour.base.errors import DetourError
from detour.base.files import NewFile, naming
from detour.base.times import MAX_TIME
from detour.control.routes.hashes import probe_ports
from detour.fabric.backends.clock import PS, FabricClock, ps
from detour.hosts import verbs
from detour.topo import Host, Topology

SLOTS = 6
"""messages under way; enough that the sender has the backlog at which it begins to probe"""

_ECMP_CANDIDATES = 8
"""source ports to probe where there is no Valiant routing; different ones may take different shortest paths"""


# -- what messages carry ----------------------------------------------------------------------------------


class Source(Protocol):
    """The source of a flow's data."""

    def take(self, message: int, limit: int) -> bytes:
        """The bytes of message number `message`, at most `limit`; empty: there is no more."""
        ...

    def close(self) -> None:
        """No more is taken."""
        ...


class Sink(Protocol):
    """The sink of a flow's data."""

    def accept(self, message: int, data: bytes) -> bool:
        """Take message number `message` out of the receiver's memory; whether it is what was sent."""
        ...

    def close(self) -> None:
        """There is no more."""
        ...


def pattern(seed: int, message: int, length: int) -> bytes:
    """Bytes that no other message has: those of a generator keyed by seed and message number."""
    key = np.array([seed, message], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).bytes(length)


class PatternSource:
    """`total` bytes of patterns (None: without end)."""

    def __init__(self, seed: int, total: int | None = None) -> None:
        self.seed = seed
        self._left = total

    def take(self, message: int, limit: int) -> bytes:
        length = limit if self._left is None else min(limit, self._left)
        if self._left is not None:
            self._left -= length
        return pattern(self.seed, message, length) if length else b""

    def add(self, length: int) -> None:
        """So many bytes more."""
        self._left = (self._left or 0) + length

    def close(self) -> None:
        """Nothing to do."""


class PatternSink:
    """Compares every message with its pattern."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def accept(self, message: int, data: bytes) -> bool:
        return data == pattern(self._seed, message, len(data))

    def close(self) -> None:
        """Nothing to do."""


class FileSource:
    """The bytes of a file."""

    def __init__(self, path: Path) -> None:
        """Raise DetourError: it cannot be read."""
        try:
            self._file = path.open("rb")
            self.length = path.stat().st_size
        except OSError as error:
            raise DetourError(f"file {path}: {error.strerror}") from None

    def take(self, message: int, limit: int) -> bytes:
        try:
            data = self._file.read(limit)
        except OSError as error:
            raise DetourError(f"file {self._file.name}: {error.strerror}") from None
        return data

    def close(self) -> None:
        self._file.close()


class FileSink:
    """Checks every message against the file that is sent, and stores it if a path is given: all of it, or nothing."""

    def __init__(self, original: Path, store: Path | None = None) -> None:
        """Raise DetourError: one of the files cannot be opened."""
        with ExitStack() as opened:
            try:
                self._original = opened.enter_context(original.open("rb"))
            except OSError as error:
                raise DetourError(f"file {original}: {error.strerror}") from None
            self._stored = None if store is None else NewFile(store)
            opened.pop_all()

    def accept(self, message: int, data: bytes) -> bool:
        if self._stored is not None:
            with naming(self._stored.path):
                self._stored.file.write(data)
        try:
            return data == self._original.read(len(data))
        except OSError as error:
            raise DetourError(f"a file cannot be compared: {error.strerror}") from None

    def close(self) -> None:
        """Keep the stored file if as much has come as there was to send. May be called twice. Raises WriteError if the
        rest of it cannot be written."""
        if self._original.closed:
            return
        with self._original:
            complete = not self._original.read(1)
        if self._stored is not None:
            self._stored.keep() if complete else self._stored.discard()


# -- connections --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """Path selection of a flow: the only one there is, or, if there are several, by probing them; with `react` it
    stays on one until that is congested (`hosts.paths.reacting`), with `spray` every packet has a path of its own,
    which that scheme chooses."""

    paths: tuple[verbs.Path, ...]
    react: bool = False
    spray: str | None = None

    def connect(self, qp: verbs.QP, remote: verbs.Endpoint) -> None:
        """Connect the sender's verbs.QP accordingly."""
        if len(self.paths) == 1:
            qp.connect(remote, path=self.paths[0])
        else:
            qp.connect(remote, candidates=self.paths, react=self.react, choice=self.spray)


def shortest_choice(rng: random.Random) -> Choice:
    """One random shortest path."""
    return Choice((verbs.Path(rng.randrange(1 << 15)),))


def probing_choice(topology: Topology, source: Host, target: Host, rng: random.Random) -> Choice:
    """The |G| - 1 candidates of section III, beginning with a shortest path."""
    start = rng.randrange(1 << 15)
    if topology.valiant_groups > 2 and source.group != target.group:
        ports = probe_ports(source.group, target.group, topology.valiant_groups, start)
    else:
        ports = tuple(rng.sample(range(1 << 15), _ECMP_CANDIDATES))
    return Choice(tuple(verbs.Path(port) for port in ports))


class HostQueues:
    """A host's domain and completion queue, shared by its flows."""

    def __init__(self, device: verbs.Device, host: int, name: str) -> None:
        self.context, self.name = verbs.Context(device, host), name
        self.pd = verbs.PD(self.context)
        self.cq = verbs.CQ(self.context)


class Flow:
    """A stream of messages from one host to another. Made by `Pump.open`."""

    def __init__(
        self,
        source_host: HostQueues,
        target_host: HostQueues,
        choice: Choice,
        stream: tuple[Source, Sink],
        slots: int,
        slot_bytes: int,
    ) -> None:
        self.source_host, self.target_host = source_host.context.host, target_host.context.host
        self.ends = source_host.name, target_host.name
        self._source, self._sink = stream
        self._slots, self._slot_bytes = slots, slot_bytes
        size, landing = slots * slot_bytes, verbs.AccessFlag.LOCAL_WRITE | verbs.AccessFlag.REMOTE_WRITE
        with ExitStack() as opened:
            opened.enter_context(closing(self._source))
            opened.enter_context(closing(self._sink))
            self._memory = opened.enter_context(closing(verbs.MR(source_host.pd, size, verbs.AccessFlag.LOCAL_WRITE)))
            self._landing = opened.enter_context(closing(verbs.MR(target_host.pd, size, landing)))
            self.qp = opened.enter_context(closing(verbs.QP(source_host.pd, source_host.cq)))
            self.peer = opened.enter_context(closing(verbs.QP(target_host.pd, target_host.cq)))
            self.peer.connect(self.qp.endpoint)
            choice.connect(self.qp, self.peer.endpoint)
            self._opened = opened.pop_all()
        self._current = choice.paths
        self._paths = {str(path): path for path in choice.paths}
        self._earlier: dict[str, int] = {}
        self.posted = self._completed = self._received = 0
        self._lengths: dict[int, int] = {}
        self.bytes_sent = self.bytes_ok = self.bytes_wrong = 0
        self.exhausted = False
        self.failure: DetourError | None = None

    @property
    def done(self) -> bool:
        """All that was posted has arrived, or the connection has failed."""
        return self.failure is not None or (self.exhausted and min(self._completed, self._received) == self.posted)

    @property
    def has_room(self) -> bool:
        """Return whether another message may be posted."""
        in_use = self.posted - min(self._completed, self._received)
        return not self.exhausted and self.failure is None and in_use < self._slots

    def prepare(self) -> list[verbs.SendWR]:
        """Fill free slots; return the requests to post for them."""
        requests = []
        while self.has_room:
            try:
                data = self._source.take(self.posted, self._slot_bytes)
            except DetourError as error:
                self.failure = error
                break
            if not data:
                self.exhausted = True
                break
            offset = self.posted % self._slots * self._slot_bytes
            self._memory.write(data, offset)
            there = self._landing.addr + offset
            sge = self._memory.sge(offset, len(data))
            requests.append(verbs.SendWR(self.posted, sge, there, self._landing.rkey, self.posted))
            self._lengths[self.posted] = len(data)
            self.bytes_sent += len(data)
            self.posted += 1
        return requests

    def complete(self, wc: verbs.WC) -> None:
        """Take a completion of either side."""
        if wc.status != verbs.WCStatus.SUCCESS:
            self.failure = self.failure or DetourError(f"{wc.status.name} after {self.bytes_ok} bytes")
        elif wc.opcode == verbs.WCOpcode.RECV_RDMA_WITH_IMM:
            self._take_out()
        else:
            self._completed += 1

    def _take_out(self) -> None:
        """The next message lies in its slot: immediates come in the order of the messages."""
        message = self._received
        length = self._lengths.pop(message)
        data = self._landing.read(length, message % self._slots * self._slot_bytes)
        self._received += 1
        try:
            intact = self._sink.accept(message, data)
        except DetourError as error:  # not for whoever happens to poll, but for whoever waits for this flow
            self.failure = self.failure or error
            return
        if intact:
            self.bytes_ok += length
        else:
            self.bytes_wrong += length

    def stats(self) -> dict[str, Any]:
        """The sender's counters (`QP.stats`)."""
        return self.qp.stats()

    @property
    def current_path(self) -> verbs.Path:
        """The path of the next packet."""
        return self._paths[self.qp.current_path]

    @property
    def paths(self) -> tuple[verbs.Path, ...]:
        """The paths that its packets may take now."""
        return self._current

    def packets_by_path(self) -> dict[verbs.Path, int]:
        """Data packets on every path that was used."""
        return {self._paths[name]: packets for name, packets in self._packets().items()}

    def _packets(self) -> dict[str, int]:
        now = self.stats()["paths"]
        return {name: self._earlier.get(name, 0) + now.get(name, 0) for name in self._earlier | now}

    def reroute(self, path: verbs.Path, now_ps: int) -> None:
        """The sender takes this path from the next packet on, and no other."""
        self._earlier = self._packets()
        self._paths[str(path)] = path
        self._current = (path,)
        self.qp.set_path(path, now_ps=now_ps)

    def close(self) -> None:
        """End the connection, free its memory and close what it was made of. May be called twice."""
        self._opened.close()


class Pump:
    """Keeps flows going: one thread at a time polls completions and posts what comes next, by the fabric's clock."""

    def __init__(self, device: verbs.Device, clock: FabricClock, topology: Topology) -> None:
        self._device, self._topology = device, topology
        self.clock = clock
        self._hosts: dict[int, HostQueues] = {}
        self._by_cq: dict[int, HostQueues] = {}
        self._flows: dict[tuple[int, int], Flow] = {}
        self._lock = threading.RLock()

    def open(
        self,
        source: int,
        target: int,
        choice: Choice,
        stream: tuple[Source, Sink],
        *,
        slots: int = SLOTS,
        slot_bytes: int,
    ) -> Flow:
        """A connection from host `source` to host `target` that sends nothing yet. It closes its stream when it ends.
        Raises DetourError: no memory or no queue pairs are left; the stream is closed."""
        with self._lock:
            flow = Flow(self._queues(source), self._queues(target), choice, stream, slots, slot_bytes)
            self._flows[source, flow.qp.qp_num] = flow
            self._flows[target, flow.peer.qp_num] = flow
            return flow

    def _queues(self, host: int) -> HostQueues:
        if host not in self._hosts:
            queues = self._hosts[host] = HostQueues(self._device, host, self._topology.hosts[host].name)
            self._by_cq[queues.cq.index] = queues
        return self._hosts[host]

    def close_flow(self, flow: Flow) -> None:
        """End a flow; what is under way is lost."""
        with self._lock:
            self._flows.pop((flow.source_host, flow.qp.qp_num), None)
            self._flows.pop((flow.target_host, flow.peer.qp_num), None)
            flow.close()

    def turn(self, flows: Iterable[Flow]) -> None:
        """Take completions of all flows and post messages of these."""
        with self._lock:
            self._poll()
            ready = [(flow.qp, request) for flow in flows for request in flow.prepare()]
            if ready:
                # One visit to the hosts' thread for all of them, and as short a one as can be.
                self._device.call(lambda: [qp.post_send(request) for qp, request in ready])

    def _poll(self) -> None:
        cq = self._device.hs.cq
        for index in np.flatnonzero(cq["head"] != cq["tail"]).tolist():
            queues = self._by_cq.get(index)
            if queues is None:
                continue
            while completions := queues.cq.poll(64):
                for wc in completions:
                    flow = self._flows.get((queues.context.host, wc.qp_num))
                    if flow is not None:
                        flow.complete(wc)

    def run(
        self, flows: Sequence[Flow], until: Callable[[], bool] = lambda: False, seconds: float | None = None
    ) -> None:
        """Pump until all flows are done, `until` holds, or the time is over."""
        end = MAX_TIME if seconds is None else self.clock.now_ps + ps(seconds)
        while not all(flow.done for flow in flows) and not until():
            self.turn(flows)
            now = self.clock.now_ps
            if now >= end:
                return
            self.clock.wait(min(now + self.clock.pause_ps, end))

    def drain(self, flows: Sequence[Flow], seconds: float) -> None:
        """Post nothing new and wait until what was posted has arrived. Raises DetourError: some of it has not arrived
        in time."""
        for flow in flows:
            flow.exhausted = True
        self.run(flows, seconds=seconds)
        late = [flow for flow in flows if not flow.done]
        if late:
            first = late[0]
            raise DetourError(
                f"{len(late)} of {len(flows)} connections have not finished {seconds:g} s after their last message, "
                f"the first from {' to '.join(first.ends)}"
            )

    def send_once(self, flow: Flow, cancelled: threading.Event, progress: Callable[[int], None]) -> float:
        """Send what the flow has; return the seconds it took by the fabric's clock. `progress` is called with the
        bytes that have arrived."""
        clock = self.clock
        begin = clock.now_ps

        def ended() -> bool:
            progress(flow.bytes_ok)
            return cancelled.is_set()

        self.run([flow], ended)
        return max(clock.now_ps - begin, clock.pause_ps) / PS
