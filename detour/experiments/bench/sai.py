# SPDX-License-Identifier: Apache-2.0
"""`detour bench sai`: packets a second through a router of the shape of SAI P4's (`detour/p4src/sai.p4`), beside BMv2.

The load is that of 4ward's comparison with BMv2 (its docs/PERFORMANCE.md): 10,000 IPv4 routes (/24 and /32), most to
WCMP groups of 16 next hops, and 500 ternary entries in two access lists that match nothing; a 64th of the packets is
mirrored. Both switches get the same entries by P4Runtime and the same packets. The engine runs in process, on one core
and in virtual time; BMv2 has veth pairs and all cores, and its best delivered rate counts, lost packets or not.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from contextlib import ExitStack

from detour.base.places import BUILD
from detour.base.progress import Progress, silent
from detour.control.entries import (
    Action,
    ActionSet,
    CloneSession,
    Entity,
    Lpm,
    MatchValue,
    Replica,
    TableEntry,
    Ternary,
)
from detour.control.p4runtime.codec import Codec
from detour.control.p4runtime.pipeline import read_p4info
from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer
from detour.experiments.bench import inprocess, namespace, processes
from detour.experiments.bench.client import Client
from detour.experiments.bench.generator import Generator
from detour.experiments.bench.report import BenchReport, Goal, rate, ratio
from detour.experiments.bench.switch import Rate, best, best_rate, offer

GOAL = 200.0
_ROUTES, _DENIED, _MEMBERS, _GROUPS, _NEXTHOPS, _VRFS = 10_000, 500, 16, 16, 64, 4
_OUT, _MIRROR = (2, 3, 4, 5), 6
SAI_PORTS = (1, *_OUT, _MIRROR)
"""Packets come by the first, leave by four, and their copies by the last."""
_DEVICE, _BATCH, _FRAMES, _SIZE = 1, 1000, 4096, 100
_MAC, _DSCP, _PROTOCOL, _SESSION = 0x020000000100, 46, 132, 5
_FIRST_RATE = 2000.0


def _routes() -> list[tuple[int, int, int]]:
    """(VRF, address, prefix length): a third of them are hosts."""
    numbers = random.Random(1)
    prefixes = {}
    while len(prefixes) < _ROUTES:
        length = 32 if len(prefixes) % 3 == 0 else 24
        prefixes[numbers.getrandbits(32) >> (32 - length) << (32 - length), length] = numbers.randrange(_VRFS) + 1
    return [(vrf, value, length) for (value, length), vrf in prefixes.items()]


def _entry(table: str, match: dict[str, MatchValue], action: str, priority: int = 0, **params: int) -> TableEntry:
    return TableEntry.of(f"SaiIngress.{table}", match, Action.of(f"SaiIngress.{action}", **params), priority)


def entities() -> Iterator[Entity]:
    """All entries, in an order in which they can be written."""
    yield CloneSession(_SESSION, (Replica(_MIRROR, 1),))
    yield _entry("mirror_session", {"meta.mirror": 1}, "mirror_to", port=_MIRROR)
    yield _entry("clone_session", {"meta.mirror_port": _MIRROR}, "ingress_clone", session=_SESSION)
    yield _entry("l3_admit", {"hdr.ethernet.dst": Ternary(_MAC, (1 << 48) - 1)}, "admit", 1)
    for interface, port in enumerate(_OUT, 1):
        yield _entry("router_interface", {"meta.interface": interface}, "set_port", port=port, src_mac=_MAC + interface)
    for hop in range(1, _NEXTHOPS + 1):
        interface = hop % len(_OUT) + 1
        yield _entry("nexthop", {"meta.nexthop": hop}, "resolve", interface=interface, neighbor=hop)
        there: dict[str, MatchValue] = {"meta.interface": interface, "meta.neighbor": hop}
        yield _entry("neighbor", there, "set_dst_mac", dst_mac=_MAC << 1 | hop)
    for group in range(1, _GROUPS + 1):
        hops = [Action.of("SaiIngress.set_nexthop", nexthop=(group + 3 * i) % _NEXTHOPS + 1) for i in range(_MEMBERS)]
        yield TableEntry.of("SaiIngress.wcmp_group", {"meta.group": group}, ActionSet.of(hops))
    for number, (vrf, value, length) in enumerate(_routes()):
        to: dict[str, MatchValue] = {"meta.vrf": vrf, "hdr.ipv4.dst": Lpm(value, length, 32)}
        if number % 8:
            yield _entry("ipv4_route", to, "set_group", group=number % _GROUPS + 1)
        else:
            yield _entry("ipv4_route", to, "set_nexthop", nexthop=number // 8 % _NEXTHOPS + 1)
    yield from _access_lists()


def _access_lists() -> Iterator[TableEntry]:
    """Half of the entries that match nothing are in each list; behind them come those that match."""
    numbers = random.Random(2)
    for number in range(_DENIED):
        mask = (1 << 32) - (1 << numbers.randrange(25))
        match: dict[str, MatchValue] = {"hdr.ipv4.dst": Ternary(numbers.getrandbits(32), mask)}
        if number % 2:
            match["hdr.ipv4.protocol"] = Ternary(_PROTOCOL, 0xFF)
            match[("hdr.l4.src_port", "hdr.l4.dst_port")[number % 3 > 0]] = Ternary(numbers.getrandbits(16), 0xFFFF)
            yield _entry("acl_ingress", match, "drop", 1000 - number)
        else:
            match["hdr.ethernet.src"] = Ternary(numbers.getrandbits(24), 0xFFFFFF00FFFF >> number % 3 * 4)
            yield _entry("acl_pre_ingress", match, "set_vrf", 1000 - number, vrf=2)
    yield _entry("acl_pre_ingress", {"std.ingress_port": Ternary(1, 0x1FF)}, "set_vrf", 1, vrf=1)
    yield _entry("acl_ingress", {"hdr.ipv4.dscp": Ternary(_DSCP, 0x3F)}, "mirror", 1, session=1)


def frames() -> list[bytes]:
    """Packets of many flows, all of which have routes."""
    numbers = random.Random(3)
    routes = [(value, length) for vrf, value, length in _routes() if vrf == 1]
    made = []
    for number in range(_FRAMES):
        value, length = numbers.choice(routes)
        tos, to = 0 if number % 64 else _DSCP << 2, value | numbers.getrandbits(32) & ((1 << (32 - length)) - 1)
        fields = [0x45, tos, _SIZE - 14, number, 0, 64, 17, 0, 0x0A000000 | number, to]
        fields[7] = 0xFFFF - sum(struct.unpack("!10H", struct.pack("!BBHHHBBHII", *fields))) % 0xFFFF
        ethernet = _MAC.to_bytes(6, "big") + bytes.fromhex("0600000000010800")
        ports = struct.pack("!HH", numbers.randrange(1024, 65536), 4791)
        made.append((ethernet + struct.pack("!BBHHHBBHII", *fields) + ports).ljust(_SIZE, b"\0"))
    return made


def program_switch(address: str) -> None:
    """Give a switch the program and all entries."""
    info = read_p4info(BUILD / "sai.p4info.txtpb")
    updates = [*map(Codec(info).insert, entities())]
    with Client(address, _DEVICE) as client:
        client.set_pipeline(client.pipeline(info, (BUILD / "sai.json").read_bytes()))
        client.write(client.requests(updates, _BATCH))


def _in_process(seconds: float) -> float:
    """The engine's packets a second of one core."""
    sent, numbers = frames(), random.Random(4)
    with Network(Virtual(), packets=8 * inprocess.INJECT_BATCH) as network:
        for switch in (_DEVICE, inprocess.NOWHERE):
            network.add_switch(switch)
        for port in SAI_PORTS:
            network.connect((_DEVICE, port), (inprocess.NOWHERE, port))
        with P4RuntimeServer(network) as server:
            server.add_device(_DEVICE)
            program_switch(server.target)
        batch = lambda: numbers.choices(sent, k=inprocess.INJECT_BATCH)  # noqa: E731
        return inprocess.packets_per_second(network, (_DEVICE, 1), batch, seconds)


def _bmv2(seconds: float, progress: Progress) -> float:
    """The highest rate that simple_switch_grpc delivers, in a namespace of our own."""
    namespace.add_pairs([(f"s{port}", f"t{port}") for port in SAI_PORTS])
    with ExitStack() as parts:
        parts.callback(namespace.remove, [f"s{port}" for port in SAI_PORTS])
        ports = {_DEVICE: {port: f"s{port}" for port in SAI_PORTS}}
        switches = parts.enter_context(processes.Switches("bmv2", ports))
        program_switch(switches.target(_DEVICE).address)
        generator = parts.enter_context(Generator({"t1": frames()}))

        def measure(load: float) -> Rate:
            progress(f"BMv2: {load:,.0f} packets/s offered")
            return offer(generator, [f"t{port}" for port in _OUT], load, seconds)

        measure(_FIRST_RATE)
        return best(best_rate(measure, _FIRST_RATE))


def run(seconds: float = 1.0, progress: Progress = silent) -> BenchReport:
    """Measures. `seconds`: how long each load is offered."""
    if not (absent := namespace.unavailable() or processes.no_bmv2()):
        namespace.enter()
    progress("in process")
    ours = _in_process(seconds)
    theirs = None if absent else _bmv2(seconds, progress)
    times = ratio(ours, theirs)
    return BenchReport(
        name="sai",
        numbers={"packets_per_s": ours, "bmv2_packets_per_s": theirs, "ratio": times},
        columns=("routes", "access lists", "engine in process, packets/s", "BMv2", "ratio"),
        rows=((f"{_ROUTES:,}", str(_DENIED), rate(ours), rate(theirs), rate(times)),),
        goals=(Goal("times BMv2's packets/s,", times, GOAL),),
        notes=(f"not compared with BMv2: {absent}",) if absent else (),
    )
