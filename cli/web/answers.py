# SPDX-License-Identifier: Apache-2.0
"""What the page asks for besides the feed, and what it may let the fabric do. Answers are what JSON knows."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from detour import __version__
from detour.base.errors import DetourError
from detour.base.progress import silent
from detour.base.records import as_json
from detour.cli.parser import source_port
from detour.cli.web.addressing import addresses_on
from detour.cli.web.feed import Feed
from detour.cli.web.graph import graph_of
from detour.fabric.operations.registry import OPERATIONS, Operations
from detour.topo.paths import completed_usids, parse_usid_list
from detour.topo.topology import Topology

CHANGING = ("fail", "heal", "impair", "load", "send", "probe", "reroute", "trace", "provision", "watch_flows")
"""operations that the page may ask for; those that send packets or change something, with the token"""
_NOT_FROM_A_PAGE = ("file", "store")
"""arguments that name files of the machine"""
_MOST_BYTES = 100_000_000


class Answers:
    """Of one fabric."""

    def __init__(self, asked: Operations, topology: Topology, feed: Feed, writable: bool) -> None:
        self._asked, self._topology, self._feed, self._writable = asked, topology, feed, writable
        self._graph = graph_of(topology)

    def state(self) -> dict[str, Any]:
        """What does not change while the page is open, and the status."""
        status = as_json(self._asked.status())
        endpoints = status.pop("endpoints")
        return {
            "version": __version__,
            "writable": self._writable,
            "graph": self._graph,
            "directions": self._feed.directions,
            "status": status,
            "endpoints": endpoints,
        }

    def switch(self, name: str) -> dict[str, Any]:
        """Tables with entries, counters of ports, verdicts, and where it is served."""
        found = self._topology.switch(name)
        status = self._asked.status()
        counters = as_json(self._asked.counters(name)[name])
        endpoint = status.endpoints[name]
        displaced = status.displaced.get(name)
        return {
            "switch": name,
            "group": found.group,
            "node_id": found.node_id,
            "p4runtime": {
                "address": endpoint.address,
                "device_id": endpoint.device_id,
                "primary": "detour" if displaced is None else f"another controller ({displaced.election_id})",
                "lost": status.lost.get(name),
            },
            **counters,
            "entries": as_json(self._asked.entries(name)[name]),
        }

    def path(self, source: str, target: str, sport: str, usid: str) -> dict[str, Any]:
        """The hops of a packet, each with the destination address with which it comes there."""
        try:
            port = source_port(sport) if sport else None
        except argparse.ArgumentTypeError as error:
            raise DetourError(str(error)) from None
        found = self._asked.path(source, target, port, usid or None)
        answer = as_json(found)
        nodes = [self._topology.switch(hop.switch).node_id for hop in found.hops]
        host = self._topology.host(target)
        if usid:
            usids = completed_usids(self._topology, parse_usid_list(self._topology, usid), host)
            for hop, at in zip(answer["hops"], addresses_on(usids, nodes), strict=True):
                hop["address"] = at
        return answer

    def flow(self, name: str) -> dict[str, Any]:
        """The paths that a flow has had, and the switches on the last one."""
        return {"flow": name, "paths": self._feed.paths_of(name)}

    def do(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Lets the fabric carry out an operation.

        Raises:
            DetourError: it may not be asked for here, or says why not.
        """
        if name not in CHANGING:
            raise DetourError(f"the page may not ask for {name!r}; it may for {', '.join(CHANGING)}")
        if wrong := [key for key in _NOT_FROM_A_PAGE if key in arguments]:
            raise DetourError(f"{name}: the page may not name files ({', '.join(wrong)})")
        decoded = OPERATIONS[name].decoded(arguments)
        if decoded.get("length", 0) > _MOST_BYTES:
            raise DetourError(f"{name}: at most {_MOST_BYTES} bytes from the page")
        extras = {"progress": silent} if "progress" in OPERATIONS[name].function.__code__.co_varnames else {}
        answer = as_json(getattr(self._asked, name)(**decoded, **extras))
        if name in ("fail", "heal"):
            self._feed.now_failed(answer["failures"])
        if said := _said(name, decoded, answer):
            self._feed.note(name, said)
        return answer


def _said(name: str, arguments: Mapping[str, Any], answer: Mapping[str, Any]) -> str | None:
    """What the time line says of an operation; of failures and paths the feed speaks itself."""
    if name in ("fail", "heal"):
        changed = [f"{answer[key]} {key}" for key in ("inserted", "modified", "deleted") if answer[key]]
        return f"tables: {', '.join(changed) or 'nothing to change'} in {answer['seconds']:.2f} s"
    if name == "impair":
        return f"impaired: {', '.join(row['link'] for row in answer['links']) or 'no link'}"
    if name == "load":
        return f"load {answer['pattern']} {'ended' if arguments.get('stop') else 'on'}: {answer['pairs']} connections"
    if name == "send":
        return f"{arguments['source']} to {arguments['target']}: {answer['throughput_mbps']:.2f} Mb/s"
    return None
