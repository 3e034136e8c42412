# SPDX-License-Identifier: Apache-2.0
"""Networks from files: `[graph:]FILE[,hosts=N][,drop=WHAT][,grown=N]`, for all that takes a topology by its text.

Forms: `control.network_files`. A file may name hosts (`topo.listed`). With `graph:`, and if it names none, each switch
gets hosts of its own: as many as its attribute `hosts` says, or N, or 1 (`topo.expander.given`). `drop`: what the
network is had without, keys of `topo.listed.DROPPABLE` with a `+` between them, or `all`. Links from a node to itself
are left out of every network, attributes of other programs say nothing, and both is noted. `grown`: so many switches
are added (`topo.expander.growth`). A network's `spec` is the text that was read and a digest of the file behind a `#`;
with it, a file that has changed meanwhile is refused.
"""

from __future__ import annotations

import hashlib
import logging
import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from detour.base import plugins
from detour.base.errors import DetourError
from detour.base.files import read_bytes
from detour.control.network_files import FORMS, read_network
from detour.topo.expander.booted import EXPANDER_FAMILIES, network_of
from detour.topo.expander.given import expander_of_graph
from detour.topo.expander.growth import grow
from detour.topo.expander.network import Expander
from detour.topo.keyvalues import check_keys, split_spec, whole_number
from detour.topo.listed import DROPPABLE, ListedNetwork, topology_of_lists
from detour.topo.spec import SHORT_NAMES, TOPOLOGY_REGISTRY, parse_topology
from detour.topo.topology import Topology

_log = logging.getLogger(__name__)
_PREFIX = "graph:"
_KEYS = ("hosts", "drop", "grown")
_PARTS = re.compile(r"(?P<file>.*?)(?P<values>(,[^,/=#]*=[^,/=#]*)*)(#(?P<digest>[0-9a-f]{16}))?", re.DOTALL)
_SHOWN = 6


def names_file(text: str) -> bool:
    """Return whether a topology's text names a file: by its prefix, by how the name ends, or because it is there."""
    text = text.strip()
    if text.lower().startswith(_PREFIX):
        return True
    name = plugins.split(text)[0]
    if plugins.in_file(name):
        return False
    path = Path(_parts(text)["file"])
    if any(path.suffix.lower() in endings for _, endings, _ in FORMS):
        return True
    return name.lower() not in SHORT_NAMES and not TOPOLOGY_REGISTRY.knows(name) and _is_there(path)


def _is_there(path: Path) -> bool:
    try:
        return bool(path.name) and path.exists()
    except (OSError, ValueError):
        return False


def _parts(text: str) -> re.Match[str]:
    match = _PARTS.fullmatch(text)
    assert match is not None, "matches any text"
    return match


def network_from(text: str) -> Expander:
    """The network of switches that a text describes: an expander, or what is in a file. Raises `DetourError`: it is
    neither, or see `parse_topology` and `read_graph`."""
    if names_file(text):
        return read_graph(text)
    topology = parse_topology(text)
    if topology.family not in EXPANDER_FAMILIES:
        raise DetourError(
            f"{text!r} is neither an expander nor a file; there are {', '.join(EXPANDER_FAMILIES)} and {_PREFIX}FILE"
        )
    return network_of(topology.spec)


def absolute(text: str) -> str:
    """The same topology's text for a process that may be in another folder."""
    if not names_file(text):
        return plugins.absolute(text)
    text = text.strip()
    prefix = _PREFIX if text.lower().startswith(_PREFIX) else ""
    return f"{prefix}{Path(text[len(prefix) :]).absolute()}"


def open_topology(text: str, gbps: float | None = None, delay_ns: float | None = None) -> Topology:
    """The topology that a text names: a specification (`topo.spec`), a file, or `FILE.py:NAME`. `gbps`, `delay_ns`: of
    links of a file that say nothing (None: 100 Gb/s or the greatest rate beside others that say their rate, else what
    the fabric's settings say). Raises `DetourError`: what is wrong, with file, line or element and rule."""
    text = text.strip()
    if not names_file(text):
        return parse_topology(text)
    file = NetworkFile.given(text)
    network = file.read()
    if file.of_switches(network):
        topology = file.expander(network, gbps, delay_ns).topology
    else:
        topology = topology_of_lists(network, gbps, delay_ns, file.spec)
        file.note_foreign(network, False)
    for note in file.notes:
        warn_once(note)
    return topology


def read_graph(text: str) -> Expander:
    """The network of switches in a file. Raises `DetourError`: the file cannot be read, is not of its form, has
    changed, or describes no network."""
    file = NetworkFile.given(text)
    network = file.expander(file.read())
    for note in file.notes:
        warn_once(note)
    return network


@dataclass
class NetworkFile:
    """A text that names a file, understood. `switches`: it has the prefix; `notes`: what was guessed or dropped."""

    text: str
    switches: bool
    path: Path
    hosts: int | None
    drops: tuple[str, ...]
    grown: int
    given_digest: str | None
    notes: list[str] = field(default_factory=list)

    @staticmethod
    def given(text: str) -> NetworkFile:
        """Parse the text of a topology option. Raises `DetourError`: it names no file, or a value means nothing."""
        text = text.strip()
        switches = text.lower().startswith(_PREFIX)
        match = _parts(text[len(_PREFIX) :] if switches else text)
        if not match["file"]:
            raise DetourError(f"{text!r}: give a file, like {_PREFIX}network.graphml")
        values = split_spec(f"{_PREFIX}{match['values'][1:]}")[1] if match["values"] else {}
        check_keys(text, values, (), _KEYS)
        numbers = {key: whole_number(text, key, values[key]) for key in ("hosts", "grown") if key in values}
        below = next((key for key in numbers if numbers[key] < 0), None)
        if below is not None:
            raise DetourError(f"{text!r}: {below}={numbers[below]} is less than 0")
        drops = _drops(text, values["drop"]) if "drop" in values else ()
        kept = ["parallel links are links of their own: drop=parallel leaves out none"]
        notes = kept if "parallel" in values.get("drop", "").split("+") else []
        path, grown = Path(match["file"]), numbers.get("grown", 0)
        return NetworkFile(text, switches, path, numbers.get("hosts"), drops, grown, match["digest"], notes)

    @cached_property
    def _content(self) -> bytes:
        if self.path.is_dir():
            raise DetourError(f"{self.path} is a folder; a topology is a file")
        return read_bytes(self.path)

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(self._content).hexdigest()[:16]

    @property
    def _drop_text(self) -> str:
        every = self.drops == tuple(DROPPABLE)
        return f",drop={'all' if every else '+'.join(self.drops)}" if self.drops else ""

    @property
    def spec(self) -> str:
        """The spec of a topology with the file's own hosts."""
        return f"{self.path}{self._drop_text}#{self._digest}"

    def read(self) -> ListedNetwork:
        """Read the file, without what is to be dropped, and note what was dropped. Raises `DetourError`: the file is
        wrong."""
        if self.given_digest not in (None, self._digest):
            raise DetourError(f"{self.path} has changed since {self.text!r} was read from it")
        network, loops = read_network(self.path, self._content, self.switches).without_loops()
        if loops:
            links = "a link" if len(loops) == 1 else f"{len(loops)} links"
            self.notes.append(f"{self.path}: left out {links} from a node to itself: {_some(loops)}")
        network, dropped = network.without(self.drops)
        if dropped:
            self.notes.append(f"{self.path}: dropped {len(dropped)}: {_some(dropped)}")
        return network

    def of_switches(self, network: ListedNetwork) -> bool:
        """Return whether each switch gets hosts of its own; notes it if that is a guess. Raises `DetourError`: it
        would, but the file names hosts."""
        if self.switches:
            return True
        hosts, own = network.hosts(), self.hosts is not None or self.grown > 0
        if hosts and own:
            raise DetourError(f"{self.text!r}: the file has hosts, like {min(hosts)}; leave out hosts= and grown=")
        given = any("hosts" in data for data in (network.data, *(node.data for node in network.nodes)))
        if not (hosts or own or given):
            self.notes.append(f"{self.path} names no hosts: every switch gets one (FILE,hosts=N for another number)")
        return not hosts

    def note_foreign(self, network: ListedNetwork, of_switches: bool) -> None:
        """Note the attributes that are ignored."""
        if foreign := network.foreign(of_switches):
            self.notes.append(f"{self.path}: attributes that mean nothing here are ignored: {_some(foreign)}")

    def expander(self, network: ListedNetwork, gbps: float | None = None, delay_ns: float | None = None) -> Expander:
        """The network of switches. `gbps`, `delay_ns`: of links that say nothing. Raises `DetourError`: see
        `ListedNetwork.graph_of_switches` and `expander_of_graph`."""
        own = "" if self.hosts is None else f",hosts={self.hosts}"
        spec = f"{_PREFIX}{self.path}{own}{self._drop_text}#{self._digest}"
        self.note_foreign(network, True)
        whole = expander_of_graph(network.graph_of_switches(), spec, self.hosts, gbps, delay_ns)
        return grow(whole, self.grown).network if self.grown else whole


@lru_cache(maxsize=256)
def warn_once(text: str) -> None:
    """A file is read more than once in a run."""
    _log.warning("%s", text)


def _some(words: list[str]) -> str:
    return ", ".join(words[:_SHOWN]) + (f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")


_ALWAYS = ("loops", "parallel")
"""what else could be dropped once: the ones are never there, the others carry traffic"""


def _drops(text: str, value: str) -> tuple[str, ...]:
    words = tuple(DROPPABLE) if value == "all" else tuple(word for word in value.split("+") if word not in _ALWAYS)
    wrong = next((word for word in words if word not in DROPPABLE), None)
    if wrong is not None:
        raise DetourError(f"{text!r}: drop={wrong}: allowed are {', '.join(DROPPABLE)}, with a + between them, and all")
    return tuple(word for word in DROPPABLE if word in words)
