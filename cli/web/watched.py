# SPDX-License-Identifier: Apache-2.0
"""A run of `detour sim` that is recorded, or shown as it goes."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from detour.cli.web.playing import as_it_goes
from detour.cli.web.recorder import RunRecorder
from detour.cli.web.runs import write_run
from detour.cli.web.samples import SampleHub
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
