# SPDX-License-Identifier: Apache-2.0
"""Periodic samples of a fabric: taken once for all viewers, and kept for later ones.

A sample is a dict that JSON knows: `t`, seconds since the page began; `up`, `use`, `queue`, `drops` and `marks`, a
value for each direction of a link in the order of `directions`; `flows`; `failures`, `impaired`; `events` since the
sample before (`kind`, `text`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from detour.base.errors import DetourError
from detour.fabric.operations.registry import Operations
from detour.fabric.operations.results import LinkUses

KEPT_SAMPLES = 600

SampleListener = Callable[[dict[str, Any]], None]


class SampleHub:
    """Methods may be called from several threads."""

    def __init__(self, kept: int | None = KEPT_SAMPLES, first: Iterable[dict[str, Any]] = ()) -> None:
        """`kept`: samples for those who come later; None: all. `first`: those that there are already."""
        self._shared = threading.Lock()
        self._samples: deque[dict[str, Any]] = deque(first, maxlen=kept)
        self._listeners: list[SampleListener] = []

    def listen(self, listener: SampleListener) -> list[dict[str, Any]]:
        """Call `listener` with every sample from now on, in the thread of who hands it out; return those before."""
        with self._shared:
            self._listeners.append(listener)
            return list(self._samples)

    def forget(self, listener: SampleListener) -> None:
        """Call it no more."""
        with self._shared:
            self._listeners.remove(listener)

    def hand_out(self, sample: dict[str, Any]) -> None:
        """A new sample."""
        with self._shared:
            self._samples.append(sample)
        self.tell(sample)

    def tell(self, message: dict[str, Any]) -> None:
        """Something for those who are there, that is not a sample."""
        with self._shared:
            listeners = list(self._listeners)
        for listener in listeners:
            listener(message)

    def replace(self, samples: Iterable[dict[str, Any]]) -> None:
        """Replace the samples that later viewers see."""
        with self._shared:
            self._samples = deque(samples, maxlen=self._samples.maxlen)


_PATHS_KEPT = 20
NAMED = 3
"""flows of an event of many"""
_RETRY_S = 1.0


class Feed(SampleHub):
    """Asks in a thread of its own. Methods may be called from several threads."""

    def __init__(self, asked: Operations, interval_s: float = 0.5, kept: int = KEPT_SAMPLES) -> None:
        """`interval_s`: of a sample; `kept`: samples for those who come later."""
        super().__init__(kept)
        self._asked, self._interval_s = asked, interval_s
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._noted: list[dict[str, Any]] = []
        self._failures: list[str] | None = None
        self._changes = 0
        self._paths: dict[str, list[dict[str, Any]]] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="web feed", daemon=True)
        self.directions: list[dict[str, str]] = []
        """`link` and `from` (a port like `s0:3`) of each place in a sample"""

    def start(self) -> None:
        """Take a first sample, so that there is one, and go on in a thread. Raises `DetourError`: the fabric does
        not answer."""
        self._take(0.05)
        self._thread.start()

    def stop(self) -> None:
        """Ask no more. May be called twice."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(self._interval_s + 5)

    def note(self, kind: str, text: str) -> None:
        """An event of the next sample."""
        with self._lock:
            self._noted.append({"kind": kind, "text": text})

    def now_failed(self, failures: list[str]) -> None:
        """Note the failures after a change that the page itself asked for: between two samples a link may fail and
        heal."""
        with self._lock:
            self._changes += 1
            self._note_failures(failures)

    def paths_of(self, flow: str) -> list[dict[str, Any]]:
        """The paths that a flow has had, the oldest first: `t` from which on, `path`."""
        with self._lock:
            return list(self._paths.get(flow, ()))

    def _ask(self) -> None:
        while not self._end.is_set():
            try:
                self._take(self._interval_s)
            except DetourError as error:
                self.hand_out({"t": self._now(), "gone": str(error)})
                self._end.wait(_RETRY_S)

    def _now(self) -> float:
        return round(time.monotonic() - self._began, 2)

    def _take(self, seconds: float) -> None:
        uses = self._asked.watch(seconds)
        with self._lock:
            changes = self._changes
        status, flows, impaired = self._asked.status(), self._asked.flows().flows, self._asked.impair().links
        now = self._now()
        with self._lock:
            if not self.directions:
                self.directions = [{"link": row.link, "from": row.from_} for row in uses.links]
            if changes == self._changes:  # otherwise the status may be older than what was noted since
                self._note_failures(status.failures)
            paths = {flow.name: flow.path for flow in flows}
            moved = []
            for name, path in paths.items():
                had = self._paths.setdefault(name, [])
                if had and had[-1]["path"] != path:
                    moved.append(f"{name} to {path}")
                if not had or had[-1]["path"] != path:
                    had.append({"t": now, "path": path})
                    del had[:-_PATHS_KEPT]
            self._noted += moved_event(moved)
            for name in self._paths.keys() - paths.keys():
                del self._paths[name]
            events, self._noted = self._noted, []
        shown = [
            {"name": f.name, "path": f.path, "mbps": round(f.rate_bps / 1e6, 3), "ecn": round(f.ecn_share, 4),
             "delay_ms": round(f.delay_ps / 1e9, 4), "bytes": f.bytes, "cwnd": f.cwnd}
            for f in flows
        ]  # fmt: skip
        lossy = [{"link": row.link, "rate": row.rate, "loss": row.loss} for row in impaired]
        self.hand_out(
            {"t": now, **_columns(uses), "flows": shown, "failures": status.failures, "impaired": lossy,
             "entries": status.entries, "events": events}
        )  # fmt: skip

    def _note_failures(self, failures: list[str]) -> None:
        before = failures if self._failures is None else self._failures
        self._noted += [{"kind": "fail", "text": f"{name} is down"} for name in failures if name not in before]
        self._noted += [{"kind": "heal", "text": f"{name} is back"} for name in before if name not in failures]
        self._failures = failures


def moved_event(moved: Sequence[str]) -> list[dict[str, Any]]:
    """Return one event that names some of the flows that changed their path, none if there are none."""
    more = f" and {len(moved) - NAMED} more" if len(moved) > NAMED else ""
    text = f"another path: {', '.join(moved[:NAMED])}{more}"
    return [{"kind": "reroute", "text": text, "count": len(moved)}] if moved else []


def _columns(uses: LinkUses) -> dict[str, list[Any]]:
    rows = uses.links
    return {
        "up": [int(row.up) for row in rows],
        "use": [round(row.use, 3) for row in rows],
        "queue": [row.queue_packets or 0 for row in rows],
        "drops": [row.drops or 0 for row in rows],
        "marks": [row.marks for row in rows],
    }
