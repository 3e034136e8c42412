# SPDX-License-Identifier: Apache-2.0
"""TCP of the IP hosts beside theory and beside Linux."""

__all__ = ["linux", "ns3"]
