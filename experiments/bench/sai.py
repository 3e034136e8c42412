# SPDX-License-Identifier: Apache-2.0
"""`detour bench sai`: packets a second through a router of the shape of SAI P4's (`p4src/sai.p4`), beside BMv2.

Ten thousand IPv4 routes (/24 and /32) in four VRFs, most to WCMP groups of 16 next hops; an access list of 500 ternary
entries that match nothing, and one below them that mirrors a 64th of the packets. Both switches get the same entries by
P4Runtime and the same packets. The engine runs in process, on one core and in virtual time; BMv2 has veth pairs, all
cores, and the highest rate that it delivers counts, lost packets or not.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from contextlib import ExitStack

from finsy.proto import p4r

from detour.base.p4build import BUILD
from detour.base.progress import Progress, silent
from detour.control.entries import Action, ActionSet, CloneSession, Entity, Lpm, Replica, TableEntry, Ternary
from detour.control.p4runtime.codec import Codec
from detour.control.p4runtime.pipeline import read_p4info
from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer
from detour.experiments.bench import inprocess, namespace, processes
from detour.experiments.bench.client import Client
from detour.experiments.bench.generator import Generator
from detour.experiments.bench.report import BenchReport, Goal, rate, ratio
from detour.experiments.bench.switch import best, best_rate, offer

ROUTES, ACL_ENTRIES, MEMBERS = 10_000, 500, 16
GOAL = 200.0
_VRFS, _GROUPS, _NEXTHOPS = 4, 16, 64
_OUT = tuple(range(2, 6))
_MIRROR = 6
"""Ports: packets come by 1, leave by `_OUT`, and their copies by `_MIRROR`."""
_DEVICE, _BATCH, _FRAMES = 1, 1000, 4096
_MIRRORED_DSCP, _SESSION = 46, 5
_SIZE = 100
_FIRST_RATE = 1000.0
_SOURCE_MAC = 0x020000000100


def _routes() -> list[tuple[int, int, int]]:
    """(VRF, address, prefix length): a third of them are hosts."""
    numbers = random.Random(1)
    prefixes: dict[tuple[int, int], int] = {}
    while len(prefixes) < ROUTES:
        length = 32 if len(prefixes) % 3 == 0 else 24
        value = numbers.getrandbits(32) >> (32 - length) << (32 - length)
        prefixes[value, length] = len(prefixes) % _VRFS + 1
    return [(vrf, value, length) for (value, length), vrf in prefixes.items()]


def _entry(table: str, match: dict[str, object], action: str, priority: int = 0, **params: int) -> TableEntry:
    return TableEntry.of(f"SaiIngress.{table}", match, Action.of(action, **params), priority)  # type: ignore[arg-type]


def entities() -> Iterator[Entity]:
    """All entries, in an order in which they can be written."""
    yield CloneSession(_SESSION, (Replica(_MIRROR, 1),))
    yield _entry("mirror_session", {"meta.mirror_session": 1}, "SaiIngress.mirror_to", clone_session=_SESSION)
    yield _entry("pre_ingress", {"std.ingress_port": 1}, "SaiIngress.set_vrf", vrf=1)
    for interface, port in enumerate(_OUT, 1):
        mac = _SOURCE_MAC + interface
        match: dict[str, object] = {"meta.interface": interface}
        yield _entry("router_interface", match, "SaiIngress.set_port", port=port, src_mac=mac)
    for nexthop in range(1, _NEXTHOPS + 1):
        interface = nexthop % len(_OUT) + 1
        match = {"meta.interface": interface, "meta.neighbor": nexthop}
        yield _entry("neighbor", match, "SaiIngress.set_dst_mac", dst_mac=_SOURCE_MAC << 1 | nexthop)
        match = {"meta.nexthop": nexthop}
        yield _entry("nexthop", match, "SaiIngress.resolve", interface=interface, neighbor=nexthop)
    for group in range(1, _GROUPS + 1):
        hops = [Action.of("SaiIngress.set_nexthop", nexthop=(group + 3 * i) % _NEXTHOPS + 1) for i in range(MEMBERS)]
        yield TableEntry.of("SaiIngress.wcmp_group", {"meta.group": group}, ActionSet.of(hops))
    for number, (vrf, value, length) in enumerate(_routes()):
        match = {"meta.vrf": vrf, "hdr.ipv4.dst": Lpm(value, length, 32)}
        if number % 8:
            yield _entry("ipv4_route", match, "SaiIngress.set_group", group=number % _GROUPS + 1)
        else:
            yield _entry("ipv4_route", match, "SaiIngress.set_nexthop", nexthop=number % _NEXTHOPS + 1)
    yield from _access_list()


def _access_list() -> Iterator[TableEntry]:
    """Deny by five kinds of masks; all ask for a protocol that no packet has."""
    numbers = random.Random(2)
    kinds = (("hdr.ipv4.dst", 32), ("hdr.ipv4.src", 32), ("hdr.l4.dst_port", 16), ("hdr.l4.src_port", 16))
    for number in range(ACL_ENTRIES):
        match: dict[str, object] = {"hdr.ipv4.protocol": Ternary(132, 0xFF)}
        for name, bits in kinds[number % 5 :] or kinds[:2]:
            mask = (1 << bits) - (1 << numbers.randrange(bits // 2))
            match[name] = Ternary(numbers.getrandbits(bits), mask)
        yield _entry("acl_ingress", match, "SaiIngress.drop", 1000 - number)
    match = {"hdr.ethernet.ether_type": Ternary(0x0800, 0xFFFF), "hdr.ipv4.dscp": Ternary(_MIRRORED_DSCP, 0x3F)}
    yield _entry("acl_ingress", match, "SaiIngress.mirror", 1, session=1)


def frames(count: int = _FRAMES) -> list[bytes]:
    """Packets of many flows that have routes; a 64th is to be mirrored."""
    numbers = random.Random(3)
    routes = [(value, length) for vrf, value, length in _routes() if vrf == 1]
    made = []
    for number in range(count):
        value, length = routes[numbers.randrange(len(routes))]
        destination = value | numbers.getrandbits(32) & ((1 << (32 - length)) - 1)
        tos = 0 if number % 64 else _MIRRORED_DSCP << 2
        fields = [0x45, tos, _SIZE - 14, number & 0xFFFF, 0, 64, 17, 0, 0x0A000000 | number, destination]
        fields[7] = 0xFFFF - sum(struct.unpack("!10H", struct.pack("!BBHHHBBHII", *fields))) % 0xFFFF
        ports = struct.pack("!HHHH", numbers.randrange(1024, 65536), 4791, _SIZE - 34, 0)
        made.append(
            bytes.fromhex("020000000001 020000000002 0800")
            + struct.pack("!BBHHHBBHII", *fields)
            + ports
            + bytes(_SIZE - 42)
        )
    return made


def program_switch(address: str) -> None:
    """Gives a switch the program and all entries."""
    info = read_p4info(BUILD / "sai.p4info.txtpb")
    codec = Codec(info)
    updates: list[p4r.Update] = [codec.insert(entity) for entity in entities()]
    with Client(address, _DEVICE) as client:
        client.set_pipeline(client.pipeline(info, (BUILD / "sai.json").read_bytes()))
        client.write(client.requests(updates, _BATCH))


def in_process(seconds: float) -> float:
    """The engine's packets a second of one core."""
    sent = frames()
    batches = [sent[at : at + inprocess.INJECT_BATCH] for at in range(0, len(sent), inprocess.INJECT_BATCH)]
    turn = 0

    def batch() -> list[bytes]:
        nonlocal turn
        turn += 1
        return batches[turn % len(batches)]

    with Network(Virtual(), packets=8 * inprocess.INJECT_BATCH) as network:
        network.add_switch(_DEVICE)
        network.add_switch(inprocess.NOWHERE)
        for port in (*_OUT, _MIRROR):
            network.connect((_DEVICE, port), (inprocess.NOWHERE, port))
        with P4RuntimeServer(network) as server:
            server.add_device(_DEVICE)
            program_switch(server.target)
        return inprocess.packets_per_second(network, (_DEVICE, 1), batch, seconds)


def bmv2(seconds: float, progress: Progress) -> float:
    """The highest rate that simple_switch_grpc delivers, in a namespace of our own."""
    ports = (1, *_OUT, _MIRROR)
    namespace.add_pairs([(f"s{port}", f"t{port}") for port in ports])
    sinks = [f"t{port}" for port in _OUT]
    with ExitStack() as parts:
        parts.callback(namespace.remove, [f"s{port}" for port in ports])
        switches = processes.Switches("bmv2", {_DEVICE: {port: f"s{port}" for port in ports}})
        parts.enter_context(switches)
        program_switch(switches.target(_DEVICE).address)
        generator = parts.enter_context(Generator({"t1": frames()}))

        def measure(load: float):
            progress(f"BMv2: {load:,.0f} packets/s offered")
            return offer(generator, sinks, load, seconds)

        offer(generator, sinks, _FIRST_RATE, seconds)
        return best(best_rate(measure, _FIRST_RATE))


def run(seconds: float = 1.0, progress: Progress = silent) -> BenchReport:
    """Measures. `seconds`: how long each load is offered."""
    why = namespace.unavailable() or processes.no_bmv2()
    if not why:
        namespace.enter()
    progress("in process")
    ours = in_process(seconds)
    theirs = None if why else bmv2(seconds, progress)
    times = ratio(ours, theirs)
    return BenchReport(
        name="sai",
        numbers={"packets_per_s": ours, "bmv2_packets_per_s": theirs, "ratio": times},
        columns=("routes", "access list", "engine, packets/s", "BMv2", "ratio"),
        rows=((f"{ROUTES:,}", str(ACL_ENTRIES), rate(ours), rate(theirs), rate(times)),),
        goals=(Goal("times BMv2's packets/s,", times, GOAL),),
        notes=(f"not compared with BMv2: {why}",) if why else (),
    )
