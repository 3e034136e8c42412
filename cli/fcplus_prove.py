# SPDX-License-Identifier: Apache-2.0
"""`fcplus prove`: what is proven of listed routes, of plain traffic, and of all that may happen when links fail."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from detour.base.tables import Table, left, right
from detour.cli.output import Page, bar, present

if TYPE_CHECKING:
    from detour.control.expander.routes import ExpanderRoutes, PathPolicy
    from detour.control.verifier.dependencies import Waits
    from detour.topo.expander import Expander


@dataclass(frozen=True)
class _Installed:
    """Listed routes, hop by hop, in the classes that switches put them into."""

    acyclic: bool
    channels: int
    dependencies: int


@dataclass(frozen=True)
class _Plain(_Installed):
    """With packets besides that switches lead along shortest paths; `lossy`: the share of these that leaves the
    lossless classes."""

    lossy: float


@dataclass(frozen=True)
class _Failed(_Installed):
    """With packets that go from any port to any other. `links` that are down; `unrouted`: pairs of switches that no
    lossless path joins then."""

    links: list[str]
    unrouted: int


@dataclass(frozen=True, kw_only=True)
class _Proven:
    acyclic: list[bool]
    channels: int
    dependencies: int
    seconds: float
    installed: _Installed
    plain_traffic: _Plain
    failed: _Failed
    tagger_priorities: int | UnsetType = UNSET
    cycle: list[str] | UnsetType = UNSET


def prove(options: argparse.Namespace, network: Expander, policy: PathPolicy) -> int:
    """Proves and shows; the exit code, 0 if nothing can deadlock."""
    from detour.control.expander import proof, tagger
    from detour.control.expander.routes import compute
    from detour.control.expander.warm import warm_proof

    warm_proof()
    with bar("paths", options.json) as report:
        routes = compute(network, policy, report=report, partial=bool(network.down))
    began = time.monotonic()
    proven = proof.prove(routes)
    seconds = round(time.monotonic() - began, 4)
    cycle = next((proof.channel_names(network, p.cycle) for p in proven.priorities if p.cycle), None)
    installed, plain, failed, circle = _installed(routes)
    safe = proven.deadlock_free and installed.acyclic and plain.acyclic
    found = _Proven(
        acyclic=[layer.acyclic for layer in proven.priorities],
        channels=proven.channels,
        dependencies=proven.dependencies,
        seconds=seconds,
        installed=installed,
        plain_traffic=plain,
        failed=failed,
        tagger_priorities=UNSET if proven.deadlock_free and not options.tagger else tagger.assign(routes).priorities,
        cycle=UNSET if safe else cycle or circle,
    )
    present(found, options, lambda page: _show(page, found))
    return 0 if safe else 1


def _installed(routes: ExpanderRoutes) -> tuple[_Installed, _Plain, _Failed, list[str]]:
    """What follows from the entries for classes that switches hold; and a circle, if plain traffic closes one."""
    import numpy as np

    from detour.control.expander.demand import hop_distances
    from detour.control.verifier.dependencies import InstalledClasses, shortest_choices, wires_of
    from detour.fabric.traffic.expander import installed_classes

    network, priorities = routes.network, routes.policy.priorities
    whole, distance = network.without(()), hop_distances(network)
    wires, lossless = wires_of(whole.topology), (1 << max(1, priorities)) - 1
    checked = InstalledClasses(installed_classes(whole, priorities), wires, lossless)
    source = np.ascontiguousarray(routes.pairs[:, 0].astype(np.int64))
    listed = checked.follow_listed(source, routes.first, routes.length, routes.columns)
    choices = shortest_choices(network.channels.neighbour, distance)
    plain = checked.follow_choices(choices)
    lossy = round(checked.share_lossy(choices, distance), 4)
    anywhere = checked.follow_anywhere()
    links = [f"s{a}-s{b}" for a, b in network.links[sorted(network.down)].tolist()]
    unrouted = int((np.diff(routes.first) == 0).sum())
    return (
        _Installed(*_values(listed)),
        _Plain(*_values(plain), lossy),
        _Failed(*_values(anywhere), links, unrouted),
        list(plain.cycle),
    )


def _values(waits: Waits) -> tuple[bool, int, int]:
    return waits.acyclic, waits.buffers, waits.dependencies


def _show(page: Page, found: _Proven) -> None:
    columns = (right("priority", lambda row: row[0]), left("acyclic", lambda row: "yes" if row[1] else "NO"))
    page.table(Table(columns, list(enumerate(found.acyclic, 1))))
    page.print(f"{found.channels} channels, {found.dependencies} dependencies, {found.seconds} s")
    if found.cycle:
        page.print("a cycle: " + " ".join(found.cycle))
    if found.tagger_priorities:
        page.print(f"Tagger needs {found.tagger_priorities} priorities for these routes")
    page.print(f"listed routes, as switches class them: {_verdict(found.installed.acyclic)}")
    lossy = f"; {found.plain_traffic.lossy:.1%} of it leaves the lossless classes" if found.plain_traffic.lossy else ""
    page.print(f"with plain traffic over shortest paths: {_verdict(found.plain_traffic.acyclic)}{lossy}")
    page.print(f"whatever fails, however packets are led: {_verdict(found.failed.acyclic)}")
    if found.failed.links:
        unrouted = f"; no lossless path for {found.failed.unrouted} pairs" if found.failed.unrouted else ""
        page.print(f"down: {', '.join(found.failed.links)}{unrouted}")


def _verdict(acyclic: bool) -> str:
    return "cannot deadlock" if acyclic else "may deadlock"
