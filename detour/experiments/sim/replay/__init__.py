# SPDX-License-Identifier: Apache-2.0
"""A run in virtual time once more, up to one of its packets, which is traced with the tables, registers and queues of
that moment (`detour trace --run`)."""

__all__ = ["replay", "run_files", "tracing"]
