# SPDX-License-Identifier: Apache-2.0
"""Numbers that the P4 programs, control plane, hosts and engine must agree on (`detour/p4src/include/headers.p4`)."""

from __future__ import annotations

from typing import Final

DROP_PORT: Final = 511
CPU_PORT: Final = 510
RECIRCULATION_PORT: Final = 509
HIGHEST_PORT: Final = 511
"""of v1model's nine bits"""

HOP_LIMIT: Final = 64
"""of what hosts and controller send"""
MAX_FLOW_LABEL: Final = 0x1FFF
"""the sender's part of the flow label; the other bits belong to switches"""

TRIMMED_DSCP: Final = 50
"""of packets that a switch has cut to their headers (trim.p4)"""

PAYLOAD: Final = 1000
PACKET_BYTES: Final = 1102
"""LERP's data packet with `PAYLOAD`: Ethernet 14, IPv6 40, hop-by-hop 8, UDP 8, BTH 12, RETH 16, ICRC 4. The longest
frame there is, and so the MTU of PFC's headroom."""
