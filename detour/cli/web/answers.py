# SPDX-License-Identifier: Apache-2.0
"""Answers of a fabric's page: requests besides the feed, and operations on the fabric, as JSON."""

from __future__ import annotations

import argparse
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from detour.base.errors import DetourError
from detour.base.progress import silent
from detour.base.quantities import rate_text
from detour.base.records import as_json
from detour.base.version import VERSION
from detour.cli.parser import source_port
from detour.cli.web.feed import Feed
from detour.cli.web.layers import graph_of
from detour.cli.web.pipeline import pipeline_of
from detour.cli.web.server import NotThereError, Query, Question, asked_for
from detour.control.p4runtime.pipeline import PipelineConfig
from detour.fabric.operations.registry import OPERATIONS, Operations
from detour.hosts.frames.sample import data_frame
from detour.topo import address
from detour.topo.paths import completed_usids, parse_usid_list
from detour.topo.topology import Topology

CHANGING = (
    *("fail", "heal", "impair", "load", "send", "probe", "reroute", "trace", "trace_frame", "provision"),
    "watch_flows",
)
"""operations that the page may ask for; those that send packets or change something, with the token"""
KEPT_PACKETS = 64
_EXACT = 1 << 53  # numbers of JavaScript are exact below
_MOST_BYTES = 100_000_000
_SHORT = 64  # bytes of payload of a packet that somebody builds


class Answers:
    """Answers about one fabric."""

    def __init__(self, asked: Operations, topology: Topology, feed: Feed, writable: bool) -> None:
        self._asked, self._topology, self._feed, self._writable = asked, topology, feed, writable
        self._graph = graph_of(topology)
        self._shelf, self._one_at_a_time = PacketShelf(), threading.Lock()
        self.questions: Mapping[str, Question] = {
            "state": lambda query: self.state(),
            "switch": lambda query: self.switch(asked_for(query, "name")),
            "flow": lambda query: self.flow(asked_for(query, "name")),
            "path": lambda query: self.path(*_ends(query), query.get("sport", ""), query.get("usid", "")),
            "pipeline": lambda query: pipeline_of(PipelineConfig.fabric().blob),
            "ways": self.ways,
            "frame": self.frame,
            **self._shelf.questions,
        }

    def state(self) -> dict[str, Any]:
        """Return the status and all that does not change while the page is open."""
        status = as_json(self._asked.status())
        endpoints = status.pop("endpoints")
        return {
            "version": VERSION, "kind": "fabric", "writable": self._writable, "graph": self._graph,
            "directions": self._feed.directions, "status": status, "endpoints": endpoints,
        }  # fmt: skip

    def switch(self, name: str) -> dict[str, Any]:
        """Tables with entries, counters of ports, verdicts, and where it is served."""
        try:
            switch = self._topology.switch(name)
        except DetourError as error:
            raise NotThereError(str(error)) from None
        status = self._asked.status()
        counters = as_json(self._asked.counters(name)[name])
        endpoint = status.endpoints[name]
        displaced = status.displaced.get(name)
        return {
            "switch": name,
            "group": switch.group,
            "node_id": switch.node_id,
            "p4runtime": {
                "address": endpoint.address,
                "device_id": endpoint.device_id,
                "primary": "detour" if displaced is None else f"another controller ({displaced.election_id})",
                "lost": status.lost.get(name),
                "clients": as_json(self._asked.clients(name).clients),
            },
            **counters,
            "entries": as_json(self._asked.entries(name)[name]),
        }

    def path(self, source: str, target: str, sport: str, usid: str) -> dict[str, Any]:
        """The hops of a packet, each with the destination address with which it comes there."""
        traced = self._asked.path(source, target, _port(sport), usid or None)
        answer = as_json(traced)
        nodes = [self._topology.switch(hop.switch).node_id for hop in traced.hops]
        host = self._topology.host(target)
        if usid:
            usids = completed_usids(self._topology, parse_usid_list(self._topology, usid), host)
            for hop, at in zip(answer["hops"], addresses_on(usids, nodes), strict=True):
                hop["address"] = at
        return answer

    def ways(self, query: Query) -> dict[str, Any]:
        """A packet in all ways that hashes and selectors leave open, through a copy of the tables: nothing is sent."""
        source, target = _ends(query)
        sport, usid = query.get("sport", ""), query.get("usid", "")
        with self._one_at_a_time:  # a copy of all switches takes memory, and everybody on the machine may ask
            packet = self._asked.trace(source, target, sport=_port(sport), usid=usid or None, all_ways=True)
        return self._shelf.keep(as_json(packet), f"{source} to {target}, all ways")

    def frame(self, query: Query) -> dict[str, Any]:
        """A data packet between two hosts, in hex, for who wants to change it before it is sent."""
        a, b = (self._topology.host(name) for name in _ends(query))
        if a == b:
            raise DetourError(f"source and destination are both {a.name}; they must differ")
        usid = query.get("usid", "")
        usids = completed_usids(self._topology, parse_usid_list(self._topology, usid), b) if usid else ()
        return {"frame": data_frame(a, b, _port(query.get("sport", "")) or 0, usids, _SHORT).hex(), "port": a.port}

    def flow(self, name: str) -> dict[str, Any]:
        """The paths that a flow has had, and the switches on the last one. Raises `NotThereError`: nothing of that name
        sends."""
        paths = self._feed.paths_of(name)
        if not paths:
            raise NotThereError(f"there is no flow {name!r} now")
        return {"flow": name, "paths": paths}

    def do(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Let the fabric carry out an operation. Raises `DetourError`: it may not be asked for here, or says why
        not."""
        if name not in CHANGING:
            raise DetourError(f"the page may not call {name!r}; allowed: {', '.join(CHANGING)}")
        operation = OPERATIONS[name]
        if wrong := [key for key, option in operation.options.items() if option.is_file and key in arguments]:
            raise DetourError(f"{name}: the page may not name files ({', '.join(wrong)})")
        decoded = operation.decoded(arguments)
        if decoded.get("length", 0) > _MOST_BYTES:
            raise DetourError(f"{name}: at most {_MOST_BYTES} bytes from the page")
        extras = {"progress": silent} if operation.tells else {}
        answer = as_json(getattr(self._asked, name)(**decoded, **extras))
        if name in ("fail", "heal"):
            self._feed.now_failed(answer["failures"])
        if name in ("trace", "trace_frame"):
            return self._shelf.keep(answer, _traced(decoded))
        if text := _said(name, decoded, answer):
            self._feed.note(name, text)
        return answer


def _ends(query: Query) -> tuple[str, str]:
    return asked_for(query, "source"), asked_for(query, "target")


def _port(text: str) -> int | None:
    """A UDP source port. Raises `DetourError`: it is none."""
    try:
        return source_port(text) if text else None
    except argparse.ArgumentTypeError as error:
        raise DetourError(str(error)) from None


def _traced(arguments: Mapping[str, Any]) -> str:
    if "frame" in arguments:
        return f"a frame of {len(arguments['frame']) // 2} bytes from {arguments['source']}"
    return f"{arguments['source']} to {arguments['target']}" + (", all ways" if arguments.get("all_ways") else "")


def _said(name: str, arguments: Mapping[str, Any], answer: Mapping[str, Any]) -> str | None:
    """Return the time line's text for an operation; the feed reports failures and paths itself."""
    if name in ("fail", "heal"):
        changed = [f"{answer[key]} {key}" for key in ("inserted", "modified", "deleted") if answer[key]]
        return f"tables: {', '.join(changed) or 'nothing to change'} in {answer['seconds']:.2f} s"
    if name == "impair":
        return f"impaired: {', '.join(row['link'] for row in answer['links']) or 'no link'}"
    if name == "load":
        return f"load {answer['pattern']} {'ended' if arguments.get('stop') else 'on'}: {answer['pairs']} connections"
    if name == "send":
        return f"{arguments['source']} to {arguments['target']}: {rate_text(1e6 * answer['throughput_mbps'])}"
    return None


def addresses_on(usids: Sequence[int], nodes: Sequence[int]) -> list[str]:
    """The address with which a packet comes to each switch of its path. `usids`: its list, the host's last; `nodes`:
    node ids of the switches, in order. A switch whose uSID is the active one shifts it out (RFC 9800, 4.1.1), and so it
    does with that of one of its links (uA), which is known to nobody else."""
    left, addresses = list(usids), []
    for node in nodes:
        addresses.append(address.ipv6_text(address.usid_address(left)))
        while len(left) > 1 and (left[0] == node or left[0] >= address.FIRST_FUNCTION):
            left.pop(0)
    return addresses


def program_state(status: dict[str, Any], writable: bool) -> dict[str, Any]:
    """Return the state, as `Answers.state` does, where there is no fabric."""
    return {
        "version": VERSION, "kind": "program", "writable": writable, "directions": [], "status": status,
        "graph": {"width": 1, "height": 1, "family": "", "switches": [], "hosts": [], "links": []},
    }  # fmt: skip


class PacketShelf:
    """Traced packets that the page shows, by number, so that a view of one can be linked to. Keeps the last ones.
    Methods may be called from several threads."""

    def __init__(self, kept: int = KEPT_PACKETS) -> None:
        self._kept, self._next = kept, 1
        self._lock = threading.Lock()
        self._packets: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self.questions: Mapping[str, Question] = {
            "packet": lambda query: self.find(asked_for(query, "id")),
            "packets": lambda query: self.listed(),
        }

    def keep(self, document: dict[str, Any], description: str) -> dict[str, Any]:
        """The document (docs/trace.md) with its `id` and what it is `description`."""
        with self._lock:
            packet = {"id": self._next, "about": description, **_readable(document)}
            self._packets[self._next] = packet
            self._next += 1
            while len(self._packets) > self._kept:
                self._packets.popitem(last=False)
        return packet

    def find(self, number: str) -> dict[str, Any]:
        """The packet of that number. Raises `NotThereError`: there is none any more."""
        with self._lock:
            packet = self._packets.get(int(number)) if number.isascii() and number.isdigit() else None
        if packet is None:
            raise NotThereError(f"packet {number[:20]} is not there: the server keeps the last {self._kept}")
        return packet

    def listed(self) -> list[dict[str, Any]]:
        """Numbers and what they are about, the newest first."""
        with self._lock:
            return [{"id": each["id"], "about": each["about"]} for each in reversed(self._packets.values())]


def _readable(value: Any) -> Any:
    """The same, with numbers that JavaScript cannot hold (addresses) in hexadecimal."""
    if isinstance(value, dict):
        return {key: _readable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_readable(each) for each in value]
    return hex(value) if isinstance(value, int) and abs(value) >= _EXACT else value
