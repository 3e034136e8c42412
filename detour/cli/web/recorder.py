# SPDX-License-Identifier: Apache-2.0
"""A run of `detour sim` that is recorded, shown as it goes, or played back: looks at it as the page wants to see them.

Looks are a microsecond apart at first. When there are too many every second one goes and the distance is doubled;
counters are cumulative, so nothing is lost by that but resolution.

A file (`detour sim --record`, `detour web --run`) is lines of JSON, compressed by gzip. The first line is the head:
`detour_recorded_run`, the version of the format; `program_version`, of detour; `graph` and `directions` as the page
draws them; `status`, what was run; `repeat`, how to run it again (`experiments.sim.replay.run_files`). A line for each
sample follows (docs/web.md), and last `{"paths": ..., "samples": N}`: the paths of flows by name, each with `t`, `path`
and, where it is one path, `switches`."""

from __future__ import annotations

import gzip
import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.base.files import new_file
from detour.base.times import US
from detour.base.version import VERSION
from detour.cli.web.feed import NAMED, SampleHub, moved_event
from detour.cli.web.layers import graph_of
from detour.cli.web.server import NotThereError, Query, Question, asked_for
from detour.cli.web.serving import page_beside
from detour.control.p4runtime.monitor import PORT_COUNTERS
from detour.control.verifier.trace import Tracer
from detour.experiments.sim.replay.run_files import DAMAGED_RUN, RUN_FORMAT, RUN_MARK, run_head, run_lines
from detour.experiments.sim.watching import Watcher
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.hosts import verbs
from detour.topo.address import ipv6_text
from detour.topo.names import link_name

_COLUMNS = ("use", "up", "queue", "drops", "marks")

RunSample = dict[str, Any]
FlowPaths = Mapping[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class RecordedRun:
    """The content of a recording."""

    head: dict[str, Any]
    samples: list[RunSample]
    paths: FlowPaths


def write_run(path: Path, head: Mapping[str, Any], samples: Iterable[RunSample], paths: FlowPaths) -> None:
    """Write a file. Raises `DetourError`: it cannot be written."""
    first = {RUN_MARK: RUN_FORMAT, "program_version": VERSION, **head}
    count = 0
    # The same run gives the same bytes: no time stamp, no name.
    with new_file(path) as raw, gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as packed:
        packed.write(_line(first))
        for sample in samples:
            packed.write(_line(sample))
            count += 1
        packed.write(_line({"paths": paths, "samples": count}))


def _line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def read_run(path: Path) -> RecordedRun:
    """Read a file. Raises `DetourError`: it cannot be read, is none, is of another version, or ends too early."""
    with run_lines(path) as lines:
        head = run_head(path, lines.readline())
        if missing := [key for key in ("graph", "directions", "status") if key not in head]:
            raise DetourError(f"{path}: the recorded run has no {', '.join(missing)}")
        rest = [json.loads(line) for line in lines]
    if not rest or not isinstance(rest[-1], dict) or rest[-1].get("samples") != len(rest) - 1 or len(rest) < 2:
        raise DetourError(f"{path}: {DAMAGED_RUN}")
    *samples, last = rest
    directions = len(head["directions"])
    for number, sample in enumerate(samples, 1):
        if not isinstance(sample, dict) or any(len(sample.get(column, ())) != directions for column in _COLUMNS):
            raise DetourError(f"{path}: sample {number} does not have {directions} directions of links")
    return RecordedRun(head, samples, last["paths"])


_FIRST_PS = US
_MOST_VALUES = 1_500_000  # looks times directions of links
_MOST, _LEAST = 600, 64
_FLOWS_SHOWN = 200
_PATHS_SHOWN = 20


@dataclass(frozen=True)
class _Look:
    """Cumulative counters, and what is so at that moment, by direction or by connection."""

    now_ps: int
    sent: Int64Array
    drops: Int64Array
    marks: Int64Array
    queue: Int64Array
    up: Int64Array
    received: Int64Array
    packets: Int64Array
    marked: Int64Array
    delay_sum: Int64Array
    delay_samples: Int64Array
    busy: np.ndarray
    cwnd: np.ndarray
    paths: list[str]
    failures: list[str]
    events: list[dict[str, Any]] = field(default_factory=list)


class RunRecorder(Watcher):
    """Watches one run."""

    def __init__(self, about: str, heard: Callable[[RunSample], None] = lambda sample: None) -> None:
        """`about`: what is run, in words. `heard`: gets every sample as it is taken."""
        self._about, self._heard = about, heard
        self.begun: Callable[[], None] = lambda: None
        """called when `head` is known"""
        self._every = _FIRST_PS
        self._looks: list[_Look] = []
        self._events: list[dict[str, Any]] = []
        self._failures: list[str] = []
        self._pauses = np.zeros(0, np.int64)
        self._path_of: list[str] = []
        self._ways: dict[tuple[int, str], list[str] | None] = {}
        self._tracer: Tracer | None = None
        self._stuck = False
        self.paths: dict[str, list[dict[str, Any]]] = {}
        """the last ways of all connections that have sent"""
        self.due_ps = 0
        self.head: dict[str, Any] = {}

    def begin(self, fabric: VirtualFabric) -> None:
        """Before anything is sent; connections are there."""
        super().begin(fabric)
        topology = fabric.topology
        stats = fabric.network.port_stats()
        ends = zip(stats["device_id"].tolist(), stats["port"].tolist(), strict=True)
        row = {end: number for number, end in enumerate(ends)}
        links = [(link, end) for link in topology.links for end in fabric.link_ends(link.index)]
        self._rows = np.array([row[end] for _, end in links], np.int64)
        self._rates = stats["rate_bps"][self._rows].astype(np.float64)
        self._ends = [end for _, end in links]
        self._most = max(_LEAST, min(_MOST, _MOST_VALUES // max(1, len(links))))
        hs, flows = fabric.hs, fabric.flows
        pairs = list(zip(hs.qp["host"][flows.sender].tolist(), hs.qp["host"][flows.receiver].tolist(), strict=True))
        seen: dict[tuple[int, int], int] = {}
        names = []
        for pair in pairs:
            copy = seen[pair] = seen.get(pair, 0) + 1
            names.append(link_name(topology.hosts[pair[0]].name, topology.hosts[pair[1]].name, copy))
        self._names, self._pairs = names, pairs
        directions = [
            {"link": link.name, "from": f"{topology.switch_name(device)}:{port}"} for link, (device, port) in links
        ]
        status = {
            "topology": topology.spec, "target": "virtual time", "switches": len(topology.switches),
            "hosts": len(topology.hosts), "links": len(topology.links), "connections": len(pairs),
            "rate_mbps": fabric.settings.links.rate_bps / 1e6, "about": self._about,
        }  # fmt: skip
        self.head = {"graph": graph_of(topology), "directions": directions, "status": status}
        self.begun()
        self.look()

    def note(self, kind: str, text: str, failures: list[str]) -> None:
        """Something has happened, and these are down now."""
        self._events.append({"t": self._fabric.now_ps / 1e12, "kind": kind, "text": text})
        self._failures = failures
        if kind == "routes":
            self._tracer = None
            self._ways.clear()
            self._path_of = []  # the same path may be another way now

    # -- looking --------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Note how things are at the end."""
        self.look()

    def look(self) -> None:
        """Note how things are now."""
        fabric = self._fabric
        now = fabric.now_ps
        if self._looks and now == self._looks[-1].now_ps:
            return
        self._pauses_since()
        if (deadlock := fabric.deadlock_found) is not None and not self._stuck:
            self._stuck = True
            self._events.append({"t": deadlock.at_ps / 1e12, "kind": "deadlock", "text": str(deadlock)})
        self._looks.append(self._look(now))
        sample = self._sample(len(self._looks) - 1)
        if len(self._looks) > 1:
            self._heard(sample)
        if len(self._looks) > self._most:
            self._thin()
        self.due_ps = now + self._every

    def _look(self, now: int) -> _Look:
        fabric = self._fabric
        stats, column, rows = fabric.network.port_stats(), fabric.column, self._rows
        busy = column("sq_una") != column("sq_end")
        paths = self._paths_now(busy)
        self._note_paths(now, paths, busy)
        events, self._events = self._events, []
        return _Look(
            now, stats["tx_bytes"][rows].astype(np.int64),
            (stats["queue_drops"] + stats["link_drops"] + stats["egress_drops"])[rows].astype(np.int64),
            self._marks(), stats["queue_packets"][rows].astype(np.int64), stats["up"][rows].astype(np.int64),
            column("st_rx_bytes").copy(), column("st_rx_packets").copy(), column("st_rx_ecn_marked").copy(),
            column("st_rx_delay_sum").copy(), column("st_rx_delay_samples").copy(), busy,
            column("cwnd").astype(np.float64), paths, list(self._failures), events,
        )  # fmt: skip

    def _marks(self) -> Int64Array:
        """Packets that were marked on their way out of each port."""
        name, states = PORT_COUNTERS["marked"], self._fabric.states
        counters = ((states[device].counters.get(name), port) for device, port in self._ends)
        return np.array([0 if counter is None else counter.read(port)[0] for counter, port in counters], np.int64)

    def _pauses_since(self) -> None:
        """An event of PFC frames that switches have sent since the last look."""
        fabric = self._fabric
        if not fabric.scheme.lossless:
            return
        switches = fabric.topology.switches
        sent = np.array([fabric.network.buffer_stats(s.device_id)["pauses_sent"] for s in switches], np.int64)
        before, self._pauses = self._pauses if len(self._pauses) else np.zeros_like(sent), sent
        more = sent - before
        if more.any():
            order = np.argsort(-more, kind="stable")
            names = [f"{switches[at].name} ({more[at]})" for at in order[:NAMED] if more[at]]
            rest = int((more > 0).sum()) - len(names)
            text = f"PFC: pauses sent by {', '.join(names)}" + (f" and {rest} more" if rest > 0 else "")
            self._events.append({"kind": "pfc", "text": text, "count": int(more.sum())})

    def _thin(self) -> None:
        """Every second look goes; what happened, and the longest queue of both, stays."""
        kept = [self._looks[0]]
        for between, at in zip(self._looks[1::2], self._looks[2::2], strict=False):
            queue = np.maximum(between.queue, at.queue)
            kept.append(replace(at, queue=queue, events=between.events + at.events))
        if len(self._looks) % 2 == 0:
            kept.append(self._looks[-1])
        self._looks = kept
        self._every *= 2

    # -- paths ----------------------------------------------------------------------------------------------

    def _paths_now(self, busy: np.ndarray) -> list[str]:
        """Return the current path of every connection that sends, in words; those that spray have none of their own."""
        fabric = self._fabric
        hs, rows = fabric.hs, fabric.flows.sender
        paths = list(self._path_of or [""] * len(rows))
        for number in np.flatnonzero(busy).tolist():
            row = rows[number]
            q = hs.qp[row]
            if q["sprays"]:
                paths[number] = f"sprayed over {int(q['n_cand'])} paths"
                continue
            way = hs.candidate[row, int(q["cand"])]
            address = (int(way["dst_hi"]) & (1 << 64) - 1) << 64 | int(way["dst_lo"]) & (1 << 64) - 1
            paths[number] = f"usid:{ipv6_text(address)}" if address else str(verbs.Path(int(way["sport"])))
        return paths

    def _note_paths(self, now: int, paths: list[str], busy: np.ndarray) -> None:
        """Connections that have another path now, in one event."""
        moved = []
        for number in np.flatnonzero(busy).tolist():
            path, before = paths[number], self._path_of[number] if self._path_of else ""
            if path == before:
                continue
            name = self._names[number]
            had = self.paths.setdefault(name, [])
            way = {"path": path, "switches": self._switches(number, path)}
            if not had or {key: had[-1][key] for key in way} != way:
                had.append({"t": now / 1e12, **way})
                del had[:-_PATHS_SHOWN]
            if before:
                moved.append(f"{name} to {path}")
        self._path_of = paths
        self._events += moved_event(moved)

    def _switches(self, number: int, path: str) -> list[str] | None:
        """The way through the tables as they are, if it is one."""
        fabric = self._fabric
        if not path.startswith("sport:") or fabric.scheme.policy.program != "fabric":
            return None
        if (number, path) not in self._ways:
            if self._tracer is None:
                self._tracer = Tracer(fabric.installed(), fabric.topology)
            a, b = (fabric.topology.hosts[host] for host in self._pairs[number])
            traced = self._tracer.trace(a, b, int(path.removeprefix("sport:"), 16))
            self._ways[number, path] = fabric.topology.path_names(traced.path(fabric.topology))
        return self._ways[number, path]

    # -- what comes of it -----------------------------------------------------------------------------------

    def samples(self) -> list[RunSample]:
        """All looks that were kept, each with what passed since the one before."""
        return [self._sample(number) for number in range(1, len(self._looks))]

    def _sample(self, number: int) -> RunSample:
        at, before = self._looks[number], self._looks[max(0, number - 1)]
        seconds = max(at.now_ps - before.now_ps, 1) / 1e12
        use = np.minimum((at.sent - before.sent) * 8 / (seconds * self._rates), 1.0)
        flows, left_out = self._flows(at, before, seconds)
        return {
            "t": at.now_ps / 1e12, "up": at.up.tolist(), "use": np.round(use, 3).tolist(), "queue": at.queue.tolist(),
            "drops": (at.drops - before.drops).tolist(), "marks": (at.marks - before.marks).tolist(),
            "flows": flows, "flows_left_out": left_out, "failures": at.failures, "impaired": [], "events": at.events,
        }  # fmt: skip

    def _flows(self, at: _Look, before: _Look, seconds: float) -> tuple[list[dict[str, Any]], int]:
        """Connections that sent since the look before, those that received most first; and how many are left out."""
        received = at.received - before.received
        shown = np.flatnonzero(at.busy | (received > 0))
        order = shown[np.argsort(-received[shown], kind="stable")]
        packets = np.maximum(at.packets - before.packets, 1)
        ecn = (at.marked - before.marked) / packets
        waits = np.maximum(at.delay_samples - before.delay_samples, 1)
        tick_ms = self._fabric.config.tick_ps / 1e9
        delay = (at.delay_sum - before.delay_sum) * tick_ms / waits
        rows = [
            {"name": self._names[n], "path": at.paths[n], "mbps": round(float(received[n]) * 8 / seconds / 1e6, 3),
             "ecn": round(min(float(ecn[n]), 1.0), 4), "delay_ms": round(float(delay[n]), 6),
             "bytes": int(at.received[n]), "cwnd": round(float(at.cwnd[n]), 1)}
            for n in order[:_FLOWS_SHOWN].tolist()
        ]  # fmt: skip
        return rows, max(0, len(order) - _FLOWS_SHOWN)


class WatchedRun:
    """The result of `watched_run`."""

    def __init__(self, record: Path | None, port: int | None, about: str, as_json: bool, stack: ExitStack) -> None:
        self._record, self._port, self._as_json, self._stack = record, port, as_json, stack
        self._hub = SampleHub(None)
        self.recorder = RunRecorder(about, self._hub.hand_out if port is not None else lambda sample: None)
        self.recorder.begun = self._begun
        self._answers = None

    def _begun(self) -> None:
        if self._port is None:
            return
        self._answers = RunAnswers(self.recorder.head, self.recorder.paths, live=True)
        url = self._stack.enter_context(page_beside(self._answers, self._hub, self._port))
        print(json.dumps({"url": url}) if self._as_json else url, flush=True)

    def over(self, repeat: Mapping[str, Any] | None) -> None:
        """The run has ended: writes the file, if one is wanted. `repeat`: how to run it again, for the file. Raises
        `DetourError`: it cannot be written."""
        if self._record is not None:
            write_run(
                self._record, {**self.recorder.head, "repeat": repeat}, self.recorder.samples(), self.recorder.paths
            )
        if self._answers is not None:
            self._answers.live = False
            self._hub.replace(self.recorder.samples())
            self._hub.tell({"over": True})

    def wait(self) -> None:
        """Show the page until Ctrl-C, if there is one."""
        if self._answers is None:
            return
        print("detour: the run is over; its page stays until Ctrl-C", file=sys.stderr, flush=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


@contextmanager
def watched_run(record: Path | None, port: int | None, about: str, as_json: bool) -> Iterator[WatchedRun]:
    """`record`: a file to write; `port`: of a page to serve, from when the run begins."""
    with ExitStack() as stack:
        yield WatchedRun(record, port, about, as_json, stack)


class RunAnswers:
    """Answers of a run's page. `head` as in `runs`; `live`: it still goes on, until `over`."""

    def __init__(self, head: Mapping[str, Any], paths: FlowPaths, live: bool = False) -> None:
        self._head, self._paths, self.live = head, paths, live
        self.questions: Mapping[str, Question] = {"state": self._state, "flow": self._flow}

    def _state(self, query: Query) -> dict[str, Any]:
        return {
            "version": VERSION, "kind": "run", "live": self.live, "writable": False, "graph": self._head["graph"],
            "directions": self._head["directions"], "status": self._head["status"],
        }  # fmt: skip

    def _flow(self, query: Query) -> dict[str, Any]:
        name = asked_for(query, "name")
        if name not in self._paths:
            raise NotThereError(f"there is no flow {name!r} in this run")
        return {"flow": name, "paths": list(self._paths[name])}

    def do(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Refuses."""
        raise DetourError("the page cannot change a run in virtual time")
