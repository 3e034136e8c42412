# SPDX-License-Identifier: Apache-2.0
"""A run of `detour sim` that is recorded, shown as it goes, or played back; nothing can be changed in it."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from detour import __version__
from detour.base.errors import DetourError
from detour.cli.web.recorder import RunRecorder
from detour.cli.web.runs import FlowPaths, RecordedRun, write_run
from detour.cli.web.samples import SampleHub
from detour.cli.web.server import NotThereError, Query, Question, asked_for
from detour.cli.web.serving import page_beside


class WatchedRun:
    """Of `watched_run`."""

    def __init__(self, record: Path | None, port: int | None, about: str, as_json: bool, stack: ExitStack) -> None:
        self._record, self._port, self._as_json, self._stack = record, port, as_json, stack
        self._hub = SampleHub(None)
        self.recorder = RunRecorder(about, self._hub.hand_out if port is not None else lambda sample: None)
        self.recorder.begun = self._begun
        self._answers = None

    def _begun(self) -> None:
        if self._port is None:
            return
        self._answers = as_it_goes(self.recorder, self._hub)
        url = self._stack.enter_context(page_beside(self._answers, self._hub, self._port))
        if self._as_json:
            print(json.dumps({"url": url}), flush=True)
        else:
            print(url, flush=True)

    def over(self, repeat: Mapping[str, Any] | None) -> None:
        """The run has ended: writes the file, if one is wanted. `repeat`: how to run it again, for the file.

        Raises:
            DetourError: it cannot be written.
        """
        if self._record is not None:
            write_run(
                self._record,
                {**self.recorder.head, "repeat": repeat},
                self.recorder.samples(),
                self.recorder.known_paths(),
            )
        if self._answers is not None:
            self._answers.live = False
            self._hub.replace(self.recorder.samples())
            self._hub.tell({"over": True})

    def wait(self) -> None:
        """Shows the page until Ctrl-C, if there is one."""
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
    """What the page of a run asks for. `head` as in `runs`; `live`: it still goes on, until `over`."""

    def __init__(self, head: Mapping[str, Any], paths: FlowPaths, live: bool = False) -> None:
        self._head, self._paths, self.live = head, paths, live
        self.questions: Mapping[str, Question] = {"state": self._state, "flow": self._flow}

    def _state(self, query: Query) -> dict[str, Any]:
        return {
            "version": __version__,
            "kind": "run",
            "live": self.live,
            "writable": False,
            "graph": self._head["graph"],
            "directions": self._head["directions"],
            "status": self._head["status"],
        }

    def _flow(self, query: Query) -> dict[str, Any]:
        name = asked_for(query, "name")
        if name not in self._paths:
            raise NotThereError(f"there is no flow {name!r} in this run")
        return {"flow": name, "paths": list(self._paths[name])}

    def do(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Refuses."""
        raise DetourError("a run in virtual time cannot be changed by its page")


def played_back(run: RecordedRun) -> tuple[RunAnswers, SampleHub]:
    """The page of a recorded run."""
    return RunAnswers(run.head, run.paths), SampleHub(None, run.samples)


def as_it_goes(recorder: RunRecorder, hub: SampleHub) -> RunAnswers:
    """The page of a run whose recorder hands its samples to `hub`."""
    return RunAnswers(recorder.head, recorder.known_paths(), live=True)
