# SPDX-License-Identifier: Apache-2.0
"""Deadlines of queue pairs (`scheduling`). What they are say `paths`, `lerp` and `blackhole`."""

from __future__ import annotations

from detour.hosts.rows import heap_row, host_row, qp_row
from detour.hosts.scheduling import make_deadlines

advance, top, first_key, postpone_top, remove = make_deadlines(qp_row, host_row, heap_row)
