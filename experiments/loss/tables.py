# SPDX-License-Identifier: Apache-2.0
"""What losses, reordering and contention cost, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from detour.base.tables import Table, left, percent, right, yes_no
from detour.experiments.loss.experiment import K_BYTES, ROAD_TOPOLOGY, ContentionRow, LossFindings, RoadRow


def tables(found: LossFindings) -> list[Table[RoadRow] | Table[ContentionRow]]:
    """One connection on a bad road, and several on a full link."""
    return [_roads(found.rows), _contention(found.contention)]


def _roads(rows: Sequence[RoadRow]) -> Table[RoadRow]:
    columns = [
        left("transport", lambda row: row.transport),
        left("control", lambda row: row.control),
        right("loss", lambda row: percent(row.loss, 1)),
        right("late", lambda row: percent(row.reordering, 0), means="frames that others overtake"),
        right("of lossless", lambda row: f"{row.fraction_of_lossless:.3f}"),
        right("±", lambda row: None if row.spread is None else f"{row.spread:.3f}"),
        right("Gb/s", lambda row: f"{row.goodput_gbps:.1f}"),
        right("spurious", lambda row: percent(row.spurious_fraction, 0), means="of packets declared lost"),
        right("timeouts", lambda row: row.timeouts, wide=True),
        left("steady", lambda row: yes_no(row.steady), wide=True),
    ]
    return Table(columns, rows, f"One connection, 100 Gb/s ({ROAD_TOPOLOGY})")


def _contention(rows: Sequence[ContentionRow]) -> Table[ContentionRow]:
    columns = [
        left("transport", lambda row: row.transport),
        left("control", lambda row: row.control),
        right("senders", lambda row: row.senders),
        right("Gb/s", lambda row: f"{row.goodput_gbps:.1f}"),
        right("Jain", lambda row: f"{row.jain:.4f}"),
        right("queue", lambda row: f"{row.mean_queue_bytes / 1e3:.1f} kB", means="what data packets met, on average"),
        right(
            "of K",
            lambda row: percent(row.k_bytes and row.mean_queue_bytes / row.k_bytes, 0),
            means=f"K: {K_BYTES / 1e3:g} kB",
        ),
        right("drops", lambda row: f"{row.drops:.0f}"),
        left("steady", lambda row: yes_no(row.steady), wide=True),
    ]
    return Table(columns, rows, "Several connections on one link")
