# SPDX-License-Identifier: Apache-2.0
"""What the page of a run in virtual time asks for: one that goes on, or one that is played back. Nothing can be changed
in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from detour import __version__
from detour.base.errors import DetourError
from detour.cli.web.recorder import RunRecorder
from detour.cli.web.runs import FlowPaths, RecordedRun
from detour.cli.web.samples import SampleHub
from detour.cli.web.server import NotThereError, Query, Question, asked_for


class RunAnswers:
    """Of one run. `head` as in `runs`; `live`: it still goes on, until `over`."""

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
