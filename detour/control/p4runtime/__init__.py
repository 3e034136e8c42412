# SPDX-License-Identifier: Apache-2.0
"""The P4Runtime client: entries to switches and back, counters, packets for the controller."""

__all__ = ["client", "codec", "monitor", "pipeline", "punt", "reconcile", "shell", "watching"]
