# SPDX-License-Identifier: Apache-2.0
"""The papers' tables and figures: one module an experiment, and what they share (sweeps, stores, patterns)."""

__all__ = [
    "bench", "columns", "flat", "fors", "hardware", "nonshortest", "placement", "reproduce", "results", "rivals", "sim",
    "sweep", "tcp",
]  # fmt: skip
