# SPDX-License-Identifier: Apache-2.0
"""Answers of the page of trace files: `detour web --trace FILE...`. There is no program, so its graph shows what the
packets did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.cli.web.answers import PacketShelf, program_state
from detour.cli.web.pipeline import Document, placed
from detour.cli.web.server import Question
from detour.fabric.tracing.reading import read_trace
from detour.fabric.tracing.text_proto import paths

_KINDS = {"parser_transition": ("state", "state"), "table_lookup": ("table", "table"), "branch": ("condition", "name")}
"""events that are nodes: what they are drawn as, and what names them"""
_BEGIN = "begin"


class TraceAnswers:
    """Answers about packets of files, one each."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Raise `DetourError`: a file cannot be read, or is not a trace."""
        shelf = PacketShelf(len(files))
        documents = [read_trace(file) for file in files]
        for file, document in zip(files, documents, strict=True):
            shelf.keep(document, str(file))
        pipeline = _pipeline(documents)
        about = f"{len(files)} packets of trace files" if len(files) > 1 else "a packet of a trace file"
        self.questions: Mapping[str, Question] = {
            "state": lambda query: program_state({"program": about}, writable=False),
            "pipeline": lambda query: pipeline,
            **shelf.questions,
        }

    def do(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Nothing can be changed here: raises `DetourError`."""
        raise DetourError(f"the page may not call {name!r}: it shows files")


def _pipeline(documents: Iterable[Mapping[str, Any]]) -> Document:
    """As `pipeline_of`: for each stage a node for every state, table and condition that a packet came to."""
    nodes: dict[str, dict[str, Document]] = {}
    edges: dict[str, dict[str, list[str]]] = {}
    headers: dict[str, None] = {}
    hops = [hop for document in documents for hop in document["hops"]]
    for events, _ in (path for hop in hops for path in paths(hop["trace"])):
        part, at = "", ""
        for event in events:
            if event["kind"] == "stage":
                part, at = event["stage"], _BEGIN
                begin = {"kind": "end", "label": f"{part} begins", "source": None}
                if part != "traffic_manager":
                    nodes.setdefault(part, {}).setdefault(_BEGIN, begin)
            elif event["kind"] == "deparser_emit":
                headers[event["header"]] = None
            elif event["kind"] in _KINDS and part in nodes:
                kind, name = _KINDS[event["kind"]]
                node = event[name]
                nodes[part].setdefault(node, {"kind": kind, "label": node, "source": event["source"]})
                after = edges.setdefault(part, {}).setdefault(at, [])
                if node not in after:
                    after.append(node)
                at = node
    parts = [
        placed(part, _BEGIN, each, way := edges.get(part, {}), {(a, b): [] for a, to in way.items() for b in to})
        for part, each in nodes.items()
        if part != "deparser"
    ]
    return {"program": "", "parts": parts, "headers": {}, "deparser": list(headers), "parser": None, "sources": {}}
