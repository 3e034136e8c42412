# SPDX-License-Identifier: Apache-2.0
"""`detour sim`: any topology, scheme and workload in virtual time, and what becomes of every flow."""

__all__ = [
    "figures", "job_runs", "lab_figures", "placed", "plan", "replay", "report", "results", "run", "settings", "tables",
    "timeline", "watching",
]  # fmt: skip
