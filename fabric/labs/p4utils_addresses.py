# SPDX-License-Identifier: Apache-2.0
"""p4-utils' strategies of addresses: `l2` (all hosts in 10.0.0.0/16), `mixed` (a /24 a switch), `l3` (a /24 a host).

Hosts called `hN` get the number N, MAC addresses follow from IP addresses: 00:00 and the four bytes for a host, 00:01
and its bytes for the switch's port at the other end.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from detour.base.errors import DetourError
from detour.fabric.labs.p4utils_network import CPU_NODE, P4UtilsLink, P4UtilsNetwork, first_free

STRATEGIES = ("l2", "mixed", "l3")
_MOST_OF_BYTE = 254


def assign(network: P4UtilsNetwork, strategy: str) -> None:
    """Gives hosts, and ports of switches, the addresses of a strategy.

    Raises:
        DetourError: there is no such strategy, or it does not fit the network.
    """
    if strategy not in STRATEGIES:
        raise DetourError(f"there is no assignment strategy {strategy!r}; allowed: {', '.join(STRATEGIES)}")
    pairs = [frozenset((link.node1, link.node2)) for link in network.links]
    twice = next((pair for pair in pairs if pairs.count(pair) > 1), None)
    if twice is not None:
        raise DetourError(f"strategy {strategy} allows one link between two nodes; {' and '.join(sorted(twice))} have")
    {"l2": _l2, "mixed": _mixed, "l3": _l3}[strategy](network)


def fill_addresses(network: P4UtilsNetwork) -> None:
    """Addresses for hosts that no strategy gave any, and MAC addresses for all that have none. p4-utils draws the MAC
    addresses; here they are the same in every run."""
    draw = random.Random(1)
    taken = {link.options.get(f"ip{link.side(host)}", "").split("/")[0] for host, link in _host_links(network)}
    for link in network.sorted_links():
        for name, side in ((link.node1, "1"), (link.node2, "2")):
            if not link.options.get(f"addr{side}"):
                number = draw.getrandbits(48) & 0xFEFFFFFFFFFF | 0x020000000000
                link.options[f"addr{side}"] = ":".join(f"{byte:02x}" for byte in number.to_bytes(6, "big"))
            if network.nodes[name].kind == "host" and not link.options.get(f"ip{side}"):
                address = next(ip for ip in (f"10.0.{n >> 8}.{n & 255}" for n in range(1, 1 << 16)) if ip not in taken)
                taken.add(address)
                link.options[f"ip{side}"] = f"{address}/8"


def _host_links(network: P4UtilsNetwork) -> Iterator[tuple[str, P4UtilsLink]]:
    """(host, link to its switch); DetourError for a host that has none or several."""
    for host in network.of_kind("host"):
        links = list(network.links_of(host.name))
        if len(links) != 1 or network.nodes[links[0].other(host.name)].kind != "switch":
            raise DetourError(f"host {host.name} has {len(links)} links; it must have one, to a switch")
        yield host.name, links[0]


def _number_of(host: str) -> int | None:
    """N of `hN`."""
    found = re.fullmatch(r"h(\d+)", host)
    return int(found[1]) if found else None


def _give(network: P4UtilsNetwork, host: str, link: P4UtilsLink, ip: str, prefix: int, gateway: str | None) -> None:
    here, there = link.side(host), link.side(link.other(host))
    numbers = [int(part) for part in ip.split(".")]
    rest = ":".join(f"{number:02x}" for number in numbers)
    link.options |= {f"addr{here}": f"00:00:{rest}", f"addr{there}": f"00:01:{rest}", f"ip{here}": f"{ip}/{prefix}"}
    if gateway is not None:
        link.options[f"ip{there}"] = f"{gateway}/{prefix}"
        network.nodes[host].options["defaultRoute"] = f"via {gateway}"


def _l2(network: P4UtilsNetwork) -> None:
    links = list(_host_links(network))
    taken = {number for host, _ in links if (number := _number_of(host)) is not None}
    for host, link in links:
        number = _number_of(host)
        if number is None:
            number = first_free(taken, 1)
            taken.add(number)
        if not 0 < number < 1 << 16:
            raise DetourError(f"strategy l2 numbers hosts up to 65535; {host} is beyond")
        _give(network, host, link, f"10.0.{number >> 8}.{number & 255}", 16, None)


def _per_switch(network: P4UtilsNetwork) -> Iterator[tuple[str, P4UtilsLink, int, int]]:
    """(host, link, the switch's device id, the host's number at that switch)."""
    for switch in network.of_kind("switch"):
        network.number(switch)
    links = list(_host_links(network))
    taken: dict[str, set[int]] = {switch.name: set() for switch in network.of_kind("switch")}
    for host, link in links:
        if (number := _number_of(host)) is not None:
            taken[link.other(host)].add(number)
    for host, link in links:
        switch, number = link.other(host), _number_of(host)
        if number is None:
            number = first_free(taken[switch], 1)
            taken[switch].add(number)
        if not 0 < number < _MOST_OF_BYTE:
            raise DetourError(f"strategies mixed and l3 number hosts from 1 to 253; {host} is beyond")
        yield host, link, network.number(network.nodes[switch]), number


def _mixed(network: P4UtilsNetwork) -> None:
    for host, link, switch, number in _per_switch(network):
        net = f"10.{switch >> 8}.{switch & 255}"
        _give(network, host, link, f"{net}.{number}", 24, f"{net}.254")
    _between_switches(network)


def _l3(network: P4UtilsNetwork) -> None:
    for host, link, switch, number in _per_switch(network):
        if switch >= _MOST_OF_BYTE:
            raise DetourError(f"strategy l3 numbers switches from 1 to 253; one is {switch}")
        _give(network, host, link, f"10.{switch}.{number}.2", 24, f"10.{switch}.{number}.1")
    _between_switches(network)


def _between_switches(network: P4UtilsNetwork) -> None:
    """Addresses for ports between switches, which only controllers see."""
    for link in network.links:
        ends = [network.nodes[link.node1], network.nodes[link.node2]]
        if all(end.kind == "switch" and end.name != CPU_NODE for end in ends):
            first, second = (network.number(end) for end in ends)
            link.options |= {"ip1": f"20.{first}.{second}.1/24", "ip2": f"20.{first}.{second}.2/24"}
