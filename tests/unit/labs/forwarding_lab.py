# SPDX-License-Identifier: Apache-2.0
"""A lab whose program is compiled and checked in: the corpus's `table_exact.p4`, which forwards by the first byte of a
frame, here of the destination's MAC address. Two switches, h1 - s1 - s2 - h2, hosts in one network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

PROGRAM = "table_exact"
COMPILED = Path(__file__).parents[2] / "programs" / "corpus" / "compiled"
MACS = {"h1": "02:00:00:00:00:01", "h2": "06:00:00:00:00:02"}
IPS = {"h1": "10.0.0.1", "h2": "10.0.0.2"}
PORTS = {"s1": {2: 1, 6: 2}, "s2": {6: 1, 2: 2}}
"""first byte -> port"""


def copy_program(folder: Path) -> None:
    (folder / "build").mkdir(parents=True)
    for ending in (".json", ".p4info.txtpb"):
        shutil.copy(COMPILED / f"{PROGRAM}{ending}", folder / "build" / f"{PROGRAM}{ending}")


def entries(switch: str) -> dict[str, Any]:
    def entry(byte: int, port: int) -> dict[str, Any]:
        fields = {"table": "TheIngress.t", "action_name": "TheIngress.to"}
        return fields | {"match": {"hdr.h.a": byte}, "action_params": {"port": port}}

    head = {"target": "bmv2", "p4info": f"build/{PROGRAM}.p4info.txtpb", "bmv2_json": f"build/{PROGRAM}.json"}
    return head | {"table_entries": [entry(byte, port) for byte, port in PORTS[switch].items()]}


def write_tutorial(folder: Path) -> Path:
    """The lab in the format of p4lang's tutorials: 100 Mb/s to hosts, 10 Mb/s and 100 us in the middle."""
    copy_program(folder)

    def host(name: str, other: str) -> dict[str, Any]:
        return {"ip": f"{IPS[name]}/24", "mac": MACS[name], "commands": [f"arp -s {IPS[other]} {MACS[other]}"]}

    topology = {
        "hosts": {"h1": host("h1", "h2"), "h2": host("h2", "h1")},
        "switches": {name: {"runtime_json": f"{name}-runtime.json"} for name in PORTS},
        "links": [["h1", "s1-p1", "10us", 100], ["s1-p2", "s2-p2", "100us", 10], ["h2", "s2-p1", "10us", 100]],
    }
    (folder / "topology.json").write_text(json.dumps(topology, indent=1))
    for name in PORTS:
        (folder / f"{name}-runtime.json").write_text(json.dumps(entries(name), indent=1))
    return folder


def write_app(folder: Path, thrift: tuple[int, int], p4runtime: tuple[int, int]) -> Path:
    """The same in p4-utils' format, with command files, served at these ports."""
    copy_program(folder)
    switches = {}
    for number, name in enumerate(PORTS):
        lines = [f"table_add t to {byte} => {port}" for byte, port in PORTS[name].items()]
        (folder / f"{name}-commands.txt").write_text("\n".join(["# by the first byte", *lines, ""]))
        switches[name] = {
            "cli_input": f"{name}-commands.txt",
            "thrift_port": thrift[number],
            "grpc_port": p4runtime[number],
            "switch_node": {"object_name": "P4RuntimeSwitch"},
        }
    links = [
        ["h1", "s1", {"port2": 1, "addr1": MACS["h1"], "params1": {"ip": f"{IPS['h1']}/24"}}],
        ["h2", "s2", {"port2": 1, "addr1": MACS["h2"], "params1": {"ip": f"{IPS['h2']}/24"}}],
        ["s1", "s2", {"port1": 2, "port2": 2, "bw": 10}],
    ]
    topology = {"hosts": {"h1": {}, "h2": {}}, "switches": switches, "links": links}
    (folder / "p4app.json").write_text(json.dumps({"topology": topology}, indent=1))
    return folder
