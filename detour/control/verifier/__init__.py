# SPDX-License-Identifier: Apache-2.0
"""Predictions of packets' paths from the entries that switches hold."""

__all__ = ["dependencies", "forwarding", "trace", "verifier"]
