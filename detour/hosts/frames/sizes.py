# SPDX-License-Identifier: Apache-2.0
"""Lengths in bytes of headers and frames of RDMA hosts (`wire`)."""

from __future__ import annotations

from detour.hosts.config import MAX_PAYLOAD

ETHERNET, IPV6, TRANSIT, UDP, BTH, RETH, IMMDT, AETH, SACK, ICRC, PROBE = 14, 40, 8, 8, 12, 16, 4, 4, 20, 4, 20

DATA_OVERHEAD = ETHERNET + IPV6 + TRANSIT + UDP + BTH + RETH + ICRC
"""of a data packet besides its payload, if it carries the option and no immediate"""
MAX_OVERHEAD = ETHERNET + IPV6 + TRANSIT + UDP + BTH + RETH + IMMDT + 3 + ICRC
"""of any packet: what hosts write and read of a frame when they elide payload"""
MAX_FRAME = MAX_OVERHEAD + MAX_PAYLOAD
"""of the longest frame that a host sends"""
