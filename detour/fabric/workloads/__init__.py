# SPDX-License-Identifier: Apache-2.0
"""Workloads of a fabric in virtual time: messages and computations that wait for each other."""

__all__ = [
    "chakra", "collectives", "exports", "flow_files", "flow_table", "goal", "ideal", "jobs", "models",
    "nccl_operations", "sizes", "tasks", "training",
]  # fmt: skip
