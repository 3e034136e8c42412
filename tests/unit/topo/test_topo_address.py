# SPDX-License-Identifier: Apache-2.0
"""Addresses, uSID lists, MACs."""

import pytest

from detour.base.errors import DetourError
from detour.topo import address, parse_topology


def test_host_addresses():
    host = parse_topology("d1").hosts[71]
    assert address.ipv6_text(host.address) == "fd00:8:3:1::1"
    assert host.node_id == 0x8047
    assert address.mac_text(host.mac) == "02:00:00:00:00:47"


def test_prefixes_cover_what_they_should():
    host = parse_topology("d1").hosts[30]
    for prefix, bits in (
        (address.group_prefix(host.group), address.GROUP_BITS),
        (address.switch_prefix(host.group, host.switch_position), address.SWITCH_BITS),
    ):
        assert prefix >> (128 - bits) == host.address >> (128 - bits)
    assert address.prefix_text(address.group_prefix(3), 32) == "fd00:3::/32"


def test_sids():
    assert address.ipv6_text(address.locator(address.switch_node_id(4))) == "fcbb:bb00:5::"
    assert address.ipv6_text(address.locator(address.adjacency_function(3))) == "fcbb:bb00:e003::"
    assert address.ipv6_text(address.adjacency_sid(5, 3)) == "fcbb:bb00:5:e003::"


def test_usid_lists():
    usids = (1, 2, 3, 4, 5, 0x8001)
    value = address.usid_address(usids)
    assert address.ipv6_text(value) == "fcbb:bb00:1:2:3:4:5:8001"
    assert address.ipv6_text(address.usid_address((7,))) == "fcbb:bb00:7::"
    for wrong, why in (((), "1 to 6"), ((1,) * 7, "1 to 6"), ((1, 0, 2), "0x0 is not"), ((0x10000,), "0x10000 is not")):
        with pytest.raises(DetourError, match=why):
            address.usid_address(wrong)


def test_the_gateway_is_no_host():
    assert address.host_mac(address.MAX_HOSTS) < address.GATEWAY_MAC
