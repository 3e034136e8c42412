# SPDX-License-Identifier: Apache-2.0
"""Edge-disjoint paths that sprayed packets can take, by what the switches hold (spraypoint.p4)."""

from __future__ import annotations

import numpy as np

from detour.control.verifier.fabric_state import FabricState
from detour.topo.measures import DisjointPaths, disjoint_paths

_PAIRS = 100


def sprayed_paths(state: FabricState, seed: int = 1) -> DisjointPaths | None:
    """Between a sample of the pairs of switches with hosts; None where nothing is sprayed. Parallel links count as one.
    With d neighbours and h members of a choice the paper expects d(1 - e^-h) (section 7)."""
    column_of = {each.switch: column for column, each in enumerate(state.classes) if each.alive}
    sprays = {switch: tables.spray for switch, tables in enumerate(state.tables) if tables.spray is not None}
    pairs = [(source, target) for source in sprays for target in column_of if source != target]
    if not pairs:
        return None
    nowhere = len(state.tables)  # where `following` is filled up
    origin = nowhere + 1  # the source's hosts: packets from other switches leave the source by its routes
    following, _, _ = state.book.arrays(nowhere)
    counts: list[int] = []
    for index in np.random.default_rng(seed).permutation(len(pairs))[:_PAIRS].tolist():
        source, target = pairs[index]
        links = np.zeros((origin + 1, origin + 1), np.int32)
        links[np.arange(nowhere)[:, None], following[state.choices[:, column_of[target]]]] = 1
        links[:, nowhere] = 0
        links[origin, list(state.entry_choice(source, sprays[source])[1])] = 1
        counts.append(disjoint_paths(links, origin, target))
    return DisjointPaths(min(counts), float(np.median(counts)), len(counts))
