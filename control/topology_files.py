# SPDX-License-Identifier: Apache-2.0
"""Topologies by whatever names them: a specification, a file, or code of one's own (`open_topology`)."""

from __future__ import annotations

from detour.base import plugins
from detour.control import graph_files
from detour.topo.listed import topology_of_lists
from detour.topo.spec import parse_topology
from detour.topo.topology import Topology


def open_topology(text: str, gbps: float | None = None, delay_ns: float | None = None) -> Topology:
    """The topology that a text names: a specification (`topo.spec`), a file (`control.graph_files`), or `FILE.py:NAME`.

    `gbps`, `delay_ns`: of links of a file that say nothing (None: 100 Gb/s or the greatest rate beside others that say
    their rate, else what the fabric's settings say).

    Raises:
        DetourError: what is wrong, with file, line or element and rule."""
    text = text.strip()
    if not graph_files.names_file(text):
        return parse_topology(text)
    file = graph_files.NetworkFile.given(text)
    network = file.read()
    if file.of_switches(network):
        topology = file.expander(network, gbps, delay_ns).topology
    else:
        topology = topology_of_lists(network, gbps, delay_ns, file.spec)
    for note in file.notes:
        graph_files.warn_once(note)
    return topology


def absolute(text: str) -> str:
    """The same topology's text for a process that may be in another folder."""
    return graph_files.absolute(text) if graph_files.names_file(text) else plugins.absolute(text)
