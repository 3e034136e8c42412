# SPDX-License-Identifier: Apache-2.0
"""A trace as a flow chart of Mermaid, which GitHub and many editors draw: a box for each stage with its tables, actions
and what else decides, a rhombus where the trace forks, and what becomes of each copy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

_Facts = dict[str, Any]
_LINES: dict[str, Callable[[_Facts], str]] = {
    "packet_ingress": lambda e: (f"{e['bytes']} bytes " if "bytes" in e else "") + f"by port {e['port']}",
    "parser_transition": lambda e: e.get("parser_error") or f"{e['state']} to {e['next']}",
    "table_lookup": lambda e: f"{e['table']}: {'hit' if e['hit'] else 'miss'}",
    "action": lambda e: f"{e['action']}({', '.join(f'{name}={value}' for name, value in e['parameters'].items())})",
    "mark_to_drop": lambda e: "mark_to_drop",
    "clone": lambda e: f"clone, session {e['session']}",
    "multicast": lambda e: f"multicast, group {e['group']}",
    "queue": lambda e: f"port {e['port']}: waits {e['wait_ticks']} ticks behind {e['depth_found']} packets",
    "log_message": lambda e: e["text"],
    "assertion": lambda e: f"an assertion {'holds' if e['value'] else 'fails'}",
}


def mermaid(hops: Iterable[_Facts]) -> str:
    """The hops of docs/trace.md's document, one behind the other where the packet leaves each in one way."""
    chart = _Chart()
    ways: list[str] = []
    for number, hop in enumerate(hops):
        title = _text(f"{hop['switch']}, port {hop['port']}")
        chart.lines.append(f'  subgraph hop{number}["{title}"]')
        chart.outputs = []
        chart.tree(hop["trace"], "")
        chart.lines.append("  end")
        if len(ways) == 1:
            chart.lines.append(f"  {ways[0]} --> hop{number}")
        ways = chart.outputs
    return "\n".join(chart.lines) + "\n"


class _Chart:
    def __init__(self) -> None:
        self.lines = ["flowchart TD"]
        self.outputs: list[str] = []
        """nodes at which a copy leaves the present hop"""
        self._numbers = itertools.count()

    def tree(self, tree: _Facts, before: str, label: str = "") -> None:
        """`before`: the node that leads here, by an edge with that label."""
        for text in _stages(tree["events"]):
            before, label = self._node(f'["{text}"]', before, label), ""
        if (fork := tree.get("fork")) is not None:
            how = "all of these" if fork["all"] else "one of these"
            before = self._node(f'{{"{_text(fork["reason"])}: {how}"}}', before, label)
            for branch in fork["branches"]:
                share = "" if fork["all"] or branch["fraction"] is None else f" ({branch['fraction']:.1%})"
                self.tree(branch["trace"], before, _text(branch["label"] + share))
        elif "output" in (outcome := tree.get("outcome") or {}):
            self.outputs.append(self._node(f'(["out by port {outcome["output"]["port"]}"])', before, label))
        elif "dropped" in outcome:
            self._node(f'(["{_text(outcome["dropped"]["reason"])}"])', before, label)

    def _node(self, shape: str, before: str, label: str) -> str:
        name = f"n{next(self._numbers)}"
        self.lines.append(f"    {name}{shape}")
        if before:
            self.lines.append(f'    {before} -->|"{label}"| {name}' if label else f"    {before} --> {name}")
        return name


def _stages(events: Iterable[_Facts]) -> list[str]:
    """The text of a box for each stage."""
    boxes: list[list[str]] = []
    for event in events:
        if event["kind"] == "stage":
            boxes.append([event["stage"]])
        elif (line := _LINES.get(event["kind"])) is not None:
            if not boxes:
                boxes.append([])
            boxes[-1].append(line(event))
    return ["<br>".join(map(_text, box)) for box in boxes]


def _text(text: str) -> str:
    """As a label in quotation marks."""
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
