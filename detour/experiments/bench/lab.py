# SPDX-License-Identifier: Apache-2.0
"""`detour bench lab`: packets a second of somebody else's P4 in virtual time, beside p4sim and ns-3's bridge.

The cases are those of p4sim's section 5.1 (M. Ma, G. T. Nguyen, ICNS3 2025): two hosts, one switch that forwards IPv4,
datagrams of 1000 bytes at 1, 100, 1,000 and 10,000 Mb/s for 2.912 s; and its fat-tree, where each host of the first
half sends to one of the second. Here the switch runs `detour/p4src/ipv4.p4`. Besides, one minute of the ECN exercise of
p4lang's tutorials: a link of half a megabit a second between two switches that mark.

Seconds are processor time: of this project's process from the first packet to the last, of other programs' whole
process. Each case of ours runs in a process of its own, so that its memory can be told. Where p4sim is not built, the
figures that were published stand in its place, marked as not measured.

Hosts have addresses from 10.0.0.1 on and ask nobody for MACs. Payloads are not stored; lengths, times and checksums are
those of whole frames.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.base.times import MS, US
from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.engine.state import SwitchState
from detour.experiments.bench import p4sim
from detour.experiments.bench.processes import peak_resident
from detour.experiments.bench.report import BenchReport, Goal, Numbers, report_of_rows
from detour.experiments.columns import cell, row, shown
from detour.experiments.sweep import apart
from detour.fabric.backends.clock import PS
from detour.fabric.backends.virtual.fabric import program
from detour.hosts.ip.addressing import IpHostConfig
from detour.hosts.ip.arrival_process import Spacing
from detour.hosts.ip.hosts import IpStack
from detour.topo import Topology, parse_topology
from detour.topo.paths import next_hops
from detour.topo.topology import Link

_BMV2_TICK_PS = 1_000_000
_STORED_BYTES = 256
_QUEUE = 64
ONE_SWITCH = "leaf-spine:leaves=1,spines=1,hosts=2"
LAB_DELAY_PS = 10 * US
"""of every link, as in p4sim's example"""


@dataclass(frozen=True)
class LabFlow:
    """Datagrams of `payload` bytes from host `a` to host `b`, at a constant rate of payload."""

    a: int
    b: int
    rate_bps: float
    payload: int = 1_000
    tos: int = 0


class LabNetwork:
    """Switches and hosts of a topology, ready to send. A context manager."""

    def __init__(self, topology: Topology, rate_of: Callable[[Link], int]) -> None:
        """`rate_of`: bits a second of a link."""
        self.topology = topology
        self.network = Network(Virtual(), _BMV2_TICK_PS, frame_bytes=_STORED_BYTES)
        self.stack = IpStack([self._config(host) for host in range(len(topology.hosts))], elide=True)
        code = program("ipv4")
        for switch in topology.switches:
            state = SwitchState(code, 1 + switch.index, _BMV2_TICK_PS)
            self.network.add_switch(switch.device_id, switch.name)
            self.network.set_pipeline(switch.device_id, code, state)
            for host, port in self._routes(switch.index):
                state.tables["Ipv4Ingress.routes"].insert(
                    ((_address_number(host), 32),), "Ipv4Ingress.forward", (topology.hosts[host].mac, port)
                )
        for link in topology.links:
            ends = [
                (topology.switches[at].device_id, port) for at, port in (link.a, link.b)[: 2 - (link.kind == "host")]
            ]
            if link.kind == "host":
                self.network.attach_stack(ends[0], self.stack, link.b[0], rate_of(link), LAB_DELAY_PS, _QUEUE)
            else:
                self.network.connect(ends[0], ends[1], rate_of(link), LAB_DELAY_PS, _QUEUE)

    def _config(self, host: int) -> IpHostConfig:
        mac = self.topology.hosts[host].mac.to_bytes(6, "big").hex(":")
        gateway = "10.255.255.254"
        others = [other.index for other in self.topology.hosts if other.index != host]
        # MACs are the switch's business, so that any will do.
        neighbours = {_address(other): "02:00:00:ff:ff:01" for other in others}
        return IpHostConfig(f"h{host}", mac, f"{_address(host)}/8", gateway, neighbours=neighbours)

    def _routes(self, switch: int) -> Iterator[tuple[int, int]]:
        """(host, port) of a switch: one of the ports that are next on shortest paths, by the host's number."""
        for host in self.topology.hosts:
            ports = [host.port] if host.switch == switch else next_hops(self.topology, switch, host.switch)
            yield host.index, ports[host.index % len(ports)]

    def send(self, flow: LabFlow, packets: int, port: int = 9_093) -> None:
        """Let a host send so many datagrams from now on."""
        self.stack.host(flow.a).udp(
            _address(flow.b), spacing=Spacing(flow.rate_bps, flow.payload), port=port, packets=packets, tos=flow.tos
        )

    def __enter__(self) -> LabNetwork:
        return self

    def __exit__(self, *_: object) -> None:
        self.network.stop()


def _address_number(host: int) -> int:
    return (10 << 24) + host + 1


def _address(host: int) -> str:
    return ".".join(str(octet) for octet in _address_number(host).to_bytes(4, "big"))


SPEEDS_MBPS = (1.0, 100.0, 1_000.0, 10_000.0)
LAB_SECONDS = 2.912
"""of traffic: 3.64 million datagrams at 10 Gb/s"""
LAB_PAYLOAD = 1_000
LAB_FAT_TREE = "fat-tree:k=4"
_FAT_TREE_MBPS = 100.0
TIMES_P4SIM, TIMES_BRIDGE = 30.0, 12.0
MEMORY_BYTES = 1e9
ECN_WALL_S = 1.0
ECN_SECONDS = 60.0
_LINK_FACTOR = 4
"""links are so much faster than the traffic, as frames are longer than what they carry"""
_SLOWEST_LINK = 1_000_000_000
_CABLE_BPS = 100_000_000_000
"""of the others' cables, which CSMA has for both directions together"""
_ECN_BPS = 500_000
_ECN_LINKS = 1_000_000_000

ELSEWHERE = (
    (p4sim.P4SIM, "measured elsewhere", 23_000.0),
    (p4sim.P4SIM, "published", 2_080.0),
    (p4sim.BRIDGE, "measured elsewhere", 60_000.0),
    (p4sim.BRIDGE, "published", 6_200.0),
)
"""packets a second of the 10 Gb/s case: in optimised builds on another machine, and of p4sim's artifact"""


@row
class LabRow:
    """One run. `mbps`: payload that is offered in all; `packets`: that arrived; `seconds`: processor time."""

    system: str = shown("system")
    network: str = shown("network", default="one switch")
    mbps: float = shown("Mb/s", "g")
    packets: int = shown("packets", ",")
    seconds: float = shown("seconds", ",.2f")
    packets_per_s: float = shown("packets/s", ",.0f")
    measured: bool = True
    memory_bytes: int | None = None
    note: str = ""

    @classmethod
    def of(cls, system: str, mbps: float, packets: int, seconds: float, **more: Any) -> LabRow:
        """With its rate."""
        rate = packets / max(seconds, 1e-9)
        return cls(system=system, mbps=mbps, packets=packets, seconds=seconds, packets_per_s=rate, **more)

    @cell("memory")
    def _memory(self) -> str:
        return "" if self.memory_bytes is None else f"{self.memory_bytes / 1e6:.0f} MB"

    @cell("remark")
    def _remark(self) -> str:
        return self.note if self.measured else f"not measured here: {self.note}"


@dataclass(frozen=True)
class LabCase:
    """The work of a process of ours. `network`: a topology; `mbps`: of each flow."""

    network: str
    mbps: float
    seconds: float


# -- in a process of its own --------------------------------------------------------------------------------


def traffic(case: LabCase) -> LabRow:
    """Send and count. Raises `DetourError`: not all arrived (a defect: links are faster than what is sent)."""
    topology, rate = parse_topology(case.network), max(_SLOWEST_LINK, round(case.mbps * 1e6) * _LINK_FACTOR)
    hosts = len(parse_topology(case.network).hosts)
    flows = [LabFlow(host, hosts - 1 - host, case.mbps * 1e6, LAB_PAYLOAD) for host in range(hosts // 2)]
    packets = round(case.mbps * 1e6 * case.seconds / (8 * LAB_PAYLOAD))
    with LabNetwork(topology, lambda link: rate) as lab:
        ports = [lab.stack.host(flow.b).udp_port(9_093) for flow in flows]
        lab.network.run(1)  # loads native code
        for flow in flows:
            lab.send(flow, packets)
        begin = time.process_time()
        lab.network.run(round(case.seconds * PS) + 100 * MS)
        took = time.process_time() - begin
        arrived = sum(result.packets for port in ports for result in port.results())
    if arrived != packets * len(flows):
        raise DetourError(f"{arrived} of {packets * len(flows)} datagrams arrived on {case.network}")
    network = "one switch" if case.network == ONE_SWITCH else case.network
    peak = peak_resident()
    return LabRow.of("detour", case.mbps * len(flows), arrived, took, network=network, memory_bytes=peak)


def ecn_minute(seconds: float = ECN_SECONDS) -> LabRow:
    """The ECN exercise: a flow fills the slow link, where another one, of a datagram a second, is marked. Raises
    `DetourError`: none was marked (a defect)."""
    topology = parse_topology("leaf-spine:leaves=2,spines=1,hosts=2")

    def rate(link: Link) -> int:
        return _ECN_LINKS if link.kind == "host" else _ECN_BPS

    with LabNetwork(topology, rate) as lab:
        first, second = (lab.stack.host(host).udp_port(9_093) for host in (2, 3))
        lab.network.run(1)
        # iperf's megabit a second, and a voice in between that can be marked.
        flows = (LabFlow(1, 3, 1e6, 1_470), LabFlow(0, 2, 8 * 100, 100, tos=1))
        for flow in flows:
            lab.send(flow, round(flow.rate_bps * seconds / (8 * flow.payload)))
        begin = time.process_time()
        lab.network.run(round(seconds * PS))
        took = time.process_time() - begin
        voice = first.results()[0]
        arrived = voice.packets + sum(result.packets for result in second.results())
    if voice.ce == 0:
        raise DetourError("a queue of 64 packets marked none")
    peak = peak_resident()
    note = f"{seconds:g} s of virtual time, {voice.ce} of {voice.packets} marked"
    return LabRow.of("detour", _ECN_BPS / 1e6, arrived, took, network="ECN road", memory_bytes=peak, note=note)


# -- all of it ----------------------------------------------------------------------------------------------


def run(
    speeds: Sequence[float] = SPEEDS_MBPS, seconds: float = LAB_SECONDS, turns: int = 1, progress: Progress = silent
) -> BenchReport:
    """Measure every case, the systems by turns; of several turns the one with the middle time counts. Raises
    `DetourError`: a speed or a time that is not above zero, or a program that fails."""
    if not speeds or min(*speeds, seconds) <= 0 or turns < 1:
        raise DetourError("speeds and seconds must be above 0, and there must be at least one turn")
    program = p4sim.find()
    rows: list[LabRow] = []
    for mbps in speeds:
        rounds = [_round(mbps, seconds, program, progress) for _ in range(turns)]
        rows += [_middle(list(column)) for column in zip(*rounds, strict=True)]
    progress(LAB_FAT_TREE)
    tree = LabCase(LAB_FAT_TREE, _FAT_TREE_MBPS, seconds)
    rows.append(_middle([apart(traffic, tree) for _ in range(turns)]))
    progress("a minute of the ECN road")
    rows.append(_middle([apart(ecn_minute) for _ in range(turns)]))
    if program is None:
        rows += published()
    return report(rows, program is not None)


def _round(mbps: float, seconds: float, program: p4sim.Path | None, progress: Progress) -> list[LabRow]:
    progress(f"{mbps:g} Mb/s: detour")
    measured = [apart(traffic, LabCase(ONE_SWITCH, mbps, seconds))]
    if program is not None:
        for system in (p4sim.P4SIM, p4sim.BRIDGE):
            progress(f"{mbps:g} Mb/s: {system}")
            other = p4sim.run(program, system, mbps, LAB_PAYLOAD, seconds, _CABLE_BPS)
            measured.append(LabRow.of(system, mbps, other.packets, other.seconds))
    return measured


def _middle(rows: list[LabRow]) -> LabRow:
    return sorted(rows, key=lambda row: row.packets_per_s)[len(rows) // 2]


def published() -> list[LabRow]:
    """The 10 Gb/s case of others, not measured here."""
    mbps = SPEEDS_MBPS[-1]
    packets = round(mbps * 1e6 * LAB_SECONDS / (8 * LAB_PAYLOAD))
    case: dict[str, Any] = {"mbps": SPEEDS_MBPS[-1], "packets": packets, "measured": False}
    return [
        LabRow(system=system, seconds=packets / rate, packets_per_s=rate, note=note, **case)
        for system, note, rate in ELSEWHERE
    ]


def report(rows: Sequence[LabRow], others: bool) -> BenchReport:
    """The rows against the goals. `others`: p4sim and the bridge were measured in the same run."""
    fastest = max((row.mbps for row in rows if row.system == "detour" and row.network == "one switch"), default=0.0)
    ours = next((row for row in rows if row.system == "detour" and row.mbps == fastest), None)
    peak = max((row.memory_bytes or 0 for row in rows), default=0)
    road = next((row for row in rows if row.network == "ECN road"), None)
    goals = [
        Goal("times p4sim's packets a second", _times(rows, ours, p4sim.P4SIM), TIMES_P4SIM),
        Goal("times ns-3's bridge's", _times(rows, ours, p4sim.BRIDGE), TIMES_BRIDGE),
        Goal("bytes of memory", float(peak), MEMORY_BYTES, most=True),
        Goal("seconds for a minute of the ECN road", None if road is None else road.seconds, ECN_WALL_S, most=True),
    ]
    missing = (
        f"p4sim was not found ({p4sim.VARIABLE}, or {p4sim.PROGRAM_NAME} on PATH): its figures are those published"
    )
    numbers: dict[str, Numbers] = {"rows": [_json(row) for row in rows]}
    return report_of_rows("lab", LabRow, rows, numbers, goals, () if others else (missing,))


def _times(rows: Sequence[LabRow], ours: LabRow | None, system: str) -> float | None:
    """Speed relative to a system in the same case, if it was measured."""
    if ours is None:
        return None
    theirs = [row for row in rows if row.system == system and row.measured and row.mbps == ours.mbps]
    return ours.packets_per_s / theirs[0].packets_per_s if theirs else None


def _json(row: LabRow) -> dict[str, Numbers]:
    rounded = replace(row, seconds=round(row.seconds, 4), packets_per_s=round(row.packets_per_s, 1))
    return {name: value for name, value in asdict(rounded).items() if value not in (None, "")}
