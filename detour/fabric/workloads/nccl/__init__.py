# SPDX-License-Identifier: Apache-2.0
"""Collectives as NCCL carries them out: its algorithms, protocols and channels, and which of them it chooses."""

__all__ = ["machines", "operations", "rules"]
