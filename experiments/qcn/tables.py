# SPDX-License-Identifier: Apache-2.0
"""The QCN-Switch paper's curves as tables: throughput and latency, landmarks, what the paper says."""

from __future__ import annotations

from typing import Any

from detour.base.tables import Column, Table, fixed, left, right, yes_no
from detour.experiments.qcn.experiment import QcnFindings, QcnLandmarks, QcnLoad, QcnStatement


def tables(found: QcnFindings) -> list[Table[Any]]:
    """All, in the order in which they are read."""
    rows = sorted(found.curves, key=lambda one: (one.pattern, one.routing, one.load))
    return [
        Table(_LOADS, rows, "accepted throughput and latency"),
        Table(_LANDMARKS, found.landmarks, "saturation throughput and other landmarks"),
        Table(_WORDS, found.paper, notes=_left_out(found)),
    ]


_LOADS: tuple[Column[QcnLoad], ...] = (
    left("pattern", lambda one: one.pattern),
    left("routing", lambda one: one.routing),
    right("load", lambda one: fixed(one.load, 2)),
    right("accepted", lambda one: fixed(one.accepted, 3)),
    right("latency, us", lambda one: fixed(one.latency_ns / 1e3, 2)),
    right("in the network", lambda one: fixed(one.network_ns / 1e3, 2), wide=True, means="us of the latency"),
    right("switches", lambda one: fixed(one.switches, 2), wide=True, means="on a packet's way, mean"),
    right("minimal", lambda one: fixed(one.minimal, 3), means="share of the packets on a shortest path"),
    right("messages", lambda one: one.messages, wide=True),
    left("steady", lambda one: yes_no(one.steady), means="what was accepted had no trend in the window"),
)


def _saturation(pattern: str) -> Column[QcnLandmarks]:
    def cell(one: QcnLandmarks) -> str | None:
        """Beyond the highest load that was measured there may be more."""
        text = fixed(one.saturation[pattern], 3)
        return text if one.saturated[pattern] or text is None else f"> {text}"

    return right(pattern, cell)


_LANDMARKS: tuple[Column[QcnLandmarks], ...] = (
    left("routing", lambda one: one.routing),
    *map(_saturation, ("UN", "ADV", "ADVc")),
    right(
        "UN drop", lambda one: fixed(one.un_drop, 3), means="at the highest load, share of the saturation throughput"
    ),
    right("ADV latency / VAL", lambda one: fixed(one.adv_latency, 2), means="the highest ratio at loads up to 0.3"),
    right("least / mean injection", lambda one: fixed(one.fairness, 3), means="of group 0's switches, ADV at load 0.4"),
)

_WORDS: tuple[Column[QcnStatement], ...] = (
    left("pattern", lambda one: one.pattern),
    left("routing", lambda one: one.routing),
    left("what the paper says", lambda one: one.says),
)


def _left_out(found: QcnFindings) -> list[str]:
    return [
        f"{pattern}: not measured at loads {', '.join(f'{load:g}' for load in loads)} (--full does)"
        for pattern, loads in found.loads_left_out.items()
    ]
