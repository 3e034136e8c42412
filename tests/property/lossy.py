# SPDX-License-Identifier: Apache-2.0
"""A seeded network simulator in virtual step time that mistreats frames, for tests of the transports.

Hosts of one `Hosts` are connected by one hop. Each path (UDP source port of the frame) is a FIFO with a delay;
on top of that frames are lost, duplicated, corrupted, held back (reordered) or marked with given probabilities, and
paths can be black holes for some time. With `replay` any frame that was ever sent may arrive once more, however long
ago that was and whatever has become of its connection. Everything that happens is in `log`, so that a failing test can
print its schedule: `assert condition, net.schedule()`.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from detour.base.errors import DetourError
from detour.hosts.addresses import final_address, to_words
from detour.hosts.config import HostConfig
from detour.hosts.decode import decode
from detour.hosts.endpoint import MAX_FRAME, MAX_TIME, Hosts, deadline, expire, make_hosts, receive, transmit
from detour.hosts.frames.wire import SYNDROME_SEQUENCE
from detour.hosts.state import set_host
from detour.hosts.verbs import CQ, MR, PD, QP, AccessFlag, Context, Device, QPState, SendWR, WCStatus
from detour.topo.address import USID_BLOCK

US = 1_000_000
LOG_LINES = 400
HISTORY = 512
"""frames that may be replayed: of all that were sent, each with the same probability"""


@dataclass
class Weather:
    """What happens to frames: probabilities, delays in ps. `delay_of(sport)`: one-way delay of a path;
    `queue_of(sport)`: ticks that its switches add to the Transit Measurement option; `dead(sport, now)`:
    whether the path swallows everything now; `gray(kind, sport, length, now)`: whether it loses frames of this kind and
    length now."""

    loss: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0
    reorder: float = 0.0
    mark: float = 0.0
    replay: float = 0.0
    delay_of: Callable[[int], int] = lambda sport: 5 * US
    queue_of: Callable[[int], int] = lambda sport: 0
    dead: Callable[[int, int], bool] = lambda sport, now: False
    gray: Callable[[str, int, int, int], bool] | None = None
    rate_bps: int = 100_000_000_000


@dataclass
class Network:
    """Moves frames between the hosts of `hs`; `now` is the virtual time in ps."""

    hs: Hosts
    weather: Weather
    seed: int = 0
    now: int = 0
    filter: Callable[[int, bytes], bytes | None] | None = None
    log: deque[tuple[int, str, bytes | None]] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    frames: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.buf = np.zeros(2 * MAX_FRAME, np.uint8)
        self.events: list[tuple[int, int, int, bytes]] = []
        self.order = 0
        self.free_at = [0] * len(self.hs.host)
        self.last_on_path: dict[tuple[int, int], int] = {}
        self.history: list[bytes] = []
        self.host_of: dict[bytes, int] = {}
        for host, h in enumerate(self.hs.host):
            self.host_of[_address(int(h["addr_hi"]), int(h["addr_lo"]))] = host
            if h["usid_hi"]:
                self.host_of[_address(int(h["usid_hi"]), int(h["usid_lo"]))] = host

    def schedule(self) -> str:
        """The last events, for the message of a failed assertion."""
        events = [f"{at / US:12.3f} us  {describe(frame) if frame else ''} {text}" for at, text, frame in self.log]
        return f"seed {self.seed}, {self.frames} frames, last events:\n" + "\n".join(events)

    def run(self, until: Callable[[], bool], limit_ps: int = 10_000_000 * US, max_frames: int = 200_000) -> bool:
        """Lets the hosts talk until `until()`; False if they fell silent or a limit was reached first."""
        while not until():
            if self.now > limit_ps or self.frames > max_frames:
                return False
            for host in range(len(self.hs.host)):
                self._send(host)
            when = self._next_time()
            if when == MAX_TIME:
                return until()
            self.now = max(self.now, when)
            while self.events and self.events[0][0] <= self.now:
                self._arrive(*heapq.heappop(self.events)[2:])
            for host in range(len(self.hs.host)):
                if deadline(self.hs, host) <= self.now:
                    expire(self.hs, host, self.now)
        return True

    def _next_time(self) -> int:
        times = [self.events[0][0]] if self.events else []
        times += [when for when in self.free_at if when > self.now]
        times += [int(deadline(self.hs, host)) for host in range(len(self.hs.host))]
        return min(times, default=MAX_TIME)

    def _send(self, host: int) -> None:
        while self.free_at[host] <= self.now:
            length = int(transmit(self.hs, host, self.buf, 0, self.now))
            if length == 0:
                return
            assert length <= MAX_FRAME
            self.frames += 1
            self.free_at[host] = self.now + length * 8_000_000_000_000 // self.weather.rate_bps
            self._travel(host, self.buf[:length].tobytes())

    def _travel(self, host: int, sent: bytes) -> None:
        """Decides what becomes of a frame."""
        w, draw = self.weather, self.random.random
        frame: bytes | None = through_switches(sent)
        udp = _udp(sent)
        sport = int.from_bytes(sent[udp : udp + 2], "big")
        if self.filter is not None:
            frame = self.filter(host, frame) if frame is not None else None
        lost = w.gray is not None and w.gray(describe(sent).split()[0], sport, len(sent), self.now)
        if frame is None or lost or w.dead(sport, self.now) or draw() < w.loss:
            self.note(f"from {host}: lost", sent)
            return
        frame = add_delay(frame, w.queue_of(sport))
        if w.mark and draw() < w.mark:
            frame = mark(frame)
        for copy in range(2 if draw() < w.duplicate else 1):
            when = self.free_at[host] + w.delay_of(sport)
            if draw() < w.reorder:
                when += int(draw() * 30 * US)
            else:
                when = max(when, self.last_on_path.get((host, sport), 0))
                self.last_on_path[host, sport] = when
            damaged = draw() < w.corrupt
            self.note(f"from {host}: arrives at {when / US:.3f}{' damaged' * damaged}{' (copy)' * copy}", frame)
            self._schedule(when, self._damage(frame) if damaged else frame)
        if w.replay:
            self._replay(frame)

    def _replay(self, frame: bytes) -> None:
        """Remembers a frame for ever, perhaps, and perhaps lets an earlier one come again."""
        if len(self.history) < HISTORY:
            self.history.append(frame)
        elif (place := self.random.randrange(self.frames)) < HISTORY:  # Algorithm R
            self.history[place] = frame
        if self.random.random() < self.weather.replay:
            again = self.random.choice(self.history)
            self.note("again", again)
            self._schedule(self.now + self.random.randrange(30 * US), again)

    def _schedule(self, when: int, frame: bytes) -> None:
        self.order += 1
        heapq.heappush(self.events, (when, self.order, 0, frame))

    def _damage(self, frame: bytes) -> bytes:
        """Flips a few bits, or swaps two 16-bit words after UDP, which the UDP checksum cannot notice."""
        damaged = bytearray(frame)
        if self.random.random() < 0.5:
            for _ in range(self.random.randint(1, 3)):
                damaged[self.random.randrange(14, len(frame))] ^= 1 << self.random.randrange(8)
        else:
            a, b = (_udp(frame) + 8 + 2 * self.random.randrange((len(frame) - _udp(frame) - 8) // 2) for _ in "ab")
            damaged[a : a + 2], damaged[b : b + 2] = damaged[b : b + 2], damaged[a : a + 2]
        return bytes(damaged)

    def _arrive(self, _: int, frame: bytes) -> None:
        host = self.host_of.get(frame[38:54])
        if host is not None:
            self.deliver(host, frame)

    def deliver(self, host: int, frame: bytes) -> None:
        """Hands a frame to a host, at an odd offset of a dirty buffer."""
        self.buf[:] = 0xA5
        self.buf[7 : 7 + len(frame)] = np.frombuffer(frame, np.uint8)
        receive(self.hs, host, self.buf, 7, len(frame), self.now)

    def note(self, text: str, frame: bytes | None = None) -> None:
        """Adds a line to the schedule: of a frame, or of something else."""
        self.log.append((self.now, text, frame))


def _udp(frame: bytes) -> int:
    at, proto = (62, frame[54]) if frame[20] == 0 else (54, frame[20])
    return at + 40 * (proto == 41)


def through_switches(frame: bytes) -> bytes:
    """What the switches make of a uSID list by the time it ends: block and last uSID."""
    return frame[:38] + _at_the_end(frame[38:54]) + frame[54:]


@lru_cache
def _at_the_end(address: bytes) -> bytes:
    if int.from_bytes(address[:4], "big") != USID_BLOCK:
        return address
    usids = [int.from_bytes(address[k : k + 2], "big") for k in range(4, 16, 2)]
    return _address(*to_words(final_address([u for u in usids if u])))


def _address(high: int, low: int) -> bytes:
    return high.to_bytes(8, "big", signed=True) + low.to_bytes(8, "big", signed=True)


def add_delay(frame: bytes, ticks: int) -> bytes:
    """Adds to the Transit Measurement option, saturating, if there is one."""
    if frame[20] != 0 or ticks == 0:
        return frame
    total = min(int.from_bytes(frame[58:62], "big") + ticks, 0xFFFFFFFF)
    return frame[:58] + total.to_bytes(4, "big") + frame[62:]


def mark(frame: bytes) -> bytes:
    """Sets CE if the frame is ECN capable."""
    return frame[:15] + bytes([frame[15] | 0x30]) + frame[16:] if frame[15] & 0x30 else frame


def describe(frame: bytes) -> str:
    """One line about a frame."""
    try:
        f = decode(through_switches(frame))
    except DetourError as error:
        return str(error)
    detail = {
        "data": lambda: f"psn {f['psn']} #{f['count']} {f['length']} B",
        "ack": lambda: f"{f['syndrome']:#x} cum {f['psn']} for {f['trigger']} #{f['count']} map {f['bitmap']:x}",
        "ptm": lambda: f"seq {f['psn']} cand {f['cand']}",
        "ptr": lambda: f"seq {f['psn']} cand {f['cand']} delay {f['reflected']}",
    }.get(f["kind"], lambda: "")
    return f"{f['kind']} sport {f['sport']:#06x} {detail()}{' CE' * f['ce']}"


@dataclass
class Pair:
    """Two hosts with a connected QP each: `a` writes into the memory of `b`."""

    hs: Hosts
    device: Device
    a: Context
    b: Context
    pd_a: PD
    pd_b: PD
    cq_a: CQ
    cq_b: CQ
    mr_a: MR
    mr_b: MR
    qp_a: QP
    qp_b: QP

    def write(self, length: int, number: int = 1) -> None:
        """Posts a write of the first so many bytes of the region."""
        self.qp_a.post_send(SendWR(number, self.mr_a.sge(0, length), self.mr_b.addr, self.mr_b.rkey))


def make_pair(
    *,
    memory: int = 1 << 18,
    config: HostConfig | None = None,
    seed: int = 0,
    attr_a: Any = None,
    attr_b: Any = None,
    connect: dict[str, Any] | None = None,
    n_qps: int = 16,
    **sizes: Any,
) -> Pair:
    """Hosts 0 and 1 with a region of `memory` bytes each, the middle of an arena, and connected QPs."""
    hs = make_hosts(2, n_qps, 2 * memory + 8192, config=config, seed=seed, **sizes)
    set_host(hs, 0, "fd00:0:0:1::1", usid=final_address([0x8000]))
    set_host(hs, 1, "fd00:0:1:2::1", usid=final_address([0x8001]))
    device = Device(hs)
    a, b = Context(device, 0), Context(device, 1)
    pd_a, pd_b, cq_a, cq_b = PD(a), PD(b), CQ(a), CQ(b)
    device.allocate(1024)
    mr_a = MR(pd_a, memory)
    device.allocate(1024)
    mr_b = MR(pd_b, memory, AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE)
    qp_a, qp_b = QP(pd_a, cq_a, attr_a), QP(pd_b, cq_b, attr_b)
    qp_a.connect(qp_b.endpoint, **(connect or {}))
    qp_b.connect(qp_a.endpoint)
    mr_a.write(random.Random(seed).randbytes(memory))
    return Pair(hs, device, a, b, pd_a, pd_b, cq_a, cq_b, mr_a, mr_b, qp_a, qp_b)


def ended(pair: Pair, net: Network, **limits: int) -> list[WCStatus]:
    """Runs until something that was posted is complete: how that ended."""
    status: list[WCStatus] = []
    assert net.run(lambda: bool(status.extend(wc.status for wc in pair.cq_a.poll()) or status), **limits), (
        net.schedule()
    )
    return status


def complete(pair: Pair, net: Network, packets: int) -> dict[str, Any]:
    """Runs until the message that was posted is complete: it succeeded, and so many packets have arrived whole. Returns
    the sender's statistics."""
    assert ended(pair, net) == [WCStatus.SUCCESS], net.schedule()
    assert pair.mr_b.read(packets * 1000) == pair.mr_a.read(packets * 1000)
    return pair.qp_a.stats()


def transfer(pair: Pair, net: Network, packets: int) -> dict[str, Any]:
    """Writes so many whole packets (`complete`)."""
    pair.write(packets * 1000)
    return complete(pair, net, packets)


def check(pair: Pair) -> None:
    """The lists of every QP are what its counters say."""
    hs = pair.hs
    for i in (pair.qp_a.index, pair.qp_b.index):
        q = hs.qp[i]
        assert q["snd_una"] <= q["snd_nxt"] <= q["snd_end"]
        assert q["sq_una"] <= q["sq_end"] <= q["sq_una"] + hs.wqe.shape[1]
        flight = _walk(hs.slot[i], int(q["flight_head"]), int(q["flight_tail"]), 1)
        lost = _walk(hs.slot[i], int(q["lost_head"]), int(q["lost_tail"]), 2)
        assert len(lost) == q["n_lost"]
        current = [k for k in flight if hs.slot[i, k]["epoch"] == q["epoch"]]
        assert len(current) == q["inflight"]
        assert q["epoch_head"] == (current[0] if current else -1)
        order = [int(hs.slot[i, k]["txn"]) for k in flight]
        assert order == sorted(order)
        assert not set(flight) & set(lost)
        idle = q["snd_una"] == q["snd_end"] or q["state"] != QPState.RTS
        assert idle or q["active"] or q["heap_pos"] >= 0, "work to do and nothing that would wake the QP"
        assert q["heap_pos"] < 0 or hs.heap[q["host"], q["heap_pos"]]["who"] == i
        assert q["rcv_early"] == np.count_nonzero(hs.arrival[i]["flags"])
    for cq in (pair.cq_a, pair.cq_b):
        assert 0 <= hs.cq[cq.index]["reserved"] <= hs.cqe.shape[1]


def _walk(slots: np.ndarray, head: int, tail: int, state: int) -> list[int]:
    """Indices on a list, which must end where its tail is."""
    indices: list[int] = []
    index = head
    while index != -1:
        assert slots[index]["state"] == state
        indices.append(index)
        assert len(indices) <= len(slots)
        index = int(slots[index]["next"])
    assert (indices[-1] if indices else -1) == tail
    return indices


def losing(data: Container[tuple[int, int]] = (), naks: Container[int] = ()) -> Callable[[int, bytes], bytes | None]:
    """Filter that loses data packets given as (PSN, transmission count), and go-back-N's NAKs given by their PSN."""

    def keep(_: int, frame: bytes) -> bytes | None:
        f = decode(through_switches(frame))
        if f["kind"] == "data" and (f["psn"], f["count"]) in data:
            return None
        nak = f["kind"] == "ack" and f["syndrome"] == SYNDROME_SEQUENCE
        return None if nak and f["psn"] in naks else frame

    return keep


def check_cost(
    packets: int, lost: dict[str, Any], expected: dict[str, int], took: tuple[int, int], **ends: Any
) -> None:
    """What the loss of frames (`losing`) costs: what is counted at both ends, and how long it takes, us."""
    pair = make_pair(**ends)
    net = Network(pair.hs, Weather(), filter=losing(**lost))
    stats, received = transfer(pair, net, packets), pair.qp_b.stats()
    assert received["rx_delivered"] == received["rx_bytes"] == packets * 1000, "every byte once"
    counted = stats | {name: value for name, value in received.items() if name.startswith("rx_")}
    expected = {"rtos": 0} | expected
    assert {name: counted[name] for name in expected} == expected, net.schedule()
    assert took[0] * US < net.now < took[1] * US
    assert lost or net.frames == 2 * packets, "one ACK for every data packet"
