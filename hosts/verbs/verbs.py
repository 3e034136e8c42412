# SPDX-License-Identifier: Apache-2.0
"""Verbs: RDMA WRITE from Python, with the names of rdma-core's pyverbs.

    device = Device(hs)                                # all hosts of a process share one
    context = Context(device, host)
    pd, cq = PD(context), CQ(context)
    mr = MR(pd, 1 << 20, AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE)
    qp = QP(pd, cq)
    qp.connect(remote_endpoint, path=Path(sport=0x8001))   # remote_endpoint: the other side's qp.endpoint
    qp.post_send(SendWR(1, mr.sge(), remote_addr=addr, rkey=rkey))
    cq.poll()                                          # [WC(wr_id=1, status=WCStatus.SUCCESS, ...)]

Differences from InfiniBand: the only operation is RDMA WRITE, with or without immediate; an immediate needs no
posted receive; a QP goes from RESET to RTS in one step. A virtual address is an offset in the arena.

Methods that change state run through `Device.call`; with an engine that is `Network.call`, with a socket driver
`Driver.call`, so they may be used from any thread. Polling takes no lock: one thread polls a CQ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, TypeVar

import numpy as np

from detour.base.dataplane import MAX_FLOW_LABEL
from detour.base.errors import DetourError
from detour.hosts import nic, rdma, state
from detour.hosts.cc.plugin import CongestionAlgorithm
from detour.hosts.frames.addresses import final_address, to_text, to_words
from detour.hosts.paths.plugin import PathScheme
from detour.hosts.records import HOST_COUNTERS, QP_COUNTERS, QueuePair
from detour.hosts.state import MAX_TIME, NIL, Hosts, generations, next_key, qp_numbers
from detour.hosts.verbs import algorithms, queues
from detour.topo.address import ipv6_text, usid_address

T = TypeVar("T")


class AccessFlag(IntFlag):
    """What a memory region allows (ibv_access_flags)."""

    LOCAL_WRITE = state.ACCESS_LOCAL_WRITE
    REMOTE_WRITE = state.ACCESS_REMOTE_WRITE


class WCStatus(IntEnum):
    """ibv_wc_status"""

    SUCCESS = state.WC_SUCCESS
    LOC_PROT_ERR = state.WC_LOC_PROT_ERR
    WR_FLUSH_ERR = state.WC_WR_FLUSH_ERR
    REM_INV_REQ_ERR = state.WC_REM_INV_REQ_ERR
    REM_ACCESS_ERR = state.WC_REM_ACCESS_ERR
    REM_OP_ERR = state.WC_REM_OP_ERR
    RETRY_EXC_ERR = state.WC_RETRY_EXC_ERR


class WCOpcode(IntEnum):
    """ibv_wc_opcode"""

    RDMA_WRITE = state.WC_RDMA_WRITE
    RECV_RDMA_WITH_IMM = state.WC_RECV_RDMA_WITH_IMM


class QPState(IntEnum):
    """ibv_qp_state"""

    RESET = state.QPS_RESET
    RTS = state.QPS_RTS
    ERR = state.QPS_ERR


class CongestionControl(IntEnum):
    """algorithms of `detour.hosts.cc`"""

    FIXED = 0
    DCTCP = 1
    DCQCN = 2


class Transport(IntEnum):
    """how losses are found and repaired: selective repeat (LERP), or RoCEv2's go-back-N"""

    LERP = state.TR_LERP
    GO_BACK_N = state.TR_GBN


class PathChoice(IntEnum):
    """who chooses among candidate paths: the built-in schemes of `detour.hosts.paths`"""

    FIXED = 0
    """nobody: the first one is taken"""
    PROBING = 1
    """the sender probes, and leaves its path for a better one (non-shortest-path paper, section III)"""
    REACTING = 2
    """the sender leaves a path that is congested for the next (SRv6 path placement paper, section III)"""
    BENDING = 3
    """the sender leaves a path at random when enough of its packets were marked (FlowBender, PLB)"""
    SPRAYING = 4
    """every packet has a path of its own, chosen by the delays that answers bring (SprayLERP)"""
    OBLIVIOUS = 5
    """every packet has a random path"""
    REPS = 6
    """every packet has a path that answered without a mark, or a random one (arXiv 2407.21625)"""
    SWAPPING = 7
    """packets take turns on a set of paths, of which a mark swaps one (as in MRC, arXiv 2605.04333)"""
    SCOUTING = 8
    """packets take the shortest path that answered without marks (Spritz-Scout, arXiv 2602.19567)"""
    RECYCLING = 9
    """every packet has a path that answered without a mark, or one drawn by its length (Spritz-Spray)"""


@dataclass(frozen=True)
class Path:
    """A way through the fabric: UDP source port (most significant bit: non-shortest) and, optionally, one to six
    uSIDs of which the last is the destination host's."""

    sport: int = 0
    usids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.sport <= 0xFFFF:
            raise DetourError(f"source port {self.sport} must be 0 to 65535")
        if self.usids:
            usid_address(self.usids)

    def __str__(self) -> str:
        return f"usid:{ipv6_text(usid_address(self.usids))}" if self.usids else f"sport:{self.sport:#06x}"


@dataclass(frozen=True)
class Endpoint:
    """What two QPs must tell each other before they can talk; plain numbers and text, for JSON."""

    address: str
    qpn: int
    psn: int
    window: int
    transport: int = Transport.LERP
    reordering: bool = False


@dataclass(frozen=True)
class SGE:
    """Local buffer of a work request."""

    addr: int
    length: int
    lkey: int


@dataclass(frozen=True)
class SendWR:
    """An RDMA WRITE of the buffer `sge` to `remote_addr`; `imm_data`: 32 bits for the other side's CQ."""

    wr_id: int
    sge: SGE
    remote_addr: int
    rkey: int
    imm_data: int | None = None
    signaled: bool = True


@dataclass(frozen=True)
class WC:
    """Work completion. `byte_len` is the length of the message; `imm_data` only with RECV_RDMA_WITH_IMM, `posted_ps`
    only with RDMA_WRITE; times on the clock of whoever runs the host."""

    wr_id: int
    status: WCStatus
    opcode: WCOpcode
    byte_len: int
    qp_num: int
    imm_data: int | None = None
    posted_ps: int = 0
    done_ps: int = 0


class Device:
    """The hosts of a process: who runs them, and what of arena and tables is free."""

    def __init__(
        self,
        hs: Hosts,
        call: Callable[[Callable[[], Any]], Any] | None = None,
        kick: Callable[[int], None] | None = None,
        now: Callable[[], int] | None = None,
    ) -> None:
        """`call(function)` runs a function where `hs` may be changed and returns its result (default: at once, in
        this thread). `kick(host)` says that a host may have something to send. `now()` is the hosts' time in ps
        (default: that of the last call of any of them)."""
        self.hs = hs
        self._call = call
        self._kick = kick
        self._now = now or (lambda: int(hs.host["now"].max()))
        self._free = [(0, int(hs.cfg[0]["arena_bytes"]))]
        self._free_qps = deque(range(len(hs.qp)))
        self._resting: dict[int, int] = {}
        self._free_mrs = deque(range(len(hs.mr)))
        self._free_cqs = deque(range(len(hs.cq)))
        self.rooms: dict[int, tuple[PD, CQ, MR]] = {}
        """what `bulk` made, by host"""

    def call(self, function: Callable[[], T]) -> T:
        """Runs `function` where state may be changed."""
        return function() if self._call is None else self._call(function)

    def kick(self, host: int) -> None:
        """Host `host` may have something to send."""
        if self._kick is not None:
            self._kick(host)

    def allocate(self, length: int) -> int:
        """Address of `length` free bytes of the arena, on a 64-byte boundary."""
        size = -(-length // 64) * 64
        for place, (start, room) in enumerate(self._free):
            if room >= size:
                self._free[place : place + 1] = [(start + size, room - size)] if room > size else []
                return start
        room = sum(room for _, room in self._free)
        raise DetourError(f"no {length} bytes in one piece in the arena of host memory ({room} bytes are free)")

    def release(self, start: int, length: int) -> None:
        """Gives a range of the arena back."""
        self._free.append((start, -(-length // 64) * 64))
        merged: list[tuple[int, int]] = []
        for begin, room in sorted(self._free):
            if merged and merged[-1][0] + merged[-1][1] == begin:
                merged[-1] = (merged[-1][0], merged[-1][1] + room)
            else:
                merged.append((begin, room))
        self._free = merged

    def take(self, what: str) -> int:
        """Index of a free row of the table `qp`, `mr` or `cq`."""
        free = {"qp": self._free_qps, "mr": self._free_mrs, "cq": self._free_cqs}[what]
        resting = 0
        while resting < len(free):
            index = free.popleft()
            if what != "qp" or self._is_rested(index):
                return index
            free.append(index)
            resting += 1
        raise DetourError(
            f"all {len(getattr(self.hs, what))} rows of the table {what} are in use; make_hosts "
            f"takes the size as n_{what}s"
            + (f" ({resting} have used up their numbers and rest for frame_life_ps)" if resting else "")
        )

    def give(self, what: str, index: int) -> None:
        """The row is free again; it is used as late as possible. A QP's row gets its next number, and after its last
        one rests until no frame can be under way any more that names its first ones."""
        if what == "qp":
            following = int(self.hs.qp[index]["generation"]) + 1
            self.call(lambda: _assign(self.hs.qp[index], {"generation": following % generations(self.hs)}))
            if following == generations(self.hs):
                self._resting[index] = self._now() + int(self.hs.cfg[0]["frame_life_ps"])
        {"qp": self._free_qps, "mr": self._free_mrs, "cq": self._free_cqs}[what].append(index)

    def _is_rested(self, row: int) -> bool:
        if self._resting.get(row, 0) > self._now():
            return False
        self._resting.pop(row, None)
        return True


class Context:
    """One host of a device."""

    def __init__(self, device: Device, host: int) -> None:
        if not 0 <= host < len(device.hs.host):
            raise DetourError(f"host {host} must be 0 to {len(device.hs.host) - 1}")
        self.device = device
        self.hs = device.hs
        self.host = host

    @property
    def address(self) -> str:
        """IPv6 address of the host."""
        h = self.hs.host[self.host]
        return to_text(h["addr_hi"], h["addr_lo"])

    def random(self, n: int) -> int:
        """Number below `n` from the host's generator."""
        return self.device.call(lambda: rdma.random_below(self.hs.listing, self.host, n))

    def stats(self) -> dict[str, int]:
        """The host's counters."""
        h = self.hs.host[self.host]
        return {name: int(h[name]) for name in HOST_COUNTERS}


class PD:
    """Protection domain: QPs reach memory regions of their own domain only."""

    _last = 0

    def __init__(self, context: Context) -> None:
        PD._last += 1
        self.context = context
        self.number = PD._last


class MR:
    """Memory region: `length` bytes of the arena, taken from what is free or, with `addr`, where the caller says."""

    def __init__(
        self, pd: PD, length: int, access: AccessFlag = AccessFlag.LOCAL_WRITE, addr: int | None = None
    ) -> None:
        device, arena = pd.context.device, int(pd.context.hs.cfg[0]["arena_bytes"])
        if length < 1:
            raise DetourError(f"a memory region of {length} bytes is too short; it has at least 1")
        if addr is not None and not 0 <= addr <= arena - length:
            raise DetourError(f"memory region {addr:#x}+{length} is outside the arena of {arena} bytes")
        if access & AccessFlag.REMOTE_WRITE and not access & AccessFlag.LOCAL_WRITE:
            raise DetourError("a memory region with REMOTE_WRITE must have LOCAL_WRITE too")
        self.pd = pd
        self.length = length
        self._index = device.take("mr")
        self._own = addr is None
        try:
            self.addr = device.allocate(length) if addr is None else addr
        except DetourError:
            device.give("mr", self._index)
            raise
        values = {
            "used": 1,
            "host": pd.context.host,
            "pd": pd.number,
            "base": self.addr,
            "length": length,
            "access": int(access),
        }

        def register() -> int:
            hs = pd.context.hs
            key = next_key(hs, self._index, rdma.random_below(hs.listing, pd.context.host, 256))
            _assign(pd.context.hs.mr[self._index], values | {"key": key})
            return key

        self.rkey = self.lkey = device.call(register)

    def sge(self, offset: int = 0, length: int | None = None) -> SGE:
        """Part of the region as the buffer of a work request."""
        return SGE(self.addr + offset, self.length - offset if length is None else length, self.lkey)

    def _range(self, offset: int, length: int) -> Any:
        if offset < 0 or length < 0 or offset + length > self.length:
            raise DetourError(f"bytes {offset}..{offset + length} are outside the region of {self.length} bytes")
        if not len(self.pd.context.hs.memory):
            raise DetourError("hosts that elide payload have no bytes to read or write (HostConfig.elide_payload)")
        return self.pd.context.hs.memory[self.addr + offset : self.addr + offset + length]

    def read(self, length: int | None = None, offset: int = 0) -> bytes:
        """Bytes of the region."""
        return self._range(offset, self.length - offset if length is None else length).tobytes()

    def write(self, data: bytes | bytearray | memoryview, offset: int = 0) -> None:
        """Writes bytes into the region."""
        self._range(offset, len(data))[:] = np.frombuffer(data, np.uint8)

    def close(self) -> None:
        """Deregisters the region and frees its memory. May be called twice."""
        if self._index < 0:
            return
        device = self.pd.context.device
        device.call(lambda: _assign(self.pd.context.hs.mr[self._index], {"used": 0}))
        device.give("mr", self._index)
        if self._own:
            device.release(self.addr, self.length)
        self._index = -1


class CQ:
    """Completion queue."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.index = context.device.take("cq")
        values = {"used": 1, "host": context.host, "head": 0, "tail": 0, "reserved": 0}
        context.device.call(lambda: _assign(context.hs.cq[self.index], values))

    def poll(self, num_entries: int = 16) -> list[WC]:
        """Takes up to `num_entries` completions (ibv_poll_cq)."""
        hs = self.context.hs
        c = hs.cq[self.index]
        head = int(c["head"])
        taken: list[WC] = []
        for at in range(head, min(int(c["tail"]), head + num_entries)):
            e = hs.cqe[self.index, at & (hs.cqe.shape[1] - 1)]
            imm = int(e["imm"]) if e["flags"] & state.WC_WITH_IMM else None
            taken.append(
                WC(
                    int(e["wr_id"]),
                    WCStatus(int(e["status"])),
                    WCOpcode(int(e["opcode"])),
                    int(e["length"]),
                    int(e["qpn"]),
                    imm,
                    int(e["posted"]),
                    int(e["done"]),
                )
            )
        c["head"] = head + len(taken)
        return taken

    def close(self) -> None:
        """Frees the queue. May be called twice. Its QPs must be gone."""
        if self.index >= 0:
            self.context.device.call(lambda: _assign(self.context.hs.cq[self.index], {"used": 0}))
            self.context.device.give("cq", self.index)
            self.index = -1


@dataclass
class QPInitAttr:
    """Optional attributes of a new QP; both ends need the same transport, reordering and congestion control.

    `psn`: its first PSN (default: random). `reordering`: the receiver holds what comes early instead of dropping it
    (go-back-N only; LERP always does). `initial_cwnd`: packets; with DCQCN a bound that stays (default: the room for
    what is in flight).

    `timeout`, `retry_cnt`: as in `ibv_qp_attr`. The QP fails (`RETRY_EXC_ERR`) when nothing has come back for
    4.096 us * 2^timeout * (retry_cnt + 1), timeout 0 to 31 (0: never; 14, 67 ms, if only the other one is given),
    retry_cnt 0 to 7 (7). How often something is sent again within that time is the transport's affair (RFC 6298).
    Neither: `HostConfig.retry_ps`."""

    recv_cq: CQ | None = None
    psn: int | None = None
    congestion_control: CongestionControl | CongestionAlgorithm = CongestionControl.DCTCP
    transport: Transport = Transport.LERP
    reordering: bool = False
    telemetry: bool = True
    initial_cwnd: float | None = None
    timeout: int | None = None
    retry_cnt: int | None = None

    @property
    def retry_ps(self) -> int:
        """Time without progress after which the QP fails, ps; 0: the hosts' parameter.

        Raises:
            DetourError: a value that verbs do not have.
        """
        if self.timeout is None and self.retry_cnt is None:
            return 0
        timeout = 14 if self.timeout is None else self.timeout
        retries = 7 if self.retry_cnt is None else self.retry_cnt
        if not 0 <= timeout <= 31 or not 0 <= retries <= 7:
            raise DetourError(f"timeout {timeout} must be 0 to 31 and retry_cnt {retries} 0 to 7")
        return MAX_TIME if timeout == 0 else (4_096_000 << timeout) * (retries + 1)


class QP:
    """Reliable connection that runs LERP or go-back-N."""

    def __init__(self, pd: PD, cq: CQ, attr: QPInitAttr | None = None) -> None:
        """`cq` gets completions of sends and, unless `attr` names another, of immediates."""
        self.pd = pd
        self.context = pd.context
        self.attr = attr or QPInitAttr()
        self.cq = cq
        self.recv_cq = self.attr.recv_cq or cq
        for queue in (self.cq, self.recv_cq):
            if queue.context.host != self.context.host:
                raise DetourError(f"a QP of host {self.context.host} cannot use a CQ of host {queue.context.host}")
        if self.attr.psn is not None and not 0 <= self.attr.psn < 1 << 24:
            raise DetourError(f"PSN {self.attr.psn} must be 0 to {(1 << 24) - 1}")
        if self.attr.reordering and self.attr.transport is not Transport.GO_BACK_N:
            raise DetourError("a reordering receiver is for go-back-N; LERP takes packets in any order as it is")
        self._retry_ps = self.attr.retry_ps  # refused before a row is taken
        self._scheme = self.path_scheme = _fixed()
        self.index = self.context.device.take("qp")
        self.psn = self.context.device.call(self._reset)

    # -- life ---------------------------------------------------------------------------------------------

    def _reset(self) -> int:
        """Prepares the row; returns the first PSN."""
        hs, q = self.context.hs, self._row()
        refresh(hs, self.index)
        _assign(
            q,
            {
                "host": self.context.host,
                "pd": self.pd.number,
                "send_cq": self.cq.index,
                "recv_cq": self.recv_cq.index,
                "telemetry": int(self.attr.telemetry),
                "transport": int(self.attr.transport),
                "in_order": int(self.attr.transport is Transport.GO_BACK_N and not self.attr.reordering),
                "retry_ps": self._retry_ps,
            },
        )
        psn = self.attr.psn
        if psn is None:
            psn = rdma.random_below(hs.listing, self.context.host, 1 << 24)
        q["snd_una"] = q["snd_nxt"] = q["snd_end"] = psn
        return psn

    @property
    def endpoint(self) -> Endpoint:
        """What the other side needs for `connect`."""
        window = self.context.hs.slot.shape[1]
        kind = int(self.attr.transport), self.attr.reordering
        return Endpoint(self.context.address, self.qp_num, self.psn, window, *kind)

    @property
    def qp_num(self) -> int:
        """Number of the QP on the wire, which tells it from those that used its row before."""
        return int(self._row()["qpn"])

    @property
    def state(self) -> QPState:
        """RESET, RTS or ERR."""
        return QPState(int(self._row()["state"]))

    def _row(self) -> Any:
        if self.index < 0:
            raise DetourError("this QP is closed")
        return self.context.hs.qp[self.index]

    def connect(
        self,
        remote: Endpoint,
        path: Path | None = None,
        candidates: Sequence[Path] | None = None,
        *,
        react: bool = False,
        choice: PathChoice | PathScheme | None = None,
    ) -> None:
        """Connects to the QP behind `remote` (RESET to RTS). `path`: all packets take this one. `candidates`: the
        sender chooses among these by itself, beginning with the first. Neither: one random shortest path. `choice`: how
        it chooses, by probing if nothing is said; `react`: short for `PathChoice.REACTING`."""
        hs = self.context.hs
        q = self._row()
        if q["state"] != state.QPS_RESET:
            raise DetourError(f"QP {self.qp_num:#x} is {self.state.name}; only one in RESET can be connected")
        if remote.window != hs.slot.shape[1]:
            raise DetourError(
                f"the peer's window is {remote.window} packets and ours {hs.slot.shape[1]}; "
                "make_hosts must get the same on both sides"
            )
        if (remote.transport, remote.reordering) != (self.attr.transport, self.attr.reordering):
            raise DetourError("the peer's QP has another transport or receiver; both ends need the same")
        if path is not None and candidates is not None:
            raise DetourError("connect takes a path or candidates, not both")
        peer_hi, peer_lo = to_words(remote.address)
        if choice is None:
            choice = PathChoice.REACTING if react else PathChoice.PROBING
        scheme = algorithms.scheme_of(choice)
        check_scheme(scheme, self.attr.transport)
        some = [path] if path else list(candidates or [])
        if path is None and candidates is None:
            some = [Path(self.context.random(1 << 15))]
        self._check_candidates(some)
        self._scheme = scheme

        def change() -> None:
            _assign(q, {"peer_qpn": remote.qpn, "peer_hi": peer_hi, "peer_lo": peer_lo, "rcv_nxt": remote.psn})
            self._set_candidates(some, _fixed() if candidates is None else scheme)
            row = np.array([self.index])
            control = algorithms.algorithm_of(self.attr.congestion_control)
            algorithms.give(hs, row, control)
            window = self.attr.initial_cwnd or algorithms.initial_window(hs, control)
            rdma.begin(hs.listing, row, float(window))

        self.context.device.call(change)

    def _check_candidates(self, some: list[Path]) -> None:
        limit = self.context.hs.candidate.shape[1]
        if not 1 <= len(some) <= limit:
            raise DetourError(f"a QP has 1 to {limit} candidate paths; {len(some)} were given")

    def _set_candidates(self, some: list[Path], scheme: PathScheme) -> None:
        """The QP's list of candidates, of which nothing is known yet. (PTMs of an earlier list are not sent.)"""
        hs = self.context.hs
        self._withdraw("ptm")
        if scheme.sprays:
            some = sorted(some, key=_is_detour)
        for place, path in enumerate(some):
            dst = to_words(usid_address(path.usids)) if path.usids else (0, 0)
            final = to_words(final_address(path.usids))[0] if path.usids else 0
            # sport, dst, final address, then what is known of the path: nothing
            hs.candidate[self.index, place] = (path.sport, *dst, final, NIL, 0, NIL, NIL, 0, NIL, NIL, 0, 0, 0, 0, 0)
        q = self._row()
        _assign(
            q,
            {
                "n_cand": len(some),
                "n_short": sum(not _is_detour(path) for path in some),
            }
            | {name: _FRESH[name] for name in _OF_PATHS.split()},
        )
        algorithms.give_paths(hs, np.array([self.index]), scheme)
        self.path_scheme = scheme

    def set_path(self, path: Path | None = None, candidates: Sequence[Path] | None = None, now_ps: int = 0) -> None:
        """Takes another path, or other candidates, from the next packet on, in the middle of the traffic. The sender
        chooses among candidates as `connect` was told. Packets under way are not lost by this (a QP that sprays sends
        them again); the new path begins with slow start. Starts the statistics per path anew."""
        if (path is None) == (candidates is None):
            raise DetourError("set_path takes either a path or candidates")
        some = [path] if path else list(candidates or [])
        self._check_candidates(some)
        scheme = _fixed() if path else self._scheme

        def change() -> None:
            q = self._row()
            host_now = int(self.context.hs.host[self.context.host]["now"])
            now = max(int(q["last_progress"]), int(q["last_sent"]), host_now, now_ps)
            if q["sprays"] or scheme.sprays:
                rdma.abandon(self.context.hs.listing, self.index)
            self._set_candidates(some, scheme)
            if q["state"] == state.QPS_RTS:
                rdma.move(self.context.hs.listing, self.index, 0, now)

        self.context.device.call(change)
        self.context.device.kick(self.context.host)

    def set_flow_label(self, label: int) -> None:
        """IPv6 flow label of data packets from now on (`flow_label` of libibverbs' `ibv_global_route`); 0: none.
        Whatever path they take, it stays the same on the way."""
        if not 0 <= label <= MAX_FLOW_LABEL:
            raise DetourError(f"flow label {label} must be 0 to {MAX_FLOW_LABEL}; the bits above belong to switches")
        self.context.device.call(lambda: _assign(self._row(), {"flow_label": label}))

    def probe(self) -> None:
        """Sends a PTM on every candidate path, whether there is traffic or not."""
        self._row()
        self.context.device.call(lambda: rdma.probe_all(self.context.hs.listing, self.index))
        self.context.device.kick(self.context.host)

    def probed(self) -> list[int | None]:
        """Queuing delay in ticks that the last probe of every candidate path brought back; None: not yet."""
        rows = self.context.hs.candidate[self.index, : int(self._row()["n_cand"])]
        return [int(row["delay"]) if row["asked"] == NIL and row["delay"] >= 0 else None for row in rows]

    def close(self) -> None:
        """Destroys the QP; outstanding work requests vanish without completion. May be called twice."""
        if self.index < 0:
            return
        self.context.device.call(self._destroy)
        self.context.device.give("qp", self.index)
        self.index = -1

    def _destroy(self) -> None:
        hs, i = self.context.hs, self.index
        q = hs.qp[i]
        rdma.forget(hs.listing, i)
        hs.cq[self.cq.index]["reserved"] -= q["sq_end"] - q["sq_una"]
        if q["rcv_early"]:
            early = np.count_nonzero(hs.arrival["flags"][i] & state.ARRIVED_IMM)
            hs.cq[self.recv_cq.index]["reserved"] -= early
            hs.arrival["flags"][i] = 0
        self._withdraw("ctl", "ptm")
        _assign(q, {"qpn": 0, "state": state.QPS_RESET})

    def _withdraw(self, *rings: str) -> None:
        """What the QP has in these rings of its host is not sent; answers to probes are not its own."""
        hs, host = self.context.hs, self.context.host
        for name in rings:
            ring = getattr(hs, name)[host]
            for at in range(*hs.host[host][name].tolist()):
                m = ring[at & (len(ring) - 1)]
                if m["qp"] == self.index and m["kind"] != nic.CTL_PTR:
                    m["kind"] = nic.CTL_NONE

    @property
    def path_state(self) -> Any:
        """What its path scheme keeps of it: a row of `PathScheme.fields`."""
        return algorithms.state_of(self.context.hs, self.path_scheme)[self.index]

    # -- work ---------------------------------------------------------------------------------------------

    def post_send(self, wr: SendWR, now_ps: int = 0) -> None:
        """Posts an RDMA WRITE. `now_ps`: the time, for `WC.posted_ps` (default: when the host was last looked at).
        Raises `DetourError` if the queue is full, the QP not connected, or the local buffer not inside a region of
        this QP's protection domain."""
        self._row()
        self._check_local(wr.sge)
        if not 0 <= wr.remote_addr < 1 << 63 or not 0 <= wr.rkey < 1 << 32:
            raise DetourError(f"remote address {wr.remote_addr:#x} or rkey {wr.rkey:#x} is out of range")
        flags = (state.WQE_SIGNALED if wr.signaled else 0) | (0 if wr.imm_data is None else state.WQE_IMM)
        hs, i, s, imm = self.context.hs, self.index, wr.sge, (wr.imm_data or 0) & 0xFFFFFFFF
        result = self.context.device.call(
            lambda: rdma.post_write(
                hs.listing, i, wr.wr_id, s.addr, wr.remote_addr, wr.rkey, s.length, flags, imm, now_ps
            )
        )
        if result:
            raise DetourError(f"QP {self.qp_num:#x}: {REFUSALS[int(result)]}")
        self.context.device.kick(self.context.host)

    def _check_local(self, sge: SGE) -> None:
        hs = self.context.hs
        index = (sge.lkey >> 8) & int(hs.cfg[0]["mr_mask"])
        r = hs.mr[index] if 0 <= index < len(hs.mr) else None
        if r is None or not r["used"] or r["key"] != sge.lkey or r["pd"] != self.pd.number:
            raise DetourError(f"lkey {sge.lkey:#x} is no memory region of this QP's protection domain")
        if sge.length < 0 or sge.addr < r["base"] or sge.addr + sge.length > r["base"] + r["length"]:
            raise DetourError(
                f"buffer {sge.addr:#x}+{sge.length} is outside its memory region {int(r['base']):#x}+{int(r['length'])}"
            )

    # -- observation --------------------------------------------------------------------------------------

    @property
    def cwnd(self) -> float:
        """The congestion window, in packets."""
        return float(self._row()["cwnd"])

    def stats(self) -> dict[str, Any]:
        """Counters of both directions; delays in ticks and nanoseconds, `None` if none was measured."""
        hs, q = self.context.hs, self._row()
        result: dict[str, Any] = {name[3:]: int(q[name]) for name in QP_COUNTERS if not name.startswith("st_delay")}
        samples, tick_ns = int(q["st_delay_samples"]), int(hs.cfg[0]["tick_ps"]) / 1000
        ticks = (
            {
                "min": int(q["st_delay_min"]),
                "mean": int(q["st_delay_sum"]) / max(samples, 1),
                "max": int(q["st_delay_max"]),
            }
            if samples
            else None
        )
        result["queuing_delay_ticks"] = ticks
        result["queuing_delay_ns"] = {k: v * tick_ns for k, v in ticks.items()} if ticks else None
        result["paths"] = self._paths()
        result["cwnd"] = self.cwnd
        result["srtt_ns"] = int(q["srtt"]) // 1000
        result["state"] = self.state.name
        return result

    def _paths(self) -> dict[str, int]:
        used: dict[str, int] = {}
        for c in self.context.hs.candidate[self.index, : int(self._row()["n_cand"])]:
            if c["packets"]:
                used[_path_name(c)] = used.get(_path_name(c), 0) + int(c["packets"])
        return used

    @property
    def current_path(self) -> str:
        """The path of the next packet, as `str(Path)` writes it."""
        c = self.context.hs.candidate[self.index, int(self._row()["cand"])]
        return _path_name(c)


_OF_PATHS = "cand delay mark_wait asked_since asked_best silence_due probe_by detours_known"
"""what a QP knows of its paths"""


def _path_name(c: Any) -> str:
    """`str(Path)` of a row of the table of candidates."""
    return f"usid:{to_text(c['dst_hi'], c['dst_lo'])}" if c["dst_hi"] else f"sport:{int(c['sport']):#06x}"


def random_candidates(context: Context, shortest: int, non_shortest: int) -> list[Path]:
    """Candidates with distinct random source ports, those of shortest paths first (section III: the sender needs
    to know nothing about which port leads where)."""
    found: dict[int, None] = {}
    while len(found) < shortest:
        found[context.random(1 << 15)] = None
    while len(found) < shortest + non_shortest:
        found[0x8000 | context.random(1 << 15)] = None
    return [Path(sport) for sport in found]


REFUSALS = {
    queues.NOT_CONNECTED: "it is not connected",
    queues.SEND_QUEUE_FULL: "its send queue is full; poll completions first",
    queues.CQ_FULL: "its completion queue is full; poll it first",
}


def _is_detour(path: Path) -> bool:
    """Whether a path is a non-shortest one, as its source port says."""
    return path.sport >> 15 == 1


def check_scheme(scheme: PathScheme, transport: Transport) -> None:
    """Raises `DetourError` for a transport that cannot have every packet on a path of its own."""
    if scheme.sprays and transport is not Transport.LERP:
        raise DetourError("only LERP can give every packet a path of its own; go-back-N needs one path at a time")


def _fixed() -> PathScheme:
    return algorithms.scheme_of(PathChoice.FIXED)


def _fresh() -> Any:
    """The row of a QP in RESET."""
    q = np.zeros(1, QueuePair.dtype)[0]
    chains = "flight_head flight_tail epoch_head lost_head lost_tail heap_pos active_next"
    _assign(
        q,
        dict.fromkeys(f"{chains} nak_seq rcv_refused delay mark_wait asked_since asked_best".split(), NIL),
    )
    _assign(q, {"state": state.QPS_RESET})
    _assign(q, dict.fromkeys(("path_timer", "cc_timer", "silence_due"), MAX_TIME))
    return q


def _assign(row: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        row[name] = value


_FRESH = _fresh()


def refresh(hs: Hosts, rows: Any) -> None:
    """Rows of the table of QPs (one or an array of them) that were taken are QPs in RESET, each with its number."""
    generation = hs.qp["generation"][rows]
    hs.qp[rows] = _FRESH
    hs.qp["generation"][rows] = generation
    hs.qp["qpn"][rows] = qp_numbers(hs, rows)
