# SPDX-License-Identifier: Apache-2.0
"""`p4app.json`, the older of p4-utils' two formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.located_json import JsonArray, JsonFile, JsonObject
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.model import Lab
from detour.fabric.labs.p4utils import lab_of
from detour.fabric.labs.p4utils_network import STRATEGIES, P4UtilsNetwork, assign
from detour.fabric.labs.p4utils_tasks import read_tasks

_FILE_KEYS = ("p4_src", "cli", "pcap_dump", "enable_log", "exec_scripts", "topology", "compiler_module",
              "client_module", "mininet_module", "switch_node", "host_node", "tasks_file")  # fmt: skip
_TOPOLOGY_KEYS = ("assignment_strategy", "default", "links", "hosts", "switches", "auto_gw_arp", "auto_arp_tables")
_SWITCH_KEYS = ("cli_input", "p4_src", "program", "cpu_port", "priority_queues_num", "thrift_port", "grpc_port",
                "device_id", "switch_node", "log_enabled", "log_dir", "pcap_dump", "pcap_dir", "sw_bin")  # fmt: skip
_HOST_KEYS = ("defaultRoute", "host_node", "log_enabled", "log_dir", "ip", "mac")
_DEFAULT_KEYS = ("weight", "bw", "delay", "loss", "max_queue_size", "auto_arp_tables", "auto_gw_arp")
ADD_LINK_OPTIONS = (
    "weight", "port1", "port2", "intfName1", "intfName2", "addr1", "addr2", "params1", "params2", "sw_ip1", "sw_ip2",
    "bw", "delay", "loss", "max_queue_size",
)  # fmt: skip


def candidate(folder: LabFolder) -> Path | None:
    """The file, if a folder is of this format. Raises DetourError: there are several, and none is named."""
    return folder.lab_file("p4app.json", lambda path: {*path.glob("p4app*.json"), *path.glob("*App.json")})


def read(folder: LabFolder, path: Path) -> Lab:
    """The lab. Raises DetourError: what is wrong in which line."""
    file, network = JsonFile(path), P4UtilsNetwork()
    if {"program", "targets"} <= file.root.keys():
        raise DetourError(f"{path} is a manifest of p4lang/p4app, another tool with files of this name; not supported")
    file.only(file.root, _FILE_KEYS, "p4app.json")
    topology = file.require(file.root, "topology", JsonObject, "an object with switches, hosts and links")
    file.only(topology, _TOPOLOGY_KEYS, "topology")
    for name, host in file.objects(file.optional(topology, "hosts", JsonObject, "hosts by name") or JsonObject()):
        file.only(host, _HOST_KEYS, f"host {name}")
        route = {"defaultRoute": host["defaultRoute"]} if host.get("defaultRoute") else {}
        network.add_node(name, "host", route, f"{path}, line {host.line}")
    for name, switch in file.objects(file.require(topology, "switches", JsonObject, "switches by name")):
        _add_switch(file, network, name, switch)
    _add_links(file, network, topology)
    for script in file.optional(file.root, "exec_scripts", list, "a list of scripts") or []:
        network.scripts.append(file.require(script, "cmd", str, "a command"))
    if (tasks := file.optional(file.root, "tasks_file", str, "a file's name")) is not None:
        network.tasks += read_tasks(folder.require(tasks, str(path), "the file of tasks"))
    strategy = file.optional(topology, "assignment_strategy", str, f"one of {', '.join(STRATEGIES)}")
    if strategy is not None:
        with file.blaming(topology):
            assign(network, strategy)
    return lab_of(network, folder, "p4app", str(path))


def _add_switch(file: JsonFile, network: P4UtilsNetwork, name: str, entry: JsonObject) -> None:
    file.only(entry, _SWITCH_KEYS, f"switch {name}")
    options: dict[str, Any] = {}
    for key in ("cli_input", "p4_src", "program"):
        if (text := file.optional(entry, key, str, "a file's name")) is not None:
            options["p4_src" if key == "program" else key] = text
    if "p4_src" not in options and (text := file.optional(file.root, "p4_src", str, "a file's name")) is not None:
        options["p4_src"] = text
    for key in ("priority_queues_num", "thrift_port", "grpc_port", "device_id"):
        if (number := file.optional(entry, key, int, "a whole number")) is not None:
            options[key] = number
    node = entry.get("switch_node") or file.root.get("switch_node") or {}
    options["p4runtime"] = node.get("object_name") == "P4RuntimeSwitch"
    network.add_node(name, "switch", options, f"{file.path}, line {entry.line}")
    if file.optional(entry, "cpu_port", bool, "true or false"):
        network.enable_cpu_port(name)


def _add_links(file: JsonFile, network: P4UtilsNetwork, topology: JsonObject) -> None:
    default = file.optional(topology, "default", JsonObject, "an object in braces") or JsonObject()
    file.only(default, _DEFAULT_KEYS, "default")
    network.arp_tables = bool(default.get("auto_arp_tables", True))
    network.gateway_arp = bool(default.get("auto_gw_arp", True))
    common = {key: value for key, value in default.items() if not key.startswith("auto_")}
    links = file.require(topology, "links", list, "a list of links")
    for entry in links:
        if not isinstance(entry, JsonArray) or not 2 <= len(entry) <= 3 or not isinstance((entry[2:] or [{}])[0], dict):
            raise file.error(entry if isinstance(entry, JsonArray) else links, "a link is [node, node, {options}]")
        own = entry[2] if len(entry) > 2 else JsonObject()
        if own:
            file.only(own, ADD_LINK_OPTIONS, "a link")
        with file.blaming(entry):
            options = link_options({**common, **own})
            network.add_link(entry[0], entry[1], options, f"{file.path}, line {entry.line}")


def link_options(given: dict[str, Any]) -> dict[str, Any]:
    """Options of a link by our names: addresses of switches' and hosts' ends are `ip1` and `ip2`."""
    options = {key: value for key, value in given.items() if not key.startswith(("params", "sw_ip"))}
    for side in ("1", "2"):
        address = given.get(f"sw_ip{side}") or (given.get(f"params{side}") or {}).get("ip")
        if address:
            options[f"ip{side}"] = address
    return options
