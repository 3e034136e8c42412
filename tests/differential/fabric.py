# SPDX-License-Identifier: Apache-2.0
"""fabric.p4 and adaptive.p4: entries that use every table and frames that reach every corner of them.

One thing differs from run to run, the time that a packet spent in a queue, which is added to the Transit Measurement
option, where `canonical` takes it out again, if it is a plausible time, and by which packets of watched flows are
classified, which `strip` adds up again. Queues are empty when a frame comes (one at a time),
so that ECN marks and RED's dice have no say; the packet tests show those. Nor does chance among groups: for every
destination either T keeps packets on the direct link or there is one other group to go by.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

from finsy.proto import p4r

from tests.differential.case import Case, Result, load
from tests.differential.entries import Update
from tests.differential.packets import Frame, mutate
from tests.ptf.p4rt import Schema, clone_session

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "p4src" / "build"
GOLDEN = Path(__file__).parent / "golden"

NODE, GROUP, GROUPS = 3, 1, 6
CPU_PORT = 510
PORTS = (1, 2, 3, 4, 5, 6)
NODES = (1, 2, NODE, NODE, NODE, 4, 5, 9)
FUNCTIONS = (0xE001, 0xE002, 0xE003, 0xE004)
FOREIGN_FUNCTIONS = (0xE005, 0xE00F, 0xFFFF)
"""of the local range, but none of this switch's; the first has a route"""
HOSTS = (0x8001, 0x8002, 0x8005, 0x80FF)
USID_BLOCK = 0xFCBBBB00
PROTOCOLS = {"transit": 0, "alert": 0, "udp": 17, "inner": 41, "srh": 43, "none": 59, "options": 60}
NO_SOURCES = (0xFF02 << 112 | 1, 0xFE80 << 112 | 7, 0, 1)
"""addresses that no packet can come from"""
MOST_QUEUING_TICKS = 5_000_000
WAITED = "FabricEgress.flows.waited"
DELAY_CLASSES = 32


def host(group: int, switch: int, index: int) -> int:
    """Address of a host as a number."""
    return 0xFD00 << 112 | group << 96 | switch << 80 | index << 64 | 1


def usids(ids: list[int]) -> int:
    """A uSID list as a number."""
    value = USID_BLOCK
    for position in range(6):
        value = value << 16 | (ids[position] if position < len(ids) else 0)
    return value


class FabricMaker:
    """Makes entries and frames from one seed."""

    program = "fabric"

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"{self.program} {seed}")
        self.schema = Schema.load(BUILD / f"{self.program}.p4info.txtpb")

    # -- entries ----------------------------------------------------------------------------------------

    def updates(self) -> list[Update]:
        """The switch's tables."""
        node = ("set_node", {"node_id": NODE, "group": GROUP, "groups": GROUPS})
        made: list[Update] = [
            ("MODIFY", self.schema.entry("config", action=node, default=True)),
            ("INSERT", clone_session(1, (CPU_PORT, 1))),
        ]
        entities = [*self._sids(), *self._routes(), *self._detours(), *self._rules(), *self._queues()]
        return made + [("INSERT", e) for e in entities]

    def _sids(self) -> list[p4r.Entity]:
        made = [self._sid(usids([NODE]), 48, "un", {})]
        for port, function in enumerate(FUNCTIONS, 1):
            made.append(self._sid(usids([function]), 48, "ua", {"port": port}))
            made.append(self._sid(usids([NODE, function]), 64, "node_ua", {"port": port}))
        return made

    def _sid(self, address: int, length: int, action: str, arguments: dict[str, int]) -> p4r.Entity:
        return self.schema.entry("local_sid", {"hdr.ipv6.dst_addr": (address, length)}, action=(action, arguments))

    def _routes(self) -> list[p4r.Entity]:
        prefixes = [(usids([n]), 48) for n in sorted(set(NODES) - {NODE, 9})]
        prefixes += [(usids([h]), 48) for h in (*HOSTS[:-1], FOREIGN_FUNCTIONS[0])]
        prefixes += [(host(g, 0, 0), 32) for g in range(GROUPS) if g != 4]
        prefixes += [(host(GROUP, s, 0), 48) for s in range(3)]
        prefixes += [(host(GROUP, 0, i), 64) for i in range(3)]
        prefixes += [(host(2, 1, 1), 128), (0xFD00 << 112, 16), (host(0, 7, 0), 41)]
        made = []
        for prefix, length in prefixes:
            kept = prefix >> (128 - length) << (128 - length)
            match = {"hdr.ipv6.dst_addr": (kept, length)}
            made.append(self.schema.entry("route", match, one_shot=self._choices(deliver=length >= 64)))
        return made

    def _choices(self, deliver: bool) -> list[tuple[tuple[str, dict[str, int]], int]]:
        ports = self.rng.sample(PORTS, self.rng.choice((1, 1, 2, 3, 4)))
        if deliver:
            return [(("deliver", {"port": p, "mac": 0x020000000000 | p}), 1) for p in ports[:1]]
        return [(("forward", {"port": p}), 1) for p in ports]

    def _detours(self) -> list[p4r.Entity]:
        made = []
        for via in (0, 2, 3, 4):
            ports = self.rng.sample(PORTS, self.rng.choice((1, 2, 3)))
            choices = [(("towards", {"port": p}), 1) for p in ports]
            made.append(self.schema.entry("detour", {"meta.via": via}, one_shot=choices))
        match = {"meta.via": 2, "destination_group": 5}
        return [*made, self.schema.entry("cut_off", match, action=("NoAction", {}))]

    def _rules(self) -> list[p4r.Entity]:
        fields = [
            ("deny", {"hdr.ipv6.src_addr": (host(2, 2, 0), 0xFFFFFFFFFFFFFFFF << 64)}),
            ("deny", {"hdr.udp.dst_port": (53, 60)}),
            ("punt", {"hdr.ipv6.next_hdr": (58, 0xFF), "std.ingress_port": (2, 0x1FF)}),
            ("punt", {"hdr.ethernet.ether_type": (0x0806, 0xFFFF)}),
            ("copy_to_cpu", {"hdr.udp.dst_port": (4793, 4793)}),
            ("copy_to_cpu", {"hdr.ipv6.dst_addr": (usids([NODE, 4]), 0xFFFFFFFFFFFFFFFF << 64)}),
            (
                "deny",
                {"hdr.ipv6.dst_addr": (usids([NODE, NODE]), 0xFFFFFFFFFFFFFFFF << 64), "std.ingress_port": (4, 0x1FF)},
            ),
            ("copy_to_cpu", {"hdr.ipv6.dst_addr": (host(3, 0, 0), 0xFFFFFFFF << 96), "std.ingress_port": (3, 0x1FF)}),
            ("permit", {"hdr.udp.dst_port": (4791, 4791), "std.ingress_port": (1, 0x1FF)}),
        ]
        return [
            self.schema.entry("rules", match, action=(action, {}), priority=100 - 10 * number)
            for number, (action, match) in enumerate(fields)
        ]

    def _queues(self) -> list[p4r.Entity]:
        marks = [("step", {"k": 1}), ("red", {"kmin": 1, "kmax": 60, "slope": 1 << 26})]
        made = [self.schema.entry("marking", {"std.egress_port": p}, action=self.rng.choice(marks)) for p in PORTS[:-1]]
        priorities = [(8, 1), (46, 5), (48, 7)]
        for dscp, priority in priorities:
            action = ("set_priority", {"priority": priority})
            made.append(self.schema.entry("dscp", {"hdr.ipv6.dscp": dscp}, action=action))
        return [*made, *self._channels(), *self._watched()]

    def _watched(self) -> list[p4r.Entity]:
        flows = [(group, switch, index, label) for group in (0, GROUP) for switch in range(2) for index in range(2)
                 for label in (1, 5)]  # fmt: skip
        return [
            self.schema.entry(
                "watched", {"hdr.ipv6.src_addr": host(*at), "flow_label": label}, action=("watch", {"slot": 255 - slot})
            )
            for slot, (*at, label) in enumerate(flows)
        ]

    def _channels(self) -> list[p4r.Entity]:
        made = []
        for dscp in range(0, 64, 2):
            match: dict[str, int | tuple[int, int]] = {"hdr.ipv6.dscp": dscp}
            if dscp % 8 != 6:
                match["meta.in_port"] = (self.rng.choice(PORTS), 0x1FF)
            if dscp % 8 != 4:
                match["std.egress_spec"] = (self.rng.choice(PORTS), 0x1F4)
            action = ("set_channel", {"dscp": dscp + 1, "priority": dscp % 8})
            made.append(self.schema.entry("channel", match, action=action, priority=1 + dscp))
        return made

    # -- frames -----------------------------------------------------------------------------------------

    def frame(self) -> Frame:
        """A frame: mostly well-formed, of any combination of headers, then perhaps mutated."""
        rng = self.rng
        data = rng.randbytes(12) + struct.pack("!H", 0x86DD if rng.random() < 0.97 else rng.choice((0x0806, 0x800)))
        data = mutate(data + self._ipv6(depth=0), rng)
        if rng.random() < 0.06:
            return CPU_PORT, struct.pack("!H", rng.choice((0, 0, 0, 3, 511, 509, 510))) + data
        return rng.choice(PORTS), data or b"\0"

    def _ipv6(self, depth: int) -> bytes:
        rng = self.rng
        chain = self._chain(depth)
        looping = "srh" in chain and rng.random() < 0.06
        body = b""
        following = PROTOCOLS["none"] if rng.random() < 0.9 else rng.choice((6, 44, 50, 58, 60))
        for kind in reversed(chain):
            body, following = self._header(kind, following, body, depth, looping), PROTOCOLS[kind]
        length = len(body) if rng.random() < 0.97 else rng.randrange(1 << 16)
        version = 6 if rng.random() < 0.985 else rng.randrange(16)
        word = version << 28 | rng.randrange(256) << 20 | self._label()
        hop_limit = rng.choice((0, 1, 2, 3, 4, 64, 64, 64, 255))
        destination = usids([NODE]) if looping else self._destination()
        addresses = self._source().to_bytes(16, "big") + destination.to_bytes(16, "big")
        return struct.pack("!IHBB", word, length, following, hop_limit) + addresses + body

    def _label(self) -> int:
        return self.rng.choice((0, 1, 5, self.rng.randrange(1 << 20)))

    def _chain(self, depth: int) -> list[str]:
        rng = self.rng
        kind = rng.random()
        chain = ["transit"] if kind < 0.4 else ["alert"] if kind < 0.45 else []
        if rng.random() < 0.1:
            chain.append("options")
        if rng.random() < 0.3:
            chain.append("srh")
        if depth == 0 and rng.random() < 0.25:
            return [*chain, "inner"]
        return [*chain, "udp"] if rng.random() < 0.85 else chain

    def _source(self) -> int:
        rng = self.rng
        if rng.random() < 0.9:
            return host(rng.choice((GROUP, GROUP, GROUP, 0, 2, 5)), rng.randrange(4), rng.randrange(4))
        return rng.choice((rng.getrandbits(128), *NO_SOURCES[:2], rng.choice(NO_SOURCES)))

    def _destination(self) -> int:
        rng = self.rng
        kind = rng.random()
        if kind < 0.45:
            return host(rng.randrange(GROUPS + 1), rng.randrange(4), rng.randrange(4))
        if kind < 0.92:
            others = (*FUNCTIONS, *FOREIGN_FUNCTIONS, *HOSTS, 0)
            ids = [rng.choice(NODES) if rng.random() < 0.6 else rng.choice(others)
                   for _ in range(rng.randrange(1, 7))]  # fmt: skip
            return usids(ids) | (rng.randrange(1 << 16) if rng.random() < 0.05 else 0)
        inside = USID_BLOCK << 96 | rng.getrandbits(96)
        return rng.choice((rng.getrandbits(128), inside, 0xFD00 << 112, 0x2001 << 112, 0xFF0E << 112 | 1))

    def _header(self, kind: str, following: int, body: bytes, depth: int, looping: bool) -> bytes:
        if kind == "udp":
            return self._udp()
        if kind == "inner":
            return self._ipv6(depth + 1)
        if kind == "srh":
            return self._srh(following, looping) + body
        if kind in ("alert", "options"):
            return self._options(following) + body
        return self._transit(following) + body

    def _udp(self) -> bytes:
        rng = self.rng
        payload = bytes(range(rng.choice((0, 0, 1, 8, 30))))
        sport = rng.randrange(1 << 16)
        dport = rng.choice((4791, 4791, 4793, 53, 60, 61, rng.randrange(1 << 16)))
        data = struct.pack("!HHHH", sport, dport, 8 + len(payload), rng.randrange(1 << 16)) + payload
        return data[: rng.randrange(8)] if rng.random() < 0.03 else data

    def _transit(self, following: int) -> bytes:
        rng = self.rng
        delay = rng.choice((0, 1, 1000, 0xFFFFFFFF, 0xFFFFFFFF, rng.randrange(1 << 31)))
        if rng.random() < 0.9:
            return struct.pack("!BBBBI", following, 0, 0x3E, 4, delay)
        return struct.pack("!BBBBI", following, rng.randrange(2), rng.choice((0x3E, 0x3F, 1)), rng.randrange(6), delay)

    def _options(self, following: int) -> bytes:
        """A header of options, right up to what the parser takes and beyond."""
        units = self.rng.choice((0, 0, 0, 1, 6, 7, 8, 20))
        return (
            bytes((following, units)) + self.rng.choice((b"\x05\x02\0\0\x01\0", b"\x01\x04\0\0\0\0")) + bytes(8 * units)
        )

    def _srh(self, following: int, looping: bool) -> bytes:
        """`looping`: nothing but uSIDs of this switch, more than it puts up with."""
        rng = self.rng
        if looping:
            return struct.pack("!BBBBBBH", following, 16, 4, 8, 7, 0, 0) + usids([NODE]).to_bytes(16, "big") * 8
        count = rng.choice((1, 1, 2, 2, 3, 5, 8, 9, 12))
        left = rng.randrange(count + 1) if rng.random() < 0.9 else rng.randrange(256)
        last = count - 1 if rng.random() < 0.95 else rng.randrange(256)
        length = 2 * count if rng.random() < 0.93 else rng.randrange(24)
        head = struct.pack("!BBBBBBH", following, length, 4 if rng.random() < 0.95 else 3, left, last, 0, 0)
        return head + b"".join(self._destination().to_bytes(16, "big") for _ in range(count))


class AdaptiveMaker(FabricMaker):
    """The same for adaptive.p4."""

    program = "adaptive"

    def _detours(self) -> list[p4r.Entity]:
        made = []
        for via in (0, 2, 3, 4):
            choices = [(("towards", {"port": p}), 1) for p in self.rng.sample(PORTS, self.rng.choice((1, 2, 3)))]
            made.append(self.schema.entry("towards_group", {"meta.via": via}, one_shot=choices))
        modes = [
            (0, ("ugal", {"usable": 0b111101, "t": 3})),
            (2, ("ugal", {"usable": 0b001100, "t": 0})),
            (3, ("random_group", {"usable": 0b010000})),
            (4, ("random_group", {"usable": 0b110000})),  # group 5: nobody knows the way
        ]
        for group, mode in modes:
            made.append(self.schema.entry("mode", {"destination_group": group}, action=mode))
        made += [self.schema.entry("host_ports", {"meta.in_port": p}, action=("NoAction", {})) for p in PORTS[:3]]
        return made

    def _label(self) -> int:
        return self.rng.choice((super()._label(), 1 << 19 | self.rng.randrange(GROUPS) << 13))


MAKERS = {maker.program: maker for maker in (FabricMaker, AdaptiveMaker)}


def case(frames: int, seed: int, program: str = "fabric") -> Case:
    """A case for one of our programs."""
    maker = MAKERS[program](seed)
    text = (BUILD / f"{program}.json").read_bytes()
    return Case(program, text, maker.schema, maker.updates(), [maker.frame() for _ in range(frames)], batch=1)


def golden(program: str) -> Path:
    """Where the recording of a program is."""
    return GOLDEN / f"{program}.json.xz"


def recording(program: str) -> tuple[Case, Result]:
    """The recording of a program, with its JSON as it is now."""
    schema = Schema.load(BUILD / f"{program}.p4info.txtpb")
    return load(golden(program), (BUILD / f"{program}.json").read_bytes(), schema, any_build=True)


def _delays(data: bytes, offset: int) -> list[int]:
    """Delays in the Transit Measurement options behind Ethernet at `offset`, of outer and inner packet."""
    delays = []
    at = data.find(b"\x00\x3e\x04", offset)
    while at >= 0:
        if at + 7 <= len(data):
            delays.append(int.from_bytes(data[at + 3 : at + 7], "big"))
        at = data.find(b"\x00\x3e\x04", at + 1)
    return delays


def canonical(frame: Frame, out: Frame) -> Frame:
    """`out` with the delay that it came in with, if a plausible time was added to that one."""
    port, data = out
    header = data[14 + 40 : 14 + 48]
    stamped = port != CPU_PORT and data[12:14] == b"\x86\xdd" and data[14 + 6 : 14 + 7] == b"\0"
    if not stamped or header[1:4] != b"\x00\x3e\x04" or len(header) < 8:
        return out
    delay = int.from_bytes(header[4:], "big")
    # The least one: an option inside another packet may hold a value that fits, too.
    for before in sorted(_delays(frame[1], 0)):
        added = delay - before
        if 0 <= added <= MOST_QUEUING_TICKS and (delay < 0xFFFFFFFF or before + MOST_QUEUING_TICKS > 0xFFFFFFFF):
            return port, data[:58] + before.to_bytes(4, "big") + data[62:]
    return out


def strip(run: Case, result: Result) -> Result:
    """The result without what differs from run to run."""
    outputs = [[canonical(f, o) for o in outs] for f, outs in zip(run.frames, result.outputs, strict=True)]
    return Result(outputs, _without_classes(result.counters), result.digests)


def _without_classes(counters: list[str]) -> list[str]:
    """Counters with one line for all classes of queuing delay of a flow."""
    waited: dict[int, int] = {}
    for line in [line for line in counters if line.startswith(WAITED)]:
        index, _, packets = line.removeprefix(f"{WAITED}[").partition("] ")
        slot = int(index) // DELAY_CLASSES
        waited[slot] = waited.get(slot, 0) + int(packets.removesuffix("p"))
    others = [line for line in counters if not line.startswith(WAITED)]
    return sorted([*others, *(f"{WAITED}[{slot}] {packets}p" for slot, packets in waited.items())])
