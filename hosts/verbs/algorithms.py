# SPDX-License-Identifier: Apache-2.0
"""Gives queue pairs the fields of their congestion control."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.hosts.cc import CC_REGISTRY, built_in, own
from detour.hosts.cc.own import HOST_PARAMETERS, CongestionAlgorithm
from detour.hosts.plugins import Bound
from detour.hosts.records import QueuePair
from detour.hosts.state import Hosts

_PART = built_in.CONGESTION


def algorithm_of(chosen: Any) -> CongestionAlgorithm:
    """Of an enumeration's member, or the algorithm itself."""
    return chosen if isinstance(chosen, CongestionAlgorithm) else CC_REGISTRY.find(chosen.name.lower())


def initial_window(hs: Hosts, chosen: CongestionAlgorithm) -> float:
    """Packets that a connection starts with. If it is rate-based, only its rate limits it, and the room for what is in
    flight."""
    cfg = hs.cfg[0]
    if chosen.rate_based:
        return float(cfg["window"])
    return float(cfg["line_rate_cwnd"] if cfg["line_rate_start"] else cfg["initial_cwnd"])


def give(hs: Hosts, rows: Int64Array, chosen: CongestionAlgorithm) -> None:
    """Rows of the table of QPs that are about to begin get their fields, all 0."""
    bound = _bound(hs, chosen)
    hs.qp["rate_based"][rows] = chosen.rate_based
    if chosen.row.itemsize <= QueuePair.CC_BYTES:
        fields = state_of(hs, chosen)
        at = rows
        first, step = hs.qp.ctypes.data + QueuePair.CC_AT, hs.qp.itemsize
    else:
        fields = np.zeros(len(rows), chosen.row)
        bound.kept.append(fields)
        at = np.arange(len(rows))
        first, step = fields.ctypes.data, fields.itemsize
    fields[at] = 0
    fields["table"][at] = bound.table.ctypes.data
    for name in ("rtt", "delay", "hops"):
        fields["packet"][name][at] = -1
    hs.qp["cc_own"][rows] = first + step * at


def state_of(hs: Hosts, chosen: CongestionAlgorithm) -> NDArray[Any]:
    """What each QP would have of the algorithm: a view of room in its row."""
    n, step = hs.qp.shape[0], hs.qp.itemsize
    return np.ndarray(n, chosen.row, hs.qp.view(np.uint8).data, QueuePair.CC_AT, (step,))


def _bound(hs: Hosts, algorithm: CongestionAlgorithm) -> Bound:
    """One for all QPs of these hosts that have the same algorithm; it lives as long as they do."""
    known: list[Bound] = hs.__dict__.setdefault("_algorithms", [])
    for bound in known:
        if bound.algorithm is algorithm or bound.algorithm == algorithm:
            return bound
    if algorithm.parameters is None:
        parameters = hs.cfg
    else:
        parameters = algorithm.parameter_record({name: hs.cfg[0][name].item() for name in HOST_PARAMETERS})
    bound = Bound(algorithm, parameters, own.entry_of, QueuePair.dtype)
    known.append(bound)
    return bound
