# SPDX-License-Identifier: Apache-2.0
"""`fcplus prove`: what is proven of listed routes, of plain traffic, and of all that may happen when links fail;
of routes that are computed here, or of a fabric that is up."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from detour.base.tables import Table, left, right
from detour.cli.asking import running
from detour.cli.output import Page, bar, present, shown_progress
from detour.fabric.operations.results import ProvenAnywhere, ProvenClasses, ProvenPlain

if TYPE_CHECKING:
    from detour.control.expander.proof import InstalledProof
    from detour.control.expander.routes import ExpanderRoutes, PathPolicy
    from detour.fabric.operations.results import ProvenFabric, ProvenSenders
    from detour.topo.expander import Expander


@dataclass(frozen=True, kw_only=True)
class _Proven:
    acyclic: list[bool]
    channels: int
    dependencies: int
    seconds: float
    installed: ProvenClasses
    plain_traffic: ProvenPlain
    failed: ProvenAnywhere
    tagger_priorities: int | UnsetType = UNSET
    cycle: list[str] | UnsetType = UNSET


def prove(options: argparse.Namespace, network: Expander, policy: PathPolicy) -> int:
    """Prove and show; the exit code, 0 if nothing can deadlock."""
    from detour.control.expander import proof, tagger
    from detour.control.expander.routes import compute
    from detour.control.native import EXPANDER

    EXPANDER.load()
    with bar("paths", options.json) as report:
        routes = compute(network, policy, report=report, partial=bool(network.down))
    began = time.monotonic()
    proven = proof.prove(routes)
    seconds = round(time.monotonic() - began, 4)
    cycle = next((proof.channel_names(network, p.cycle) for p in proven.priorities if p.cycle), None)
    held = _installed(routes)
    between = [link.name for link in network.topology.links if link.kind != "host"]
    links = [between[row] for row in sorted(network.down)]
    safe = proven.deadlock_free and held.listed.acyclic and held.plain.acyclic
    document = _Proven(
        acyclic=[layer.acyclic for layer in proven.priorities], channels=proven.channels,
        dependencies=proven.dependencies, seconds=seconds, installed=ProvenClasses(*held.listed.sums),
        plain_traffic=ProvenPlain(*held.plain.sums, held.lossy),
        failed=ProvenAnywhere(*held.anywhere.sums, links, held.unrouted),
        tagger_priorities=UNSET if proven.deadlock_free and not options.tagger else tagger.assign(routes).priorities,
        cycle=UNSET if safe else cycle or list(held.plain.cycle),
    )  # fmt: skip
    present(document, options, lambda page: _show(page, document))
    return 0 if safe else 1


def _installed(routes: ExpanderRoutes) -> InstalledProof:
    """Prove what follows from the entries for classes that switches hold."""
    from detour.control.expander.demand import hop_distances
    from detour.control.expander.proof import prove_installed
    from detour.control.verifier.dependencies import InstalledClasses, shortest_choices, wires_of
    from detour.fabric.traffic.expander import installed_classes

    network, priorities = routes.network, routes.policy.priorities
    whole, distance = network.without(()), hop_distances(network)
    wires, lossless = wires_of(whole.topology), (1 << max(1, priorities)) - 1
    checked = InstalledClasses(installed_classes(whole, priorities), wires, lossless)
    return prove_installed(checked, routes, shortest_choices(network.channels.neighbour, distance), distance)


def prove_running(options: argparse.Namespace) -> int:
    """The same of the fabric that is up, from what its switches hold now."""
    with shown_progress(options.json) as progress:
        progress("reading all tables back and following packets by them")
        proof = running().prove(options.k)
    present(proof, options, lambda page: show_running(page, proof))
    return 0 if proof.deadlock_free else 1


def show_running(page: Page, proof: ProvenFabric) -> None:
    """Show the proof of a running fabric."""
    classes = ", ".join(map(str, proof.lossless))
    page.print(f"{proof.topology}, {proof.entries} entries of {proof.switches} switches, lossless classes: {classes}")
    _show_classes(page, proof.installed, proof.plain_traffic, proof.failed, senders=proof.senders)
    if proof.cycle:
        page.print("a cycle: " + ", ".join(proof.cycle))


def _show(page: Page, proof: _Proven) -> None:
    columns = (right("priority", lambda row: row[0]), left("acyclic", lambda row: "yes" if row[1] else "NO"))
    page.table(Table(columns, list(enumerate(proof.acyclic, 1))))
    page.print(f"{proof.channels} channels, {proof.dependencies} dependencies, {proof.seconds} s")
    if proof.cycle:
        page.print("a cycle: " + " ".join(proof.cycle))
    if proof.tagger_priorities:
        page.print(f"Tagger needs {proof.tagger_priorities} priorities for these routes")
    _show_classes(page, proof.installed, proof.plain_traffic, proof.failed)


def _show_classes(
    page: Page, installed: ProvenClasses, plain: ProvenPlain, failed: ProvenAnywhere, *,
    senders: ProvenSenders | None = None,
) -> None:  # fmt: skip
    page.print(f"listed routes, as switches class them: {_verdict(installed.acyclic)}")
    if senders is not None:
        page.print(f"with the {senders.lists} uSID lists that senders use now: {_verdict(senders.acyclic)}")
    lossy = f"; {plain.lossy:.1%} of it leaves the lossless classes" if plain.lossy else ""
    page.print(f"with plain traffic over shortest paths: {_verdict(plain.acyclic)}{lossy}")
    page.print(f"whatever fails, however packets are led: {_verdict(failed.acyclic)}")
    if failed.links:
        unrouted = f"; no lossless path for {failed.unrouted} pairs" if failed.unrouted else ""
        page.print(f"down: {', '.join(failed.links)}{unrouted}")


def _verdict(acyclic: bool) -> str:
    return "cannot deadlock" if acyclic else "may deadlock"
