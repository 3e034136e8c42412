# SPDX-License-Identifier: Apache-2.0
"""Addresses of hosts, SRv6 uSIDs (RFC 9800: block 32 bits, uSID 16 bits) and MACs. All of them plain integers.

Hosts have `fd00:GGGG:SSSS:HHHH::1` (group, switch in the group, host on the switch). A uSID list is a
destination address: block `fcbb:bb00::/32`, up to six uSIDs, the last one the host's.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from detour.base.errors import DetourError

HOST_PREFIX = 0xFD00
USID_BLOCK = 0xFCBBBB00
USID_BITS = 16
MAX_USIDS = 6
FIRST_HOST = 0x8000
FIRST_FUNCTION = 0xE000
MAX_SWITCHES = FIRST_HOST - 1  # 0 is not a uSID, so node ids count from 1
MAX_HOSTS = FIRST_FUNCTION - FIRST_HOST
LOCATOR_BITS = 48  # block and one uSID
GROUP_BITS, SWITCH_BITS, HOST_BITS = 32, 48, 64
GATEWAY_MAC = 0x02_00_00_FF_FF_FF  # what hosts send to; switches do not look at it
_HOST_MAC = 0x02_00_00_00_00_00


def host_address(group: int, switch: int, host: int) -> int:
    """`fd00:GGGG:SSSS:HHHH::1`."""
    return HOST_PREFIX << 112 | group << 96 | switch << 80 | host << 64 | 1


def group_prefix(group: int) -> int:
    """The /32 of a group's hosts."""
    return HOST_PREFIX << 112 | group << 96


def switch_prefix(group: int, switch: int) -> int:
    """The /48 of a switch's hosts."""
    return group_prefix(group) | switch << 80


def switch_node_id(switch: int) -> int:
    """uSID of a switch."""
    return switch + 1


def host_node_id(host: int) -> int:
    """uSID of a host."""
    return FIRST_HOST + host


def adjacency_function(port: int) -> int:
    """uSID of the link behind a port (uA), local to its switch."""
    return FIRST_FUNCTION + port


def locator(node: int) -> int:
    """`fcbb:bb00:<node>::`, the /48 of a node (uN) or of a local function (uA)."""
    return USID_BLOCK << 96 | node << 80


def adjacency_sid(node: int, port: int) -> int:
    """`fcbb:bb00:<node>:E00p::`, the /64 of a link of a node (uA with NEXT-CSID, RFC 9800 section 4.1.2)."""
    return locator(node) | adjacency_function(port) << 64


def usid_address(usids: Sequence[int]) -> int:
    """The destination address that carries a uSID list. Raises `DetourError`: there are none or too many, or one is not
    1 to 0xffff."""
    if not 1 <= len(usids) <= MAX_USIDS:
        raise DetourError(f"a uSID list holds 1 to {MAX_USIDS} uSIDs, not {len(usids)}: {usid_text(usids)}")
    value = USID_BLOCK << 96
    for i, usid in enumerate(usids):
        if not 1 <= usid <= 0xFFFF:
            raise DetourError(f"uSID {usid:#x} is not between 0x1 and 0xffff")
        value |= usid << (80 - USID_BITS * i)
    return value


def usid_text(usids: Sequence[int]) -> str:
    """`1:2:8000`."""
    return ":".join(f"{usid:x}" for usid in usids)


def host_mac(host: int) -> int:
    """`02:00:00:00:hh:hh`."""
    return _HOST_MAC | host


def mac_text(mac: int) -> str:
    """`02:00:00:00:00:07`."""
    return ":".join(f"{byte:02x}" for byte in mac.to_bytes(6, "big"))


def ipv6_text(ipv6: int) -> str:
    """The usual short form."""
    return str(ipaddress.IPv6Address(ipv6))


def prefix_text(ipv6: int, length: int) -> str:
    """`fd00:1::/32`."""
    return f"{ipv6_text(ipv6)}/{length}"
