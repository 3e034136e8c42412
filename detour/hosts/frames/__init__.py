# SPDX-License-Identifier: Apache-2.0
"""Frames on the wire: what is written, what is read, checksums."""

# pyright: reportUnsupportedDunderAll=false
__all__ = ["sample", "sizes", "wire"]
