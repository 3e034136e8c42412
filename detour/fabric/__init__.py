# SPDX-License-Identifier: Apache-2.0
"""Fabrics: boots a topology on a backend, connects hosts to it, and offers operations on it while it runs."""

__all__ = [
    "backends", "daemon", "demo", "fast", "labs", "linux", "monitoring", "operations", "records", "tracing", "traffic",
    "warm", "workloads",
]  # fmt: skip
