# SPDX-License-Identifier: Apache-2.0
"""FORS: all-to-all exchanges on fat-trees with failed links."""

__all__ = ["exchange", "results", "rivals", "rivals_fast"]
