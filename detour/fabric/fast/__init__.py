# SPDX-License-Identifier: Apache-2.0
"""Fast-forward: steady phases of flows in virtual time are skipped (docs/fast-forward.md)."""

# pyright: reportUnsupportedDunderAll=false
__all__ = ["execution", "skipping"]
