# SPDX-License-Identifier: Apache-2.0
"""p4sim's format: `topo.txt`, a `flowtable_N.txt` a switch, and the program's JSON.

`topo.txt`: a line of counts (switches, hosts, links), a line `INDEX s|h INDEX s|h RATE DELAY` for each link, then
optionally a line `INDEX WORD` for each switch. Nodes count from 0, switches first; ports from 0, link by link. As
p4sim's scripts have it hosts get 10.1.1.1 and up in their order, and interfaces 00:00:00:00:00:01 and up, two a link.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.model import Lab, LabEnd, LabHost, LabLink, LabSwitch
from detour.fabric.labs.quantities import ns3_rate_bps, tc_time_ps
from detour.fabric.labs.tutorials import FIRST_GRPC_PORT, FIRST_THRIFT_PORT

_BASES = ("10.1.1.0", "10.1.0.0")
"""networks (/24) that p4sim's scripts give to hosts; its fat tree has the second one"""


def candidate(folder: LabFolder) -> Path | None:
    """The topology, if a folder is of this format."""
    return folder.lab_file("topo.txt")


def read(folder: LabFolder, path: Path) -> Lab:
    """The lab. Raises DetourError: what is wrong in which line."""
    lines = [line.split() for line in read_text(path).splitlines()]
    switches, hosts, links = _counts(path, lines[0] if lines else [])
    cables, macs = _links(path, lines[1 : links + 1], switches, hosts)
    if len(cables) < links:
        raise DetourError(f"{path}, line 1: {links} links are declared, {len(cables)} follow")
    for number, words in enumerate(lines[links + 1 :], links + 2):  # they name what switches are for
        if words and (len(words) != 2 or not words[0].isdigit() or int(words[0]) >= switches):
            raise DetourError(f"{path}, line {number}: expected a switch (0 to {switches - 1}) and what it is for")
    base = _base(folder.path)
    return Lab(
        folder.path,
        "p4sim",
        tuple(_switch(folder, number, path) for number in range(switches)),
        tuple(_host(number, macs, base, path) for number in range(hosts)),
        tuple(cables),
    )


def _counts(path: Path, words: list[str]) -> tuple[int, int, int]:
    if len(words) < 3 or not all(word.isdigit() for word in words[:3]) or int(words[0]) < 1:
        raise DetourError(f"{path}, line 1: expected three numbers: switches (1 at least), hosts, links")
    return int(words[0]), int(words[1]), int(words[2])


def _links(path: Path, lines: list[list[str]], switches: int, hosts: int) -> tuple[list[LabLink], dict[str, str]]:
    """(links, MAC addresses of hosts)."""
    ports: Counter[int] = Counter()
    cables: list[LabLink] = []
    macs: dict[str, str] = {}
    for number, words in enumerate(lines, 2):
        where = f"{path}, line {number}"
        if len(words) != 6:
            raise DetourError(f"{where}: expected a link: INDEX s|h INDEX s|h RATE DELAY, like 2 h 0 s 1000Mbps 0.1ms")
        ends: list[LabEnd] = []
        for at, (index, kind) in enumerate((words[0:2], words[2:4])):
            node = _node(where, index, kind, switches, hosts)
            ends.append(LabEnd(node, ports[int(index)]))
            ports[int(index)] += 1
            macs[node] = ":".join(f"{byte:02x}" for byte in (2 * (number - 2) + at + 1).to_bytes(6, "big"))
        rate, delay = ns3_rate_bps(words[4], where), tc_time_ps(words[5], where)
        cables.append(LabLink(ends[0], ends[1], rate, delay, where=where))
    return cables, macs


def _node(where: str, index: str, kind: str, switches: int, hosts: int) -> str:
    number = int(index) if index.isdigit() else -1
    if kind == "s" and 0 <= number < switches:
        return f"s{number}"
    if kind == "h" and switches <= number < switches + hosts:
        return f"h{number - switches}"
    allowed = f"switches are 0 to {switches - 1} (s), hosts {switches} to {switches + hosts - 1} (h)"
    raise DetourError(f"{where}: there is no node {index} {kind}; {allowed}")


def _switch(folder: LabFolder, number: int, path: Path) -> LabSwitch:
    tables = (folder.find(name) for name in (f"flowtable_{number}.txt", f"flowtable_{number}"))
    commands = next((each for each in tables if each is not None), None)
    grpc, thrift, where = FIRST_GRPC_PORT + number, FIRST_THRIFT_PORT + number, f"{path}, line 1"
    return LabSwitch(f"s{number}", number, commands=commands, grpc_port=grpc, thrift_port=thrift, where=where)


def _base(folder: Path) -> str:
    """The network whose first host the flow tables name."""
    tables = "\n".join(path.read_text(errors="replace") for path in sorted(folder.glob("flowtable_*")))
    for base in _BASES:
        first = int(ipaddress.IPv4Address(base)) + 1
        if f"0x{first:08x}" in tables.lower() or str(ipaddress.IPv4Address(first)) in tables:
            return base
    return _BASES[0]


def _host(number: int, macs: dict[str, str], base: str, path: Path) -> LabHost:
    address = ipaddress.IPv4Interface(f"{ipaddress.IPv4Address(base) + number + 1}/24")
    return LabHost(f"h{number}", address, macs.get(f"h{number}", "00:00:00:00:00:00"), where=f"{path}, line 1")
