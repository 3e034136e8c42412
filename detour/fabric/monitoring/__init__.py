# SPDX-License-Identifier: Apache-2.0
"""Monitoring of flows and ports of a running fabric, in windows of time."""

__all__ = ["exposition", "windows"]
