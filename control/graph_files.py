# SPDX-License-Identifier: Apache-2.0
"""Networks from files: `graph:FILE[,hosts=N][,grown=N]`, for all that takes a topology by its text.

GraphML (`.graphml`, `.xml`), networkx's JSON of nodes and links (`.json`), or a list of edges, one a line: two names
and, if there is more to say, a dictionary, like `a b {'speed': 4, 'delay_us': 0.5}`. What attributes mean:
`topo.expander.given`; `grown`: so many switches are added (`topo.expander.growth`). A network's `spec` is the text that
was read and a digest of the file behind a `#`; with it, a file that has changed meanwhile is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from detour.base.errors import DetourError
from detour.topo.expander.booted import EXPANDER_FAMILIES, network_of
from detour.topo.expander.given import expander_of_graph
from detour.topo.expander.growth import grow
from detour.topo.expander.network import Expander
from detour.topo.keyvalues import whole_number
from detour.topo.spec import parse_topology

if TYPE_CHECKING:
    import networkx

_PREFIX = "graph:"
_KNOWN = ("hosts", "grown")
_PARTS = re.compile(r"(?P<file>.*?)(?P<values>(,[^,/=#]*=[^,/=#]*)*)(#(?P<digest>[0-9a-f]{16}))?", re.DOTALL)


def is_graph(text: str) -> bool:
    """Whether a topology's text names a file."""
    return text.strip().lower().startswith(_PREFIX)


def network_from(text: str) -> Expander:
    """The network of switches that a text describes: an expander, or what is in a file.

    Raises:
        DetourError: it is neither, or see `parse_topology` and `read_graph`.
    """
    if is_graph(text):
        return read_graph(text)
    topology = parse_topology(text)
    if topology.family not in EXPANDER_FAMILIES:
        raise DetourError(
            f"{text!r} is no expander and no file; there are {', '.join(EXPANDER_FAMILIES)} and {_PREFIX}FILE"
        )
    return network_of(topology.spec)


def absolute(text: str) -> str:
    """The same topology's text for a process that may be in another folder."""
    if not is_graph(text):
        return text
    return f"{_PREFIX}{Path(text.strip()[len(_PREFIX) :]).absolute()}"


def read_graph(text: str) -> Expander:
    """The network in a file.

    Raises:
        DetourError: the file cannot be read, is not of its form, has changed, or describes no network.
    """
    found = _PARTS.fullmatch(text.strip()[len(_PREFIX) :])
    assert found is not None, "matches any text"
    file, values = found["file"], _numbers(text, found["values"])
    if not file:
        raise DetourError(f"{text!r}: a file is missing, like {_PREFIX}network.graphml")
    content = content_of(Path(file))
    digest = hashlib.sha256(content).hexdigest()[:16]
    if found["digest"] not in (None, digest):
        raise DetourError(f"{file} has changed since {text!r} was read from it")
    hosts, count = values.get("hosts"), values.get("grown", 0)
    own = "" if hosts is None else f",hosts={hosts}"
    network = expander_of_graph(_parsed(Path(file), content), f"{_PREFIX}{file}{own}#{digest}", hosts)
    return grow(network, count).network if count else network


def _numbers(text: str, values: str) -> dict[str, int]:
    """What follows the file's name."""
    numbers = {}
    for part in filter(None, values.split(",")):
        key, _, value = part.partition("=")
        key = key.strip()
        if key not in _KNOWN:
            raise DetourError(f"{text!r}: there is no parameter {key}; allowed: {' '.join(f'[{k}=]' for k in _KNOWN)}")
        if key in numbers:
            raise DetourError(f"{text!r}: {key} is given twice")
        numbers[key] = whole_number(text, key, value.strip())
        if numbers[key] < 0:
            raise DetourError(f"{text!r}: {key}={numbers[key]} is less than 0")
    return numbers


def content_of(path: Path) -> bytes:
    """What is in a file.

    Raises:
        DetourError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise DetourError(f"{path}: {getattr(error, 'strerror', error)}") from None


def _parsed(path: Path, content: bytes) -> networkx.Graph:
    suffix = path.suffix.lower()
    kind, read = _READERS.get(suffix, ("list of edges", _from_edges))
    try:
        return read(content)
    except Exception as error:  # readers raise what comes: KeyError, TypeError, ParseError, NetworkXError...
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DetourError(f"{path} is not a {kind}: {reason}") from None


def _from_graphml(content: bytes) -> networkx.Graph:
    import networkx

    return networkx.parse_graphml(content.decode())


def _from_json(content: bytes) -> networkx.Graph:
    import networkx

    found = json.loads(content)
    if not isinstance(found, dict) or "nodes" not in found or not {"links", "edges"} & found.keys():
        raise ValueError("it has no nodes and links")
    return networkx.node_link_graph(found, edges="links" if "links" in found else "edges")


def _from_edges(content: bytes) -> networkx.Graph:
    import networkx

    lines = [line.split("#")[0].strip() for line in content.decode().splitlines()]
    alone = next((line for line in lines if line and len(line.split()) < 2), None)
    if alone is not None:
        raise ValueError(f"{alone!r} is not two names")
    return networkx.parse_edgelist(lines, data=True)


_READERS: dict[str, tuple[str, Callable[[bytes], networkx.Graph]]] = {
    ".graphml": ("GraphML file", _from_graphml),
    ".xml": ("GraphML file", _from_graphml),
    ".json": ("networkx JSON file", _from_json),
}
