# SPDX-License-Identifier: Apache-2.0
"""What flows and ports of a running fabric do, in windows of time."""

__all__ = ["metrics", "windows"]
