# SPDX-License-Identifier: Apache-2.0
"""Files that describe networks, as lists of nodes and links that know their lines (`topo.listed`).

GraphML (`.graphml`, `.xml`), GML (`.gml`), networkx's JSON of nodes and links (`.json`), a table of links (`.csv`, with
columns `a`, `b` and, if there is more to say, `gbps` and `delay_ns`), or a list of edges (`.edges`): two names a line,
and a dictionary if there is more to say, like `a b {'speed': 4, 'delay_us': 0.5}`. Also what other tools write:
containerlab's YAML (`.yml`, `.yaml`) and ibnetdiscover's output (`.ibnetdiscover`, `.ibnet`; `control.lab_files`),
InfraGraph's YAML or JSON (`control.infragraph_files`), and networks of SNDlib (`.xml`, and its own form in `.txt`;
`control.sndlib_files`). A file whose name ends otherwise is tried in every form.

Links of a directed graph carry both ways; an edge each way is one link. What the Topology Zoo says counts where nothing
else is said: `LinkSpeedRaw` (bit/s) of an edge is its rate, and `Latitude` and `Longitude` of its ends give its delay,
5 ns for each metre of the great circle.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias
from xml.parsers import expat

from detour.base.errors import DetourError
from detour.control.infragraph_files import is_infragraph, network_of_infragraph
from detour.control.lab_files import network_of_ibnetdiscover, network_of_lab
from detour.control.sndlib_files import is_sndlib_xml, network_of_sndlib_text, network_of_sndlib_xml
from detour.topo.listed import BETWEEN_KEYS, ListedEdge, ListedNetwork, ListedNode

Nodes: TypeAlias = list[ListedNode]
Edges: TypeAlias = list[ListedEdge]
_EARTH_M, _FIBRE_NS_PER_M = 6_371_000, 5.0


def read_network(path: Path, content: bytes, switches: bool = False) -> ListedNetwork:
    """Read a network from a file. `switches`: of switches alone, so that any two words in a line may be a link. Raises
    `DetourError`: the fault, with file, line or element; for a file that fits no form, what stopped each reader."""
    for _, endings, read in FORMS:
        if path.suffix.lower() in endings:
            return read(path, content)
    reasons = []
    for title, _, read in FORMS:
        try:
            if read is _from_edges and not switches:
                raise DetourError("tried only as graph:FILE")
            return read(path, content)
        except DetourError as error:
            reasons.append(f"{title}: {str(error).removeprefix(str(path)).lstrip(',: ')}")
    raise DetourError(f"{path} is in no known format ({'; '.join(reasons)})")


def network_of_places(path: Path, nodes: Nodes, edges: Edges, data: Mapping[str, Any] | None = None) -> ListedNetwork:
    """With rates and delays from the Topology Zoo's attributes."""
    places = {node.name: place for node in nodes if (place := _place(node.data)) is not None}
    rated = []
    for edge in edges:
        terms = {}
        if "gbps" not in edge.data and isinstance(raw := edge.data.get("LinkSpeedRaw"), int | float) and raw > 0:
            terms["gbps"] = raw / 1e9
        if not {"delay_ns", "delay_us"} & edge.data.keys() and edge.a in places and edge.b in places:
            terms["delay_ns"] = _FIBRE_NS_PER_M * _distance_m(places[edge.a], places[edge.b])
        rated.append(replace(edge, data={**edge.data, **terms}) if terms else edge)
    return ListedNetwork(str(path), nodes, rated, data)


def _place(data: Mapping[str, Any]) -> tuple[float, float] | None:
    """Latitude and longitude of a node, in radians."""
    try:
        north, east = float(data["Latitude"]), float(data["Longitude"])
    except (KeyError, TypeError, ValueError):
        return None
    return (math.radians(north), math.radians(east)) if math.isfinite(north) and math.isfinite(east) else None


def _distance_m(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Along the great circle (haversine formula)."""
    bow = math.sin((b[0] - a[0]) / 2) ** 2 + math.cos(a[0]) * math.cos(b[0]) * math.sin((b[1] - a[1]) / 2) ** 2
    return 2 * _EARTH_M * math.asin(min(1.0, math.sqrt(bow)))


def _both_ways(path: Path, edges: Edges) -> Edges:
    """Pair the edges of a directed graph: the n-th edge from b to a is the other direction of the n-th from a to b.
    Raises `DetourError`: the two directions of a link differ."""
    count: Counter[tuple[str, str]] = Counter()
    links: dict[tuple[str, str, int], ListedEdge] = {}
    for edge in edges:
        number = count[edge.a, edge.b]
        count[edge.a, edge.b] += 1
        other = None if edge.a == edge.b else links.get((edge.b, edge.a, number))
        if other is None:
            links[edge.a, edge.b, number] = edge
        elif any(edge.data.get(key) != other.data.get(key) for key in (*BETWEEN_KEYS, "LinkSpeedRaw")):
            rule = f"the link {edge.a}-{edge.b} is not as fast or as long as {edge.b}-{edge.a} ({other.where})"
            raise DetourError(f"{path}, {edge.where}: {rule}; links are symmetric")
    return list(links.values())


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DetourError(f"{path}, line {line}: this is not UTF-8 text") from None


# -- tables -----------------------------------------------------------------------------------------------


def _from_csv(path: Path, content: bytes) -> ListedNetwork:
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
                more = cells[2:]
                if cells[:2] != ["a", "b"] or sorted(more) != sorted({"gbps", "delay_ns"} & {*more}):
                    allowed = "a,b,gbps,delay_ns (the last two may be left out)"
                    raise DetourError(f"{path}, {where}: columns are {allowed}, not {','.join(cells)}")
                columns = cells
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
    return network_of_places(path, list(nodes.values()), edges)


def _number(path: Path, where: str, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DetourError(f"{path}, {where}: {key} is a number, not {text!r}") from None


# -- JSON -------------------------------------------------------------------------------------------------


def _from_json(path: Path, content: bytes) -> ListedNetwork:
    try:
        document = json.loads(_text(path, content))
    except json.JSONDecodeError as error:
        raise DetourError(f"{path}, line {error.lineno}: {error.msg}") from None
    if is_infragraph(document):
        return network_of_infragraph(path, document)
    if not isinstance(document, dict) or not {"links", "edges"} & document.keys() or "nodes" not in document:
        raise DetourError(f"{path}: it is not a networkx JSON file: that is an object with nodes and links (or edges)")
    key = "links" if "links" in document else "edges"
    nodes, edges = [], []
    for i, row in enumerate(_rows(path, "nodes", document["nodes"])):
        more = {k: v for k, v in row.items() if k != "id"}
        nodes.append(ListedNode(_name(path, f"nodes[{i}]", row, "id"), more, f"nodes[{i}]"))
    for i, row in enumerate(_rows(path, key, document[key])):
        a, b = (_name(path, f"{key}[{i}]", row, end) for end in ("source", "target"))
        more = {k: v for k, v in row.items() if k not in ("source", "target", "key")}
        edges.append(ListedEdge(a, b, more, f"{key}[{i}]"))
    if not nodes:
        raise DetourError(f"{path}: it has no nodes")
    data = document.get("graph")
    edges = _both_ways(path, edges) if document.get("directed") else edges
    return network_of_places(path, nodes, edges, data if isinstance(data, dict) else {})


def _rows(path: Path, key: str, rows: Any) -> list[dict[str, Any]]:
    if not isinstance(rows, list):
        raise DetourError(f"{path}: {key} is a list, not {rows!r:.40}")
    wrong = next((i for i, row in enumerate(rows) if not isinstance(row, dict)), None)
    if wrong is not None:
        raise DetourError(f"{path}, {key}[{wrong}]: it is an object, not {rows[wrong]!r:.40}")
    return rows


def _name(path: Path, where: str, row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise DetourError(
            f"{path}, {where}: {key} is missing" if value is None else f"{path}, {where}: {key}={value!r}"
        )
    return str(value)


# -- YAML -------------------------------------------------------------------------------------------------


def _from_yaml(path: Path, content: bytes) -> ListedNetwork:
    from detour.base.documents import read_document  # YAML takes long to load, and most networks are no files

    try:
        document = read_document(_text(path, content))
    except DetourError as error:
        raise DetourError(f"{path}, {error}") from None
    if is_infragraph(document):
        return network_of_infragraph(path, document)
    return network_of_lab(path, document)


# -- GraphML ----------------------------------------------------------------------------------------------


def _from_graphml(path: Path, content: bytes) -> ListedNetwork:
    if is_sndlib_xml(content):
        return _from_sndlib(path, content)
    lines = _Lines(path, content)
    import networkx

    try:
        graph = networkx.read_graphml(io.BytesIO(content), force_multigraph=True)
    except Exception as error:  # it raises what comes: KeyError, TypeError, ValueError, NetworkXError...
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DetourError(f"{path} is not a GraphML file: {reason}") from None
    if not graph:
        raise DetourError(f"{path}: it has no nodes")
    nodes = [ListedNode(str(name), data, lines.of_node(str(name))) for name, data in graph.nodes(data=True)]
    edges = _with_lines(graph.edges(data=True), lines.of_edge)
    return network_of_places(path, nodes, _both_ways(path, edges) if graph.is_directed() else edges, graph.graph)


def _with_lines(edges: Iterable[tuple[Any, Any, dict[str, Any]]], line: Callable[[str, str, int], str]) -> Edges:
    """Edges; their lines go by how many between the same nodes came before."""
    count: Counter[frozenset[Any]] = Counter()
    listed = []
    for a, b, data in edges:
        ends = frozenset((a, b))
        listed.append(ListedEdge(str(a), str(b), data, line(str(a), str(b), count[ends])))
        count[ends] += 1
    return listed


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
            raise DetourError(f"{path}, line {error.lineno}: this is not XML: {reason}") from None
        for ends, lines in self._edges.items():
            unknown = next((end for end in sorted(ends) if end not in self._nodes), None)
            if unknown is not None:
                raise DetourError(f"{path}, line {lines[0]}: the link leads to {unknown!r}, which is not a node")

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        line, tag = self._parser.CurrentLineNumber, tag.rpartition(":")[2]
        if tag == "node":
            name = attributes.get("id", "")
            if name in self._nodes:
                raise DetourError(
                    f"{self._path}, line {line}: node {name} is already defined (line {self._nodes[name]})"
                )
            self._nodes[name] = line
        elif tag == "edge":
            ends = frozenset((attributes.get("source", ""), attributes.get("target", "")))
            self._edges.setdefault(ends, []).append(line)

    def of_node(self, name: str) -> str:
        return f"line {self._nodes[name]}" if name in self._nodes else ""

    def of_edge(self, a: str, b: str, number: int) -> str:
        """`line 7`, of the edge with that number among those between two nodes."""
        lines = self._edges.get(frozenset((a, b)), [])
        return f"line {lines[number]}" if number < len(lines) else ""


# -- GML --------------------------------------------------------------------------------------------------


def _from_gml(path: Path, content: bytes) -> ListedNetwork:
    """Nodes are called by their labels, where no two are alike, else by their numbers."""
    import networkx

    text = _text(path, content)
    if not re.search(r"\bmultigraph\s+1\b", text):  # files with parallel edges do not all say that they have some
        text = re.sub(r"\bgraph\s*\[", "graph [\nmultigraph 1\n", text, count=1)
    try:
        graph = networkx.parse_gml(text, label="id")
    except Exception as error:  # NetworkXError, ValueError, KeyError...
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DetourError(f"{path} is not a GML file: {reason}") from None
    if not graph:
        raise DetourError(f"{path}: it has no nodes")
    labels = {node: str(data.get("label", node)) for node, data in graph.nodes(data=True)}
    names = labels if len(set(labels.values())) == len(labels) else {node: str(node) for node in graph}
    nodes = [
        ListedNode(names[node], {key: value for key, value in data.items() if key != "label"}, f"node {node}")
        for node, data in graph.nodes(data=True)
    ]
    edges = [ListedEdge(names[a], names[b], data, f"edge {a} to {b}") for a, b, data in graph.edges(data=True)]
    return network_of_places(path, nodes, _both_ways(path, edges) if graph.is_directed() else edges, graph.graph)


# -- SNDlib -----------------------------------------------------------------------------------------------


def _from_sndlib(path: Path, content: bytes) -> ListedNetwork:
    read = network_of_sndlib_xml if is_sndlib_xml(content) else network_of_sndlib_text
    return network_of_places(path, *read(path, content))


# -- lists of edges ---------------------------------------------------------------------------------------


def _from_edges(path: Path, content: bytes) -> ListedNetwork:
    import networkx

    nodes: dict[str, ListedNode] = {}
    edges: Edges = []
    for number, line in enumerate(_text(path, content).splitlines(), 1):
        text = line.split("#")[0].strip()
        if not text:
            continue
        where = f"line {number}"
        if len(text.split()) < 2:
            raise DetourError(f"{path}, {where}: {text!r} is not two names")
        try:
            (a, b, data), *_ = networkx.parse_edgelist([text], data=True).edges(data=True)
        except Exception as error:  # TypeError, ValueError, SyntaxError...
            raise DetourError(f"{path}, {where}: this is not a list of edges: {' '.join(str(error).split())}") from None
        for end in text.split()[:2]:
            nodes.setdefault(end, ListedNode(end, {}, where))
        edges.append(ListedEdge(a, b, data, where))
    if not edges:
        raise DetourError(f"{path}: it has no links")
    return network_of_places(path, list(nodes.values()), edges)


_Reader = Callable[[Path, bytes], ListedNetwork]
FORMS: tuple[tuple[str, tuple[str, ...], _Reader], ...] = (
    ("GraphML", (".graphml", ".xml"), _from_graphml),
    ("networkx JSON", (".json",), _from_json),
    ("GML", (".gml",), _from_gml),
    ("SNDlib", (), _from_sndlib),
    ("table of links", (".csv",), _from_csv),
    ("containerlab or InfraGraph", (".yml", ".yaml"), _from_yaml),
    (
        "ibnetdiscover",
        (".ibnetdiscover", ".ibnet"),
        lambda path, content: network_of_ibnetdiscover(path, _text(path, content)),
    ),
    ("list of edges", (".edges",), _from_edges),
)
"""what each form is called, how its files end, and what reads it"""
