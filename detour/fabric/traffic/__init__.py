# SPDX-License-Identifier: Apache-2.0
"""Messages between hosts: flows, exchanges, open-loop load, and links that fail meanwhile."""

__all__ = [
    "expander", "exposure", "flows", "job_times", "open_loop", "outage", "phased", "pinned", "placed_tasks",
    "streams", "tasks", "workload",
]  # fmt: skip
