# SPDX-License-Identifier: Apache-2.0
"""Networks of SNDlib (Orlowski et al., Networks 55, 2010), in XML and in its own form.

A link has its pre-installed capacity, or, where that is 0, that of its smallest module, if the file says in what unit
(`unit = MBITPERSEC`). Coordinates that are longitudes and latitudes are places (`Latitude`, `Longitude`), from which
links get their delays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from detour.base.errors import DetourError
from detour.topo.listed import ListedEdge, ListedNode

_GBPS_OF_UNIT = {"KBITPERSEC": 1e-6, "MBITPERSEC": 1e-3, "GBITPERSEC": 1.0}
_TITLE = "?SNDlib native format"
_SECTION = re.compile(r"([A-Z_]+)\s*\(")
_NODE = re.compile(r"(\S+)(?:\s*\(\s*([-+.\dEe]+)\s+([-+.\dEe]+)\s*\))?")
_LINK = re.compile(r"\S+\s*\(\s*(\S+)\s+(\S+)\s*\)\s+(\S+)(?:\s+\S+){3}\s*\(([^()]*)\)")

SndlibParts = tuple[list[ListedNode], list[ListedEdge]]


def is_sndlib_xml(content: bytes) -> bool:
    """Return whether a file's root element is that of SNDlib."""
    return re.search(rb"<network[^>]*sndlib", content[:4000]) is not None


def network_of_sndlib_xml(path: Path, content: bytes) -> SndlibParts:
    """Nodes and links of an XML file. Raises `DetourError`: what is wrong with it."""
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise DetourError(f"{path}, line {error.position[0]}: this is not XML: {error}") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    places = {
        element.get("id", ""): (element.findtext("coordinates/x"), element.findtext("coordinates/y"))
        for element in root.iter("node")
    }
    geographical = all(element.get("coordinatesType") == "geographical" for element in root.iter("nodes"))
    unit, edges = root.findtext("meta/unit"), []
    for element in root.iter("link"):
        where = f"link {element.get('id')}"
        modules = [each.text for each in element.findall("additionalModules/addModule/capacity")]
        data = _capacity(path, where, unit, element.findtext("preInstalledModule/capacity"), modules)
        edges.append(ListedEdge(element.findtext("source", ""), element.findtext("target", ""), data, where))
    return _parts(path, places, edges, geographical)


def network_of_sndlib_text(path: Path, content: bytes) -> SndlibParts:
    """The same of a file in SNDlib's own form."""
    text = content.decode("utf-8", "replace")
    if not text.lstrip().startswith(_TITLE):
        raise DetourError(f"{path}: it does not begin with {_TITLE}")
    places, edges, unit, section = dict[str, tuple[str | None, str | None]](), list[ListedEdge](), None, ""
    for number, line in enumerate(text.splitlines(), 1):
        words, where = line.split("#")[0].strip(), f"line {number}"
        if not words or words.startswith("?"):
            continue
        if not section:
            begin = _SECTION.match(words)
            section = begin[1] if begin and not words.endswith(")") else ""
        elif words == ")":
            section = ""
        elif section == "META" and (said := re.match(r"unit\s*=\s*(\S+)", words)):
            unit = said[1]
        elif section == "NODES" and (node := _NODE.fullmatch(words)):
            places[node[1]] = node[2], node[3]
        elif section == "LINKS" and (link := _LINK.fullmatch(words)):
            data = _capacity(path, where, unit, link[3], link[4].split()[::2])
            edges.append(ListedEdge(link[1], link[2], data, where))
        elif section in ("NODES", "LINKS"):
            raise DetourError(f"{path}, {where}: this is not a line of {section}: {words:.60}")
    return _parts(path, places, edges, True)


def _capacity(
    path: Path, where: str, unit: str | None, own: str | None, modules: Iterable[str | None]
) -> dict[str, Any]:
    """Attributes of a link. Without a unit its capacity means nothing here."""
    try:
        capacities = [float(text) for text in (own, *modules) if text and text != "UNLIMITED"]
    except ValueError as error:
        raise DetourError(f"{path}, {where}: a capacity is a number: {error}") from None
    given = [each for each in capacities[:1] if own and each > 0] or sorted(each for each in capacities if each > 0)
    if not given:
        return {}
    return {"gbps": given[0] * _GBPS_OF_UNIT[unit]} if unit in _GBPS_OF_UNIT else {"capacity": given[0]}


def _parts(
    path: Path, places: dict[str, tuple[str | None, str | None]], edges: list[ListedEdge], geographical: bool
) -> SndlibParts:
    if not edges:
        raise DetourError(f"{path}: it has no links")
    try:
        numbers = {name: (float(x or "nan"), float(y or "nan")) for name, (x, y) in places.items()}
    except ValueError as error:
        raise DetourError(f"{path}: coordinates are numbers: {error}") from None
    geographical &= all(abs(x) <= 180 and abs(y) <= 90 for x, y in numbers.values())
    nodes = [
        ListedNode(name, {"Longitude": x, "Latitude": y} if geographical else {}) for name, (x, y) in numbers.items()
    ]
    return nodes, edges
