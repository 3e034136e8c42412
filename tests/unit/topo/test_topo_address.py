# SPDX-License-Identifier: Apache-2.0
"""Addresses, uSID lists, MACs."""

import pytest

from detour.base.errors import DetourError
from detour.topo import address, parse_topology


def test_host_addresses():
    host = parse_topology("d1").hosts[71]
    assert address.ipv6_text(host.address) == "fd00:8:3:1::1"
    assert address.parse_host_address(host.address) == (8, 3, 1)
    assert address.parse_host_address(address.parse_ipv6("fd00:8:3:1::2")) is None
    assert address.parse_host_address(address.parse_ipv6("fe80::1")) is None
    assert host.node_id == 0x8047
    assert address.mac_text(host.mac) == "02:00:00:00:00:47"


def test_all_hosts_are_found_by_their_address():
    topology = parse_topology("fat-tree:k=4")
    assert [topology.host_at(host.address) for host in topology.hosts] == list(topology.hosts)
    assert topology.host_at(1) is None


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
    assert address.parse_usids(value) == usids
    assert address.parse_usids(address.usid_address((7,))) == (7,)
    assert address.parse_usids(1) is None
    for wrong, why in (((), "1 to 6"), ((1,) * 7, "1 to 6"), ((1, 0, 2), "0x0 is not"), ((0x10000,), "0x10000 is not")):
        with pytest.raises(DetourError, match=why):
            address.usid_address(wrong)


def test_texts():
    assert address.parse_mac("02:00:00:00:00:47") == address.host_mac(0x47)
    for wrong in ("02:00", "02:00:00:00:00:zz", "", "02:00:00:00:00:00:00", "002:0:0:0:0:0"):
        with pytest.raises(DetourError, match="six bytes"):
            address.parse_mac(wrong)
    with pytest.raises(DetourError, match="not an IPv6 address"):
        address.parse_ipv6("fd00:::1")


def test_the_gateway_is_no_host():
    assert address.host_mac(address.MAX_HOSTS) < address.GATEWAY_MAC
