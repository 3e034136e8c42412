# SPDX-License-Identifier: Apache-2.0
"""Flows as a table: who sends how many bytes to whom, and when."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from detour.base.errors import DetourError

FLOW = np.dtype([("source", np.int32), ("target", np.int32), ("bytes", np.int64), ("start_ps", np.int64)])
"""one row a flow: hosts by index, bytes of payload, when it begins"""
MOST_FLOWS = 200_000
"""of one run: each has a connection of its own, with some 20 kB of state"""
MOST_FLOW_BYTES = 1 << 36

FlowTable = NDArray[np.void]
"""(flows,) of `FLOW`, in the order of their beginnings"""


def flow_table(rows: Iterable[tuple[int, int, int, int]]) -> FlowTable:
    """A table of (source, target, bytes, start_ps), sorted by beginning; flows of one moment stay in order."""
    return in_order(np.array([tuple(row) for row in rows], FLOW))


def in_order(table: FlowTable) -> FlowTable:
    """The same sorted by beginning."""
    return table[np.argsort(table["start_ps"], kind="stable")]


def check_flows(table: FlowTable, hosts: int, what: str) -> None:
    """Refuse what no fabric with so many hosts can carry. Raises DetourError if there is no flow, there are too many,
    or one breaks a rule; `what` names where they come from."""
    if not 1 <= len(table) <= MOST_FLOWS:
        raise DetourError(f"{what}: {len(table)} flows; expected 1 to {MOST_FLOWS}")
    rules = (
        (table["source"] == table["target"], lambda row: f"h{row['source']} would send to itself"),
        (
            (np.minimum(table["source"], table["target"]) < 0)
            | (np.maximum(table["source"], table["target"]) >= hosts),
            lambda row: f"hosts {row['source']} and {row['target']}: there are 0 to {hosts - 1}",
        ),
        (
            (table["bytes"] < 1) | (table["bytes"] > MOST_FLOW_BYTES),
            lambda row: f"{row['bytes']} bytes; expected 1 to 2**36",
        ),
        (table["start_ps"] < 0, lambda row: f"it begins at {row['start_ps']} ps, before time 0"),
    )
    for broken, says in rules:
        if broken.any():
            number = int(np.argmax(broken))
            raise DetourError(f"{what}: flow {number}: {says(table[number])}")
