# SPDX-License-Identifier: Apache-2.0
"""What Linux hosts' interfaces are to have, as `ip` is told it; nothing here needs root."""

from __future__ import annotations

import pytest

from detour.base.errors import DetourError
from detour.fabric.linux.hosts import request
from detour.fabric.linux.interface import HostInterface, Neighbour, Route, hosts_file, names_of_fabric, of_fabric
from detour.topo import parse_topology

D1 = parse_topology("d1")


def test_a_host_of_the_fabric() -> None:
    interface = of_fabric(D1.hosts[71], mtu=9000, queue=64)
    assert interface.lines() == [
        "link set dev eth0 address 02:00:00:00:00:47 mtu 9000 txqueuelen 64",
        "link set dev lo up",
        "link set dev eth0 up",
        "addr add fd00:8:3:1::1/128 dev eth0 nodad",
        "neigh replace fe80::1 lladdr 02:00:00:ff:ff:ff dev eth0 nud permanent",
        "route replace fd00::/16 via fe80::1 dev eth0 onlink",
        "route replace fcbb:bb00::/32 via fe80::1 dev eth0 onlink",
        "route replace fcbb:bb00:8047::/48 dev eth0 encap seg6local action End.DT6 table 255",
    ]
    assert interface.longest_frame == 9014


def test_a_host_of_a_lab() -> None:
    interface = HostInterface(
        mac="08:00:00:00:01:11",
        addresses=("10.0.1.1/24",),
        routes=(Route("default", "10.0.1.10"), Route("10.0.7.0/24")),
        neighbours=(Neighbour("10.0.1.10", "08:00:00:00:01:00"),),
    )
    assert interface.lines()[3:] == [
        "addr add 10.0.1.1/24 dev eth0",
        "neigh replace 10.0.1.10 lladdr 08:00:00:00:01:00 dev eth0 nud permanent",
        "route replace default via 10.0.1.10 dev eth0 onlink",
        "route replace 10.0.7.0/24 dev eth0",
    ]


def test_every_host_has_a_name() -> None:
    names = names_of_fabric(D1)
    text = hosts_file(names, "h3")
    assert len(names) == 72
    assert "fd00:8:3:1::1 h71" in text.splitlines()
    assert "::1 localhost" in text
    assert "127.0.1.1" not in text
    assert "127.0.1.1 server" in hosts_file(names, "server").splitlines()


def test_which_hosts() -> None:
    requested = request(D1, "h0, h71", "h3=4711", mtu=1400, queue=10)
    assert list(requested.interfaces) == ["h0", "h71", "h3"]
    assert {(each.mtu, each.queue) for each in requested.interfaces.values()} == {(1400, 10)}
    assert requested.processes == {"h3": 4711}
    assert requested.longest_frame == 1418
    assert not request(D1, None).interfaces


@pytest.mark.parametrize(
    ("hosts", "netns", "mtu", "says"),
    [
        ("h0,h72", None, None, "--linux h72: there is no such host; the fabric has h0 to h71"),
        ("h0,h0", None, None, "--linux h0: that host appears twice"),
        ("h0", "h0=12", None, "--linux h0: that host appears twice"),
        (None, "h1=12,h1=13", None, "--netns h1: that host appears twice"),
        (None, "h3", None, "--netns h3: expected a host and the number of a process, like h3=4711"),
        (None, "h3=init", None, "--netns h3=init: expected"),
        (None, None, 1400, "--mtu needs Linux hosts"),
        ("h0", None, 1279, "an MTU of 1279 bytes: IPv6 needs at least 1280"),
    ],
)
def test_what_is_refused(hosts: str | None, netns: str | None, mtu: int | None, says: str) -> None:
    with pytest.raises(DetourError, match=says):
        request(D1, hosts, netns, mtu)


def test_an_address_that_is_none() -> None:
    with pytest.raises(DetourError, match=r"'10\.0\.1' is neither an IPv4 nor an IPv6 address"):
        HostInterface("02:00:00:00:00:01", ("10.0.1",)).lines()
