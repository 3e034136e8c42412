# SPDX-License-Identifier: Apache-2.0
"""Answers of a program's page: `detour web --program P4INFO,JSON`, one switch and nothing booted."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from detour.base.dataplane import HIGHEST_PORT
from detour.base.errors import DetourError
from detour.base.records import as_json
from detour.cli.web.answers import PacketShelf, program_state
from detour.cli.web.pipeline import pipeline_of
from detour.cli.web.server import Question
from detour.control.p4runtime.pipeline import PipelineConfig
from detour.fabric.labs.entries import read_updates
from detour.fabric.operations.packet_tracing import document
from detour.fabric.tracing.frames import hex_frame
from detour.fabric.tracing.program import TracedProgram

_PORTS = HIGHEST_PORT + 1


class ProgramAnswers:
    """Answers about one program. Packets leave their traces in registers and counters as in a switch."""

    def __init__(self, files: PipelineConfig, entries: Path | None, writable: bool) -> None:
        """`entries`: a file of table entries. Raises `DetourError`: a file cannot be read, or does not fit the
        others."""
        self._files, self._entries, self._writable = files, entries, writable
        self._pipeline = pipeline_of(files.blob)
        self._written = 0
        self._switch = self._made()
        self._shelf, self._lock = PacketShelf(), threading.Lock()
        self.questions: Mapping[str, Question] = {
            "state": lambda query: self._state(),
            "pipeline": lambda query: self._pipeline,
            **self._shelf.questions,
        }

    def _made(self) -> TracedProgram:
        switch = TracedProgram(self._files)
        try:
            if self._entries is not None:
                updates, where = read_updates(self._entries, switch.p4info)
                switch.write(updates, where)
                self._written = len(updates)
        except BaseException:
            switch.close()
            raise
        return switch

    def _state(self) -> dict[str, Any]:
        status = {"program": self._pipeline["program"], "entries": self._written, "ports": _PORTS}
        return program_state(status, self._writable)

    def do(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """`trace_frame` with `frame` in hex, `port` and `all_ways`; `restart`: the switch as it was in the beginning.
        Raises `DetourError`: it is something else, or an argument is wrong."""
        with self._lock:
            if name == "restart":
                self._switch.close()
                self._switch = self._made()
                return {"entries": self._written}
            if name != "trace_frame":
                raise DetourError(f"the page may not ask for {name!r}; it may for trace_frame, restart")
            text, port, all_ways = (arguments.get(key) for key in ("frame", "port", "all_ways"))
            if not isinstance(text, str) or not isinstance(port, int) or isinstance(port, bool):
                raise DetourError("trace_frame: frame is hex, port is a number")
            frame = hex_frame(text)
            traced = document(self._switch.trace(frame, port, all_ways=bool(all_ways)))
        return self._shelf.keep(as_json(traced), f"{len(frame)} bytes by port {port}")

    def close(self) -> None:
        """Ends the switch."""
        self._switch.close()
