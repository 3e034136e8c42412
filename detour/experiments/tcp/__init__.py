# SPDX-License-Identifier: Apache-2.0
"""TCP of the IP hosts compared with theory and with Linux."""

__all__ = ["linux", "ns3"]
