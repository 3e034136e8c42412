# SPDX-License-Identifier: Apache-2.0
"""Routers and hosts that are Linux: shell scripts for `ip` (iproute2 6.1 or newer, a kernel from 6.6 on for uA)."""

from __future__ import annotations

from collections.abc import Sequence

from detour.control.routers.nodes import HOST_BLOCK, USID_PREFIX, Router, SendingHost, Sid

LOCAL_TABLE = 255
DUMMY = "sr0"
"""the interface of routes to uNs, which must not end with a link"""
MAKE_DUMMY = (f"ip link show {DUMMY} >/dev/null 2>&1 || ip link add {DUMMY} type dummy", f"ip link set {DUMMY} up")
_FLAVOUR = "flavors next-csid lblen 32 nflen"


def router_script(router: Router) -> str:
    """Return the script that makes a network namespace, a container or a machine this router."""
    settings = ["net.ipv6.conf.all.forwarding=1", *_seg6("all", *(each.name for each in router.interfaces))]
    lines = []
    for each in router.interfaces:
        lines += [f"link set {each.name} up", f"addr replace {each.address}/64 dev {each.name} nodad"]
    lines += [_local(sid) for sid in router.sids]
    for route in router.routes:
        hops = [f"via {each.neighbour} dev {each.name}" for each in route.via]
        lines.append(f"route replace {route.prefix} {_choice(hops)}")
    lines.append(f"route replace blackhole {USID_PREFIX}")  # unknown uSIDs end here
    return _script(settings, lines, MAKE_DUMMY)


def _local(sid: Sid) -> str:
    if sid.interface is None:
        return f"route replace {sid.prefix} encap seg6local action End {_FLAVOUR} {sid.bits} dev {DUMMY}"
    action = f"action End.X nh6 {sid.interface.neighbour} {_FLAVOUR} {sid.bits}"
    return f"route replace {sid.prefix} encap seg6local {action} dev {sid.interface.name}"


def host_script(host: SendingHost) -> str:
    """Return the script that makes a network namespace, a container or a machine this host: packets to a receiver go in
    an IPv6 packet for a uSID list (H.Encaps.Red) and packets that arrive so are decapsulated (End.DT6). Flows of one
    pair that have several lists are spread over them by the kernel's hash."""
    by, source = f"dev {host.interface}", f"src {host.address}"
    lines = [
        f"link set {host.interface} up",
        f"addr replace {host.link_address}/64 {by} nodad",
        f"addr replace {host.address}/128 {by} nodad",
        f"route replace {HOST_BLOCK} via {host.gateway} {by} {source}",
        f"route replace {USID_PREFIX} via {host.gateway} {by}",
        f"route replace {host.locator} encap seg6local action End.DT6 table {LOCAL_TABLE} {by}",
    ]
    for target, lists in host.lists.items():
        hops = [f"encap seg6 mode encap.red segs {usids} via {host.gateway} {by}" for usids in lists]
        weights = [f" weight {min(count, 256)}" for count in lists.values()]
        lines.append(f"route replace {target}/128 {source} {_choice(hops, weights)}")
    return _script(_seg6("all", host.interface), lines)


def _choice(hops: list[str], weights: list[str] | None = None) -> str:
    if len(hops) == 1:
        return hops[0]
    return " ".join(f"nexthop {hop}{weight}" for hop, weight in zip(hops, weights or [""] * len(hops), strict=True))


def _seg6(*interfaces: str) -> list[str]:
    return ["net.ipv6.fib_multipath_hash_policy=1", *(f"net.ipv6.conf.{each}.seg6_enabled=1" for each in interfaces)]


def _script(settings: list[str], lines: list[str], first: Sequence[str] = ()) -> str:
    every = [
        "#!/bin/sh",
        "set -e",
        *first,
        f"sysctl -q -w {' '.join(settings)}",
        "ip -6 -batch - <<'END'",
        *lines,
        "END",
    ]
    return "\n".join(every) + "\n"
