# SPDX-License-Identifier: Apache-2.0
"""Topologies by whatever names them: a specification, a file, or code of one's own (`open_topology`).

Files: GraphML (`.graphml`), networkx's JSON of nodes and links (`.json`), or a table of links (`.csv`, with columns
`a`, `b` and, if there is more to say, `gbps` and `delay_ns`). What they say is the same in each form (`topo.listed`). A
topology's `spec` is the file's name and a digest of it behind a `#`; with it, a file that has changed meanwhile is
refused. Files of switches without hosts are named by `graph:FILE` (`control.graph_files`).
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.parsers import expat

from detour.base import doors
from detour.base.errors import DetourError
from detour.control import graph_files
from detour.topo.listed import ListedEdge, ListedNode, topology_of_lists
from detour.topo.spec import parse_topology
from detour.topo.topology import Topology

_FILE = re.compile(r"(?P<file>.*\.(?P<form>graphml|json|csv))(#(?P<digest>[0-9a-f]{16}))?", re.DOTALL | re.IGNORECASE)

Lists = tuple[list[ListedNode], list[ListedEdge]]


def open_topology(text: str, gbps: float | None = None, delay_ns: float | None = None) -> Topology:
    """The topology that a text names: a specification (`topo.spec`), a file, `graph:FILE`, or `FILE.py:NAME`.

    `gbps`, `delay_ns`: of links of a file that say nothing (None: 100 Gb/s beside others that say their rate, else what
    the fabric's settings say).

    Raises:
        DetourError: what is wrong, with file, line or element and rule.
    """
    text = text.strip()
    if graph_files.is_graph(text):
        return graph_files.read_graph(text).topology
    found = _FILE.fullmatch(text)
    if found is None or doors.in_file(doors.split(text)[0]):
        return parse_topology(text)
    path = Path(found["file"])
    content = graph_files.content_of(path)
    digest = hashlib.sha256(content).hexdigest()[:16]
    if found["digest"] not in (None, digest):
        raise DetourError(f"{path} has changed since {text!r} was read from it")
    nodes, edges = _READERS[found["form"].lower()](path, content)
    return topology_of_lists(str(path), nodes, edges, gbps, delay_ns, f"{path}#{digest}")


def absolute(text: str) -> str:
    """The same topology's text for a process that may be in another folder."""
    if graph_files.is_graph(text):
        return graph_files.absolute(text)
    return str(Path(text.strip()).absolute()) if _FILE.fullmatch(text.strip()) else doors.absolute(text)


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DetourError(f"{path}, line {line}: this is not UTF-8 text") from None


# -- tables -----------------------------------------------------------------------------------------------


def _from_csv(path: Path, content: bytes) -> Lists:
    reader = csv.reader(io.StringIO(_text(path, content)), skipinitialspace=True)
    columns: list[str] = []
    nodes: dict[str, ListedNode] = {}
    edges: list[ListedEdge] = []
    try:
        for row in reader:
            where, cells = f"line {reader.line_num}", [cell.strip() for cell in row]
            if not any(cells) or cells[0].startswith("#"):
                continue
            if not columns:
                columns = _columns(path, where, cells)
                continue
            if len(cells) != len(columns):
                raise DetourError(f"{path}, {where}: {len(cells)} values for the {len(columns)} columns {columns}")
            values = dict(zip(columns, cells, strict=True))
            for end in ("a", "b"):
                if not values[end]:
                    raise DetourError(f"{path}, {where}: {end} is empty; a and b name both ends of a link")
                nodes.setdefault(values[end], ListedNode(values[end], {}, where))
            data = {key: _number(path, where, key, values[key]) for key in columns[2:] if values[key]}
            edges.append(ListedEdge(values["a"], values["b"], data, where))
    except csv.Error as error:
        raise DetourError(f"{path}, line {reader.line_num}: {error}") from None
    if not edges:
        raise DetourError(f"{path}: it has no links")
    return list(nodes.values()), edges


def _columns(path: Path, where: str, cells: list[str]) -> list[str]:
    if cells[:2] != ["a", "b"] or not set(cells[2:]) <= {"gbps", "delay_ns"} or len(set(cells)) < len(cells):
        raise DetourError(
            f"{path}, {where}: columns are a,b,gbps,delay_ns (the last two may be left out), not {','.join(cells)}"
        )
    return cells


def _number(path: Path, where: str, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DetourError(f"{path}, {where}: {key} is a number, not {text!r}") from None


# -- JSON -------------------------------------------------------------------------------------------------


def _from_json(path: Path, content: bytes) -> Lists:
    try:
        found = json.loads(_text(path, content))
    except json.JSONDecodeError as error:
        raise DetourError(f"{path}, line {error.lineno}: {error.msg}") from None
    if not isinstance(found, dict) or not {"links", "edges"} & found.keys() or "nodes" not in found:
        raise DetourError(f"{path}: it is no networkx JSON file: that is an object with nodes and links (or edges)")
    if found.get("directed"):
        raise DetourError(f"{path}: the graph is directed, but links carry both ways")
    key = "links" if "links" in found else "edges"
    nodes = [_json_node(path, f"nodes[{i}]", row) for i, row in enumerate(_rows(path, "nodes", found["nodes"]))]
    edges = [_json_edge(path, f"{key}[{i}]", row) for i, row in enumerate(_rows(path, key, found[key]))]
    if not nodes:
        raise DetourError(f"{path}: it has no nodes")
    return nodes, edges


def _rows(path: Path, key: str, rows: Any) -> list[dict[str, Any]]:
    if not isinstance(rows, list):
        raise DetourError(f"{path}: {key} is a list, not {rows!r:.40}")
    wrong = next((i for i, row in enumerate(rows) if not isinstance(row, dict)), None)
    if wrong is not None:
        raise DetourError(f"{path}, {key}[{wrong}]: it is an object, not {rows[wrong]!r:.40}")
    return rows


def _json_node(path: Path, where: str, row: dict[str, Any]) -> ListedNode:
    return ListedNode(_name(path, where, row, "id"), {k: v for k, v in row.items() if k != "id"}, where)


def _json_edge(path: Path, where: str, row: dict[str, Any]) -> ListedEdge:
    a, b = (_name(path, where, row, end) for end in ("source", "target"))
    return ListedEdge(a, b, {k: v for k, v in row.items() if k not in ("source", "target", "key")}, where)


def _name(path: Path, where: str, row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise DetourError(
            f"{path}, {where}: {key} is missing" if value is None else f"{path}, {where}: {key}={value!r}"
        )
    return str(value)


# -- GraphML ----------------------------------------------------------------------------------------------


def _from_graphml(path: Path, content: bytes) -> Lists:
    lines = _Lines(path, content)
    import networkx

    try:
        graph = networkx.parse_graphml(content.decode(), force_multigraph=True)
    except Exception as error:  # it raises what comes: KeyError, TypeError, ValueError, NetworkXError...
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DetourError(f"{path} is no GraphML file: {reason}") from None
    if graph.is_directed():
        raise DetourError(f"{path}: the graph is directed, but links carry both ways; write edgedefault=undirected")
    if not graph:
        raise DetourError(f"{path}: it has no nodes")
    nodes = [ListedNode(str(name), data, lines.of_node(str(name))) for name, data in graph.nodes(data=True)]
    edges = [
        ListedEdge(str(a), str(b), data, lines.of_edge(str(a), str(b), number))
        for number, (a, b, data) in _numbered(graph.edges(data=True))
    ]
    return nodes, edges


def _numbered(edges: Any) -> list[tuple[int, Any]]:
    """Edges, each with how many between the same nodes came before it."""
    count: dict[frozenset[Any], int] = {}
    found = []
    for a, b, data in edges:
        ends = frozenset((a, b))
        found.append((count.get(ends, 0), (a, b, data)))
        count[ends] = count.get(ends, 0) + 1
    return found


class _Lines:
    """The lines of nodes and edges, which networkx's reader does not tell, and what it does not mind."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        self._nodes: dict[str, int] = {}
        self._edges: dict[frozenset[str], list[int]] = {}
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._begin
        try:
            self._parser.Parse(content, True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise DetourError(f"{path}, line {error.lineno}: this is no XML: {reason}") from None
        for ends, lines in self._edges.items():
            unknown = next((end for end in sorted(ends) if end not in self._nodes), None)
            if unknown is not None:
                raise DetourError(f"{path}, line {lines[0]}: the link leads to {unknown!r}, which is no node")

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        line, tag = self._parser.CurrentLineNumber, tag.rpartition(":")[2]
        if tag == "node":
            name = attributes.get("id", "")
            if name in self._nodes:
                raise DetourError(f"{self._path}, line {line}: node {name} is there already (line {self._nodes[name]})")
            self._nodes[name] = line
        elif tag == "edge":
            ends = frozenset((attributes.get("source", ""), attributes.get("target", "")))
            self._edges.setdefault(ends, []).append(line)

    def of_node(self, name: str) -> str:
        """`line 7`."""
        return f"line {self._nodes[name]}" if name in self._nodes else ""

    def of_edge(self, a: str, b: str, number: int) -> str:
        """`line 7`, of the edge with that number among those between two nodes."""
        found = self._edges.get(frozenset((a, b)), [])
        return f"line {found[number]}" if number < len(found) else ""


_READERS: dict[str, Callable[[Path, bytes], Lists]] = {
    "csv": _from_csv,
    "json": _from_json,
    "graphml": _from_graphml,
}
