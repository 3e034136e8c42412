# SPDX-License-Identifier: Apache-2.0
"""Switches that run SONiC: tables of CONFIG_DB for `config load` (SONiC's documents srv6_static_config_hld.md and
SONiC_static_route_hdl.md). Its bgpcfgd makes FRR's configuration of them, so what `frr` says of uA holds here."""

from __future__ import annotations

import json
import re
from typing import Any

from detour.control.routers.nodes import USID_PREFIX, Router, RouterPort

_LOCATOR = "MAIN"


def config_db(router: Router) -> str:
    """The tables as JSON; all values are texts, as CONFIG_DB has them."""
    lengths = {"block_len": "32", "node_len": "16", "func_len": "16", "arg_len": "0"}
    interfaces: dict[str, dict[str, str]] = {}
    for each in router.interfaces:
        interfaces |= {_port(each): {}, f"{_port(each)}|{each.address}/64": {}}
    sids: dict[str, dict[str, str]] = {}
    for sid in router.sids:
        entry = {"action": "uN", "decap_dscp_mode": "pipe"}
        if sid.interface is not None:
            entry |= {"action": "uA", "interface": _port(sid.interface), "adj": sid.interface.neighbour}
        if sid.interface is None or sid.bits > 16:
            sids[f"{_LOCATOR}|{sid.prefix}"] = entry
    routes: dict[str, dict[str, str]] = {f"default|{USID_PREFIX}": {"blackhole": "true"}}
    for route in router.routes:
        neighbours, ports = (each.neighbour for each in route.via), map(_port, route.via)
        routes[f"default|{route.prefix}"] = {"nexthop": ",".join(neighbours), "ifname": ",".join(ports)}
    tables: dict[str, Any] = {
        "DEVICE_METADATA": {"localhost": {"hostname": router.name}},
        "INTERFACE": interfaces,
        "SRV6_MY_LOCATORS": {_LOCATOR: {"prefix": router.locator, **lengths}},
        "SRV6_MY_SIDS": sids,
        "STATIC_ROUTE": routes,
    }
    return json.dumps(tables, indent=2) + "\n"


def _port(interface: RouterPort) -> str:
    """SONiC's name of a port of four lanes: containerlab has `eth1` for `Ethernet0`, `eth2` for `Ethernet4`.
    Other names of a file stay."""
    number = re.fullmatch(r"eth([1-9][0-9]*)", interface.name)
    return f"Ethernet{4 * int(number[1]) - 4}" if number else interface.name
