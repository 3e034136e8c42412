# SPDX-License-Identifier: Apache-2.0
"""Planners of entries: routes, detours, uSIDs, queues, conditional rules."""

__all__ = ["adaptive", "hashes", "queueing", "spraypoint"]
