# SPDX-License-Identifier: Apache-2.0
"""The traffic manager beside theory, as a table."""

from __future__ import annotations

from detour.base.tables import Table, left, right
from detour.experiments.queues.experiment import GOAL, QueueFindings, QueueRow

_KINDS = {
    "md1": "M/D/1",
    "mm1": "M/M/1",
    "priority": "strict priority, waits",
    "drr": "deficit round robin",
    "strict": "strict priority, overload",
    "rates": "rates of queues",
}


def table(found: QueueFindings) -> Table[QueueRow]:
    """All rows."""
    columns = [
        left("of", lambda row: _KINDS[row.kind]),
        left("what", lambda row: row.what),
        right("load", lambda row: f"{row.load:g}" if row.load else None),
        right("queue", lambda row: row.queue, means="the highest number goes first"),
        right("measured", lambda row: f"{row.measured:,.4g}"),
        right("theory", lambda row: f"{row.theory:,.4g}"),
        left("unit", lambda row: row.unit),
        right("error", lambda row: f"{100 * row.error:.2f} %", means=f"goal: at most {100 * GOAL:g} %"),
    ]
    return Table(columns, found.rows, "The traffic manager and queueing theory")
