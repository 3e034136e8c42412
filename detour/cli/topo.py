# SPDX-License-Identifier: Apache-2.0
"""`topo`: what the graph of a topology is worth."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.cli.output import Page, present
from detour.cli.parser import command, number

if TYPE_CHECKING:
    from detour.topo.measures import GraphMeasures


def register(commands: Any) -> None:
    text = "show size, distances, spectral gap, bisection, edge-disjoint paths and cost of a topology"
    topo = command(commands, "topo", text, _topo)
    topo.add_argument("topology", metavar="SPEC", help="a topology, like rng:n=512,d=32,hosts=32 or a file")
    topo.option("--optics", "price of a transceiver, as a share of a switch's (0.01)", "F", number, default=0.01)


def _topo(options: argparse.Namespace) -> None:
    from detour.control.graph_files import open_topology
    from detour.topo.measures import measure

    if options.optics < 0:
        raise DetourError(f"--optics {options.optics} is less than 0")
    measures = measure(open_topology(options.topology), options.optics)
    present(measures, options, lambda page: _page(page, measures))


def _page(page: Page, found: GraphMeasures) -> None:
    degree = f"{found.degree}" if found.degree == found.least_degree else f"{found.least_degree} to {found.degree}"
    lines = [
        ("switches", f"{found.switches}, with {degree} links to others"),
        ("links between switches", f"{found.links}"),
        ("hosts", f"{found.hosts}"),
        ("ports in use", f"{found.ports}, at most {found.radix} of a switch"),
        ("diameter, mean distance", f"{found.diameter}, {found.mean_distance:.3f} links"),
        ("spectral gap", f"{found.spectral_gap:.4f}" + _bound(found)),
    ]
    if found.bisection is not None:
        lines.append(("bisection", f"at most {found.bisection:.3f} of what half of the hosts send"))
    if found.disjoint_paths is not None:
        paths = found.disjoint_paths
        text = f"{paths.least} at least, median {paths.median:g} ({paths.pairs} pairs of switches)"
        lines.append(("edge-disjoint paths", text))
    lines.append(("cost in switches", f"{found.cost.switches:g}, with optics {found.cost.switches_and_optics:g}"))
    page.print(found.topology)
    for name, value in lines:
        page.print(f"  {name:<24} {value}")


def _bound(found: GraphMeasures) -> str:
    return "" if found.ramanujan_gap is None else f" (limit of large graphs: {found.ramanujan_gap:.4f})"
