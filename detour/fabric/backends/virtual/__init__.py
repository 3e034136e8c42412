# SPDX-License-Identifier: Apache-2.0
"""Fabrics of the engine in virtual time, in this process."""

__all__ = ["fabric", "load", "own_program", "scheme", "watch"]
