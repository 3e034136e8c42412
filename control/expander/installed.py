# SPDX-License-Identifier: Apache-2.0
"""Whether an expander can deadlock by what its switches hold: packets on listed routes, on the lists that senders use,
plain ones, and any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int32Array
from detour.control.entries import Entity
from detour.control.expander.demand import hop_distances
from detour.control.expander.routes import ExpanderRoutes, PathPolicy, compute
from detour.control.verifier.dependencies import InstalledClasses, Waits, plain_choices, shortest_choices, wires_of
from detour.topo.address import MAX_USIDS
from detour.topo.expander.network import Expander
from detour.topo.failures import Failures, dead_switches

LIST_HOPS = MAX_USIDS - 1  # links of a path that a uSID list can name, switch by switch


class InstalledProof(NamedTuple):
    """Waits of what is followed, each with those before it. `lossy`: share of plain packets that leaves the lossless
    classes; `unrouted`: pairs of switches that no listed route joins."""

    listed: Waits
    senders: Waits
    plain: Waits
    lossy: float
    anywhere: Waits
    unrouted: int

    @property
    def cycle(self) -> tuple[str, ...]:
        """The first circle of waits, () if there is none."""
        return next((w.cycle for w in (self.listed, self.senders, self.plain, self.anywhere) if w.cycle), ())


def prove_installed(
    checked: InstalledClasses,
    routes: ExpanderRoutes,
    choices: NDArray[np.bool_],
    distance: Int32Array,
    senders: Sequence[Sequence[int]] = (),
) -> InstalledProof:
    """Follows all of them, one kind after the other.

    Args:
        checked: the classes of packets, which nothing has been followed by yet.
        routes: those that are listed.
        choices: (switches, width, switches) columns that plain packets choose among, by target.
        distance: (switches, switches) links of shortest paths; every choice leads nearer, or does not count as lossy.
        senders: paths, switch by switch, that are in use."""
    source = np.ascontiguousarray(routes.pairs[:, 0].astype(np.int64))
    listed = checked.follow_listed(source, routes.first, routes.length, routes.columns)
    used = checked.follow_paths(senders)
    plain = checked.follow_choices(choices)
    nearer = choices & shortest_choices(routes.network.channels.neighbour, distance)
    lossy = round(checked.share_lossy(nearer, distance), 4)
    unrouted = int((np.diff(routes.first) == 0).sum())
    return InstalledProof(listed, used, plain, lossy, checked.follow_anywhere(), unrouted)


def prove_running(
    state: Mapping[int, Iterable[Entity]],
    network: Expander,
    failures: Failures,
    policy: PathPolicy,
    lossless: int,
    senders: Sequence[Sequence[int]] = (),
) -> InstalledProof:
    """The same of a fabric, from all that its switches hold: entities by device id, read back.

    Switches that are down hold nothing and forward nothing; links that are down count, for they may come back. Raises
    `DetourError`: the policy makes no sense for this network."""
    topology, live = network.topology, network.under(failures)
    wires = wires_of(topology, dead_switches(failures))
    checked = InstalledClasses(state, wires, lossless)
    choices = plain_choices(state, topology, wires)
    routes = compute(live, policy, partial=True)
    return prove_installed(checked, routes, choices, hop_distances(live, partial=True), senders)
