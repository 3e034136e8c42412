# SPDX-License-Identifier: Apache-2.0
"""Gives QPs their part of a congestion control that is plugged in (`hosts.cc.own`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.base.jit import COMPILED
from detour.hosts.cc import CC_OWN, own
from detour.hosts.cc.binding import Bound
from detour.hosts.cc.own import HOST_PARAMETERS, CongestionAlgorithm
from detour.hosts.records import QueuePair
from detour.hosts.state import Hosts


def number_of(chosen: Any) -> int:
    """What `q.cc` is: of an enumeration's member or of an algorithm."""
    if isinstance(chosen, CongestionAlgorithm):
        return CC_OWN if chosen.built_in is None else chosen.built_in
    return int(chosen)


def give(hs: Hosts, rows: np.ndarray, chosen: Any) -> None:
    """Rows of the table of QPs that are about to begin get their fields, all 0, if the algorithm is plugged in."""
    if not isinstance(chosen, CongestionAlgorithm) or chosen.built_in is not None:
        return
    bound = _bound(hs, chosen)
    fields = np.zeros(len(rows), chosen.row)
    bound.kept.append(fields)
    fields["table"] = bound.table.ctypes.data
    for name in ("rtt", "delay", "hops"):
        fields["packet"][name] = -1
    addresses = fields.ctypes.data + fields.itemsize * np.arange(len(rows), dtype=np.int64)
    hs.qp["cc_own"][rows] = addresses
    if not COMPILED:
        for address, row in zip(addresses.tolist(), fields, strict=True):
            own.PYTHON[address] = (bound.plain, bound.parameters[0], row)


def _bound(hs: Hosts, algorithm: CongestionAlgorithm) -> Bound:
    """One for all QPs of these hosts that have the same algorithm; it lives as long as they do."""
    known: list[Bound] = hs.__dict__.setdefault("_algorithms", [])
    for bound in known:
        if bound.algorithm is algorithm or bound.algorithm == algorithm:
            return bound
    parameters = {name: hs.cfg[0][name].item() for name in HOST_PARAMETERS}
    bound = Bound(algorithm, parameters, QueuePair.dtype)
    known.append(bound)
    return bound
