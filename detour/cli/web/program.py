# SPDX-License-Identifier: Apache-2.0
"""Answers of a program's page: `detour web --program NAME.p4`, one switch and nothing booted. A program whose source
is there can be changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from detour.base.dataplane import HIGHEST_PORT
from detour.base.errors import DetourError
from detour.base.records import as_json
from detour.cli.web.answers import KEPT_PACKETS, PacketShelf, program_state
from detour.cli.web.editing import EditedProgram
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

    def __init__(
        self,
        files: PipelineConfig,
        entries: Path | None,
        writable: bool,
        source: Path | None = None,
        tests: Path | None = None,
    ) -> None:
        """`entries`: a file of table entries; `source`: the P4 that the files are made of; `tests`: a folder of STF,
        whose packets the page has. Raises `DetourError`: a file cannot be read, or does not fit the others."""
        self._files, self._entries, self._writable = files, entries, writable
        self._pipeline = pipeline_of(files.blob)
        self._written = 0
        self._edited = None if source is None else EditedProgram(source)
        self._last: tuple[bytes, int] | None = None
        self._switch = self._made(files)
        played = [] if tests is None else list(_played(files, tests))
        self._shelf, self._lock = PacketShelf(len(played) + KEPT_PACKETS), threading.Lock()
        for packet, about in reversed(played):  # the first one is listed first
            self._shelf.keep(packet, about)
        self.questions: Mapping[str, Question] = {
            "state": lambda query: self._state(),
            "pipeline": lambda query: self._pipeline,
            "source": lambda query: {"texts": {} if self._edited is None else self._edited.texts()},
            **self._shelf.questions,
        }

    def _made(self, files: PipelineConfig) -> TracedProgram:
        switch = TracedProgram(files)
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
        """`trace_frame` with `frame` in hex, `port` and `all_ways`; `restart`: the switch as it was in the beginning;
        `check`, `run` the program with `texts`, `save` what runs. Raises `DetourError`: it is something else, or an
        argument is wrong."""
        with self._lock:
            if name == "restart":
                made = self._made(self._files)
                self._switch.close()
                self._switch = made
                return {"entries": self._written}
            if self._edited is not None and name in ("check", "run", "save"):
                return self._edit(self._edited, name, arguments.get("texts"))
            if name != "trace_frame":
                raise DetourError(f"the page may not call {name!r}; allowed: trace_frame, restart")
            text, port, all_ways = (arguments.get(key) for key in ("frame", "port", "all_ways"))
            if not isinstance(text, str) or not isinstance(port, int) or isinstance(port, bool):
                raise DetourError("trace_frame: frame is hex, port is a number")
            frame = hex_frame(text)
            traced = document(self._switch.trace(frame, port, all_ways=bool(all_ways)))
            self._last = frame, port
        return self._shelf.keep(as_json(traced), f"{len(frame)} bytes by port {port}")

    def _edit(self, edited: EditedProgram, name: str, texts: Any) -> dict[str, Any]:
        """Return the answer to `check`, `run` or `save`. `run` sends the last packet through the new program: `packet`
        is its trace."""
        if name == "save":
            return {"saved": edited.save()}
        if not isinstance(texts, dict):
            raise DetourError(f"{name}: texts is an object with a text for each file")
        if name == "check":
            return edited.check(texts)
        files, answer = edited.take(texts)
        if files is None:
            return answer
        pipeline, switch = pipeline_of(files.blob), self._made(files)
        pipeline["sources"].update({file: {"text": text} for file, text in edited.texts().items()})
        self._switch.close()
        self._switch, self._files, self._pipeline = switch, files, pipeline
        if self._last is not None:
            frame, port = self._last
            traced = as_json(document(switch.trace(frame, port)))
            answer["packet"] = self._shelf.keep(traced, f"{len(frame)} bytes by port {port}, program changed")["id"]
        return answer

    def close(self) -> None:
        """End the switch."""
        self._switch.close()
        if self._edited is not None:
            self._edited.close()


def _played(files: PipelineConfig, tests: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """The packets of tests in order, and how far coverage has grown with them."""
    from detour.testgen.regress import followed

    for name, packets, coverage in followed(files.blob, tests):
        totals = coverage.totals().items()
        grown = ", ".join(f"{counts['covered']} of {counts['reachable']} {what}" for what, counts in totals)
        for number, packet in enumerate(packets, 1):
            yield as_json(document(packet.traced)), f"{name}, packet {number}; {grown}"
