# SPDX-License-Identifier: Apache-2.0
"""A network of p4-utils as a lab, and as the `topology.json` that p4-utils' controllers read."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import replace
from typing import Any

from detour.base.errors import DetourError
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.model import Lab, LabEnd, LabHost, LabLink, LabProgram, LabSwitch, mac_of
from detour.fabric.labs.p4utils_network import CPU_NODE, P4UtilsLink, P4UtilsNetwork, P4UtilsNode, fill_addresses
from detour.fabric.labs.p4utils_tasks import lab_task
from detour.fabric.labs.quantities import loss_of_percent, mbps_bps, tc_time_ps


def lab_of(network: P4UtilsNetwork, folder: LabFolder, format: str, where: str) -> Lab:
    """The lab. `where`: the file, for what has no line. Raises DetourError: what cannot be, and where it is said."""
    network.number_all()
    fill_addresses(network)
    hosts = [_host(network, node, where) for node in network.of_kind("host")]
    return Lab(
        folder.path,
        format,
        tuple(_switch(network, folder, node, where) for node in network.of_kind("switch")),
        tuple(_with_neighbours(network, host, hosts) for host in hosts),
        tuple(_link(link, where) for link in network.sorted_links() if CPU_NODE not in (link.node1, link.node2)),
        tuple(network.scripts),
        json.dumps(topology_document(network)),
        tuple(lab_task(task, folder.path) for task in network.tasks),
    )


def _switch(network: P4UtilsNetwork, folder: LabFolder, node: P4UtilsNode, where: str) -> LabSwitch:
    where, options = node.where or where, node.options
    source, commands = options.get("p4_src"), options.get("cli_input")
    return LabSwitch(
        node.name,
        options["device_id"],
        _program(folder, source, where) if source else None,
        commands=folder.require(commands, where, "the file of commands") if commands else None,
        grpc_port=options.get("grpc_port"),
        thrift_port=options["thrift_port"],
        cpu_port=_cpu_port(network, node.name),
        priorities=options.get("priority_queues_num") or 1,
        where=where,
    )


def _program(folder: LabFolder, source: str, where: str) -> LabProgram:
    """A P4 source, or what p4-utils' compiler left beside it."""
    if not isinstance(source, str) or not source.endswith(".p4"):
        raise DetourError(f"{where}: {source!r} is not a P4 source, like p4src/basic.p4")
    stem, file = source.removesuffix(".p4"), folder.find(source)
    json, p4info = (folder.made_of(file, folder.find(f"{stem}{ending}")) for ending in (".json", "_p4rt.txt"))
    program = LabProgram(file, json, p4info, where)
    if program.source is None and program.json is None:
        raise DetourError(f"{where}: the program {source!r} is not there ({folder.path / source})")
    return program


def _cpu_port(network: P4UtilsNetwork, name: str) -> int | None:
    for link in network.links_of(name):
        if link.other(name) == CPU_NODE:
            return int(link.options[f"port{link.side(name)}"])
    return None


def _host(network: P4UtilsNetwork, node: P4UtilsNode, where: str) -> LabHost:
    where = node.where or where
    links = list(network.links_of(node.name))
    if len(links) != 1:
        raise DetourError(f"{where}: host {node.name} has {len(links)} links; hosts have one")
    link, side = links[0], links[0].side(node.name)
    try:
        address = ipaddress.ip_interface(link.options[f"ip{side}"])
        route = node.options.get("defaultRoute")
        gateway = ipaddress.ip_address(route.split()[-1]) if route else None
    except ValueError as error:
        raise DetourError(f"{where}: host {node.name}: {error}") from None
    host = LabHost(node.name, address, mac_of(link.options[f"addr{side}"], where), gateway, where=where)
    other = link.side(link.other(node.name))
    fake = link.options.get(f"ip{other}", "").split("/")[0]
    if network.gateway_arp and gateway is not None and fake == str(gateway):
        host = replace(host, neighbours=((gateway, mac_of(link.options[f"addr{other}"], where)),))
    return host


def _with_neighbours(network: P4UtilsNetwork, host: LabHost, hosts: list[LabHost]) -> LabHost:
    """Hosts of one network know each other, unless the lab wants ARP."""
    if not network.arp_tables:
        return host
    near = [each for each in hosts if each.name != host.name and each.address.network == host.address.network]
    return replace(host, neighbours=(*host.neighbours, *((each.address.ip, each.mac) for each in near)))


def _link(link: P4UtilsLink, where: str) -> LabLink:
    where, options = link.where or where, link.options
    delay, bandwidth, loss = options.get("delay"), options.get("bw"), options.get("loss")
    for name, value in (("bw", bandwidth), ("loss", loss), ("max_queue_size", options.get("max_queue_size"))):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise DetourError(f"{where}: {name} of a link is {value!r}; expected a number")
    ends = LabEnd(link.node1, options["port1"]), LabEnd(link.node2, options["port2"])
    rate_bps = None if bandwidth is None else mbps_bps(bandwidth, where)
    delay_ps = None if delay is None else tc_time_ps(str(delay), where)
    share = 0.0 if loss is None else loss_of_percent(loss, where)
    return LabLink(*ends, rate_bps, delay_ps, options.get("max_queue_size"), share, where)


def topology_document(network: P4UtilsNetwork) -> dict[str, Any]:
    """The graph in networkx's format that p4-utils saves once a network is up; its controllers look up addresses,
    ports and switches in it."""
    nodes = []
    for node in (*network.of_kind("switch"), *network.of_kind("host")):
        attributes = {"id": node.name, ("isSwitch" if node.kind == "switch" else "isHost"): True}
        if node.kind == "switch":
            attributes |= {"isP4Switch": True, "isP4RuntimeSwitch": bool(node.options.get("p4runtime"))}
            numbers = ("device_id", "thrift_port", "grpc_port")
            attributes |= {key: node.options[key] for key in numbers if key in node.options}
            attributes |= {"sw_id": node.options["device_id"], "cpu_port": bool(node.options.get("cpu_port"))}
            if (cpu := _cpu_port(network, node.name)) is not None:
                stem = f"{node.name}-cpu-eth"
                attributes |= {"cpu_port_num": cpu, "cpu_intf": f"{stem}0", "cpu_ctl_intf": f"{stem}1"}
            attributes |= {key: node.options[key] for key in ("json_path", "p4rt_path") if key in node.options}
        else:
            link = next(network.links_of(node.name))
            attributes["ip"] = link.options[f"ip{link.side(node.name)}"]
            if node.options.get("defaultRoute"):
                attributes["defaultRoute"] = node.options["defaultRoute"]
        nodes.append(attributes)
    edges = []
    for link in network.sorted_links():
        if CPU_NODE in (link.node1, link.node2):
            continue
        edge = {key: link.options[key] for key in sorted(link.options) if not key.startswith("params")}
        for name, side in ((link.node1, "1"), (link.node2, "2")):
            edge.setdefault(f"intfName{side}", f"{name}-eth{edge[f'port{side}']}")
        edge.setdefault("weight", 1)
        edges.append(edge | {"node1": link.node1, "node2": link.node2, "source": link.node1, "target": link.node2})
    # networkx' key for the edges was `links` up to version 3.3.
    return {"directed": False, "multigraph": False, "graph": {}, "nodes": nodes, "links": edges, "edges": edges}
