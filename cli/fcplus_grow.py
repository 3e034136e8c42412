# SPDX-License-Identifier: Apache-2.0
"""`fcplus grow`: what is rewired for every new switch, and the routes of the network that comes of it."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from detour.base.errors import DetourError
from detour.base.tables import Table, fixed, left, right
from detour.cli.output import Page, bar, present

if TYPE_CHECKING:
    from detour.control.expander.routes import PathPolicy
    from detour.topo.expander import Expander


@dataclass(frozen=True)
class _Added:
    """A new switch, the links that were taken away for it, and how many any wiring has to take away."""

    switch: str
    rewired: list[str]
    least: int


@dataclass(frozen=True)
class _Grown:
    """`spec` of what has grown; `paths` of `pairs`, their length, and whether no priority has a cycle. `lengthened`:
    the share of the old paths that passed a link which was taken away."""

    spec: str
    switches: int
    added: list[_Added]
    rewired: int
    least: int
    links: int
    priorities: int
    pairs: int
    paths: int
    mean_hops: float
    max_hops: int
    acyclic: list[bool]
    lengthened: float
    seconds: float


def grow(options: argparse.Namespace, network: Expander, policy: PathPolicy) -> int:
    """Grows, routes, proves and shows; the exit code, 0 if nothing can deadlock."""
    from detour.control.expander import proof
    from detour.control.expander.routes import compute, share_over
    from detour.control.native import EXPANDER
    from detour.topo.expander import growth

    if options.add < 1:
        raise DetourError(f"--add {options.add} is less than 1 switch")
    EXPANDER.load()
    began = time.monotonic()
    found = growth.grow(network, options.add)
    with bar("paths", options.json) as report:
        before = compute(network, policy, report=report)
        routes = compute(found.network, policy, report=report)
    proven = proof.prove(routes)
    # Those that were there before: a switch may come in where an earlier new one has its links.
    taken = {pair for step in found.steps for pair in step.rewired if max(pair) < network.size}
    added = [_Added(f"s{s.switch}", [f"s{a}-s{b}" for a, b in s.rewired], s.least) for s in found.steps]
    result = _Grown(
        spec=found.network.spec,
        switches=found.network.size,
        added=added,
        rewired=sum(len(one.rewired) for one in added),
        least=sum(one.least for one in added),
        links=len(found.network.links),
        priorities=policy.priorities,
        pairs=len(routes.pairs),
        paths=routes.total,
        mean_hops=round(routes.mean_length, 4),
        max_hops=int(routes.length.max(initial=0)),
        acyclic=[layer.acyclic for layer in proven.priorities],
        lengthened=round(share_over(before, taken), 4),
        seconds=round(time.monotonic() - began, 4),
    )
    present(result, options, lambda page: _show(page, result))
    return 0 if proven.deadlock_free else 1


def _show(page: Page, found: _Grown) -> None:
    columns = (
        left("new switch", lambda row: row.switch),
        right("rewired", lambda row: len(row.rewired)),
        right("least possible", lambda row: row.least),
        left("links that made way", lambda row: " ".join(row.rewired)),
    )
    page.table(Table(columns, found.added))
    page.print(found.spec, whole=True)
    page.print(f"{found.switches} switches, {found.links} links; {found.lengthened:.1%} of the old paths passed one")
    page.print(
        f"{found.paths} paths of {found.pairs} pairs, {fixed(found.mean_hops, 2)} links in the mean, "
        f"{found.max_hops} at most, in {found.priorities} priorities"
    )
    page.print("cannot deadlock" if all(found.acyclic) else "may deadlock")
