# SPDX-License-Identifier: Apache-2.0
"""The format of p4lang's tutorials: `topology.json` beside P4 and `sN-runtime.json`.

As their `run_exercise.py` does it: switches in natural order get device ids from 0, P4Runtime ports from 50051 and
Thrift ports from 9090; a link is `[node, node, latency, bandwidth in Mb/s]`, ends of switches are `s1-p2`.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Any

from detour.base.located_json import JsonFile, JsonObject, read_json_object
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.host_commands import configured
from detour.fabric.labs.model import Lab, LabEnd, LabHost, LabLink, LabProgram, LabSwitch, mac_of, natural
from detour.fabric.labs.quantities import mbps_bps, tc_time_ps

FORMAT = "tutorials"
FIRST_GRPC_PORT, FIRST_THRIFT_PORT = 50051, 9090
_SWITCH_KEYS = ("runtime_json", "cli_input", "program", "cpu_port", "priority_queues")
_HOST_KEYS = ("ip", "mac", "commands")
_SWITCH_END = re.compile(r"(?P<switch>[^-]+)-[a-zA-Z](?P<port>\d+)")


def topology_file(folder: LabFolder) -> Path | None:
    """The topology that a folder of this format has; None if it is of another one. Raises DetourError: there are
    several, and none is named."""
    if folder.file is not None:
        return folder.file if _is_topology(folder.file) else None
    direct = folder.path / "topology.json"
    if direct.is_file():
        return direct if _is_topology(direct) else None
    named = _set_in_makefile(folder, "TOPO", r"\S+")  # like pod-topo/topology.json
    if named is not None and (folder.path / named).is_file():
        return folder.path / named
    return folder.only(filter(_is_topology, folder.path.glob("*/topology.json")), "topologies")


def _is_topology(path: Path) -> bool:
    """Return whether a file is not the one that p4-utils writes under the same name."""
    return path.suffix == ".json" and {"hosts", "switches", "links"} <= read_json_object(path).keys()


def _set_in_makefile(folder: LabFolder, variable: str, value: str) -> str | None:
    """Return the value that the lab's Makefile sets for a variable, if it matches `value`."""
    makefile = folder.path / "Makefile"
    text = makefile.read_text(errors="replace") if makefile.is_file() else ""
    match = re.search(rf"^{variable}\s*[:?]?=\s*({value})", text, re.MULTILINE)
    return match[1] if match else None


def read(folder: LabFolder, topology: Path) -> Lab:
    """The lab. Raises DetourError: what is wrong in which line."""
    file = JsonFile(topology)
    file.only(file.root, ("hosts", "switches", "links"), "a topology")
    listed = [*file.objects(file.require(file.root, "switches", JsonObject, 'switches by name, {"s1": {}}'))]
    by_name = file.require(file.root, "hosts", JsonObject, 'hosts by name, {"h1": {"ip": ..., "mac": ...}}')
    hosts = [_host(file, name, entry) for name, entry in file.objects(by_name)]
    listed.sort(key=lambda item: natural(item[0]))
    switches = [_switch(file, folder, number, name, entry) for number, (name, entry) in enumerate(listed)]
    names = {each.name for each in hosts}
    links = [_link(file, names, entry) for entry in file.require(file.root, "links", list, "a list of links")]
    return Lab(folder.path, FORMAT, tuple(switches), tuple(hosts), tuple(links))


def _switch(file: JsonFile, folder: LabFolder, number: int, name: str, entry: JsonObject) -> LabSwitch:
    file.only(entry, _SWITCH_KEYS, f"switch {name}")
    where = f"{file.path}, line {entry.line}"
    text = {key: file.optional(entry, key, str, "a file's name") for key in _SWITCH_KEYS[:3]}
    runtime = folder.require(text["runtime_json"], where, "the file of entries") if text["runtime_json"] else None
    commands = folder.require(text["cli_input"], where, "the file of commands") if text["cli_input"] else None
    program = None
    if runtime is not None:
        named = JsonFile(runtime)
        json = named.require(named.root, "bmv2_json", str, "the program's BMv2 JSON, like build/basic.json")
        p4info = named.require(named.root, "p4info", str, "the program's P4Info, like build/basic.p4.p4info.txtpb")
        program = named_by_build(folder, json, p4info, str(runtime))
    elif text["program"]:
        program = named_by_build(folder, text["program"], None, where)
    elif stem := _set_in_makefile(folder, "DEFAULT_PROG", r"\S+(?=\.p4)"):  # of switches that name none
        program = named_by_build(folder, f"build/{stem}.json", None, where)
    ports = FIRST_GRPC_PORT + number, FIRST_THRIFT_PORT + number, _number(file, entry, "cpu_port")
    queues = _number(file, entry, "priority_queues") or 1
    return LabSwitch(name, number, program, runtime, commands, *ports, queues, where)


def _number(file: JsonFile, entry: JsonObject, key: str) -> int | None:
    """A number, which labs write as text as well."""
    value = file.optional(entry, key, (int, str), "a whole number")
    if isinstance(value, str):
        if not value.isdigit():
            raise file.error(entry, f"{key} is {value!r}; expected a whole number")
        value = int(value)
    return value


def named_by_build(folder: LabFolder, json: str, p4info: str | None, where: str) -> LabProgram:
    """The program behind `build/NAME.json`: `NAME.p4`, or else what lies there."""
    stem = Path(json).stem
    source, info = folder.find(f"{stem}.p4"), folder.find(p4info) if p4info else None
    return LabProgram(source, folder.made_of(source, folder.find(json)), folder.made_of(source, info), where)


def _host(file: JsonFile, name: str, entry: JsonObject) -> LabHost:
    file.only(entry, _HOST_KEYS, f"host {name}")
    where = f"{file.path}, line {entry.line}"
    ip = file.require(entry, "ip", str, "an address with its prefix, like 10.0.1.1/24")
    try:
        address = ipaddress.ip_interface(ip)
    except ValueError:
        raise file.error(entry, f"ip of {name} is {ip!r}; expected an address, like 10.0.1.1/24") from None
    mac = mac_of(file.require(entry, "mac", str, "a MAC address"), where)
    commands = file.optional(entry, "commands", list, "a list of commands") or []
    for command in commands:
        file.typed(entry, "a command", command, str, "a text")
    return configured(LabHost(name, address, mac, commands=tuple(commands), where=where))


def _link(file: JsonFile, hosts: set[str], entry: Any) -> LabLink:
    if not isinstance(entry, list) or not 2 <= len(entry) <= 4:
        raise file.error(entry, "a link is [node, node], [node, node, latency] or [node, node, latency, Mb/s]")
    where = f"{file.path}, line {getattr(entry, 'line', 1)}"
    a, b = (_end(file, hosts, entry, text) for text in entry[:2])
    delay = rate = None
    if len(entry) > 2:
        latency = file.typed(entry, "latency", entry[2], (str, int, float), "milliseconds, or a text like 10ms")
        delay = tc_time_ps(latency if isinstance(latency, str) else f"{latency}ms", where)
    if len(entry) > 3 and entry[3] is not None:
        rate = mbps_bps(file.typed(entry, "bandwidth", entry[3], (int, float), "a number of Mb/s"), where)
    return LabLink(a, b, rate, delay, where=where)


def _end(file: JsonFile, hosts: set[str], entry: Any, text: Any) -> LabEnd:
    file.typed(entry, "a node", text, str, "a host like h1, or a switch and its port like s1-p2")
    if text in hosts:
        return LabEnd(text)
    match = _SWITCH_END.fullmatch(text)
    if match is None:
        raise file.error(entry, f"{text!r} is neither a host nor a switch with its port like s1-p2")
    return LabEnd(match["switch"], int(match["port"]))
