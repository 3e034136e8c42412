# SPDX-License-Identifier: Apache-2.0
"""Queue pairs, and how rows of their table are filled in for one or for many at once (`bulk`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.base.dataplane import MAX_FLOW_LABEL
from detour.base.errors import DetourError
from detour.hosts import nic, rdma, state
from detour.hosts.addresses import list_words, to_text, to_words
from detour.hosts.cc.plugin import CongestionAlgorithm
from detour.hosts.paths import path_scheme
from detour.hosts.paths.plugin import PathScheme
from detour.hosts.records import QP_COUNTERS, Candidate, QueuePair
from detour.hosts.state import MAX_TIME, NIL, Hosts
from detour.hosts.transport import queues, transport
from detour.hosts.transport.plugin import Transport
from detour.hosts.verbs import algorithms
from detour.hosts.verbs.device import CQ, PD, Context, assign, qp_numbers
from detour.hosts.verbs.types import SGE, Endpoint, Path, QPState, SendWR

FIXED_PATH = path_scheme("fixed")
REFUSALS = {
    queues.NOT_CONNECTED: "it is not connected",
    queues.SEND_QUEUE_FULL: "its send queue is full; poll completions first",
    queues.CQ_FULL: "its completion queue is full; poll it first",
}


@dataclass
class QPInitAttr:
    """Optional attributes of a new QP; both ends need the same transport, reordering and congestion control.

    `psn`: its first PSN (default: random). `reordering`: the receiver holds what comes early instead of dropping it
    (go-back-N; with selective ACKs it always does). `initial_cwnd`: packets; with DCQCN a bound that stays (default:
    the room for what is in flight).

    `timeout`, `retry_cnt`: as in `ibv_qp_attr`. The QP fails (`RETRY_EXC_ERR`) when nothing has come back for
    4.096 us * 2^timeout * (retry_cnt + 1), timeout 0 to 31 (0: never; 14, 67 ms, if only the other one is given),
    retry_cnt 0 to 7 (7). How often something is sent again within that time is the transport's affair (RFC 6298).
    Neither: `HostConfig.retry_ps`."""

    recv_cq: CQ | None = None
    psn: int | None = None
    congestion_control: str | CongestionAlgorithm = "dctcp"
    transport: str | Transport = "lerp"
    reordering: bool = False
    telemetry: bool = True
    initial_cwnd: float | None = None
    timeout: int | None = None
    retry_cnt: int | None = None

    @property
    def retry_ps(self) -> int:
        """Time without progress after which the QP fails, ps; 0: the hosts' parameter. Raises DetourError for a value
        that verbs do not have."""
        if self.timeout is None and self.retry_cnt is None:
            return 0
        timeout = 14 if self.timeout is None else self.timeout
        retries = 7 if self.retry_cnt is None else self.retry_cnt
        if not 0 <= timeout <= 31 or not 0 <= retries <= 7:
            raise DetourError(f"timeout {timeout} must be 0 to 31 and retry_cnt {retries} 0 to 7")
        return MAX_TIME if timeout == 0 else (4_096_000 << timeout) * (retries + 1)


class QP:
    """Reliable connection."""

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
        self.transport = transport(self.attr.transport)
        check_receiver(self.transport, self.attr.reordering)
        self._retry_ps = self.attr.retry_ps  # refused before a row is taken
        self._scheme = self.path_scheme = FIXED_PATH
        self.index = self.context.device.take("qp")
        self.psn = self.context.device.call(self._reset)

    # -- life ---------------------------------------------------------------------------------------------

    def _reset(self) -> int:
        """Prepare the row; return the first PSN."""
        hs, attr = self.context.hs, self.attr
        reset(
            hs, self.index, host=self.context.host, pd=self.pd.number, send_cq=self.cq.index,
            recv_cq=self.recv_cq.index, telemetry=attr.telemetry,
            in_order=takes_order(self.transport, attr.reordering), retry_ps=self._retry_ps,
        )  # fmt: skip
        algorithms.give_transport(hs, np.array([self.index]), self.transport)
        q = self._row()
        psn = self.attr.psn
        if psn is None:
            psn = rdma.random_below(hs.listing, self.context.host, 1 << 24)
        q["snd_una"] = q["snd_nxt"] = q["snd_end"] = psn
        return psn

    @property
    def endpoint(self) -> Endpoint:
        """Return the data that the other side needs for `connect`."""
        window = self.context.hs.slot.shape[1]
        kind = self.transport.name, self.attr.reordering
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
        choice: str | PathScheme | None = None,
    ) -> None:
        """Connect to the QP behind `remote` (RESET to RTS). `path`: all packets take this one. `candidates`: the
        sender chooses among these by itself, beginning with the first. Neither: one random shortest path. `choice`: how
        it chooses, by probing if nothing is said; `react`: short for `choice="reacting"`."""
        hs = self.context.hs
        q = self._row()
        if q["state"] != state.QPS_RESET:
            raise DetourError(f"QP {self.qp_num:#x} is {self.state.name}; only one in RESET can be connected")
        if remote.window != hs.slot.shape[1]:
            raise DetourError(
                f"the peer's window is {remote.window} packets and ours {hs.slot.shape[1]}; "
                "give make_hosts the same window on both sides"
            )
        if (remote.transport, remote.reordering) != (self.transport.name, self.attr.reordering):
            raise DetourError("the peer's QP has a different transport or receiver")
        if path is not None and candidates is not None:
            raise DetourError("connect takes a path or candidates, not both")
        peer_hi, peer_lo = to_words(remote.address)
        if choice is None:
            choice = "reacting" if react else "probing"
        scheme = path_scheme(choice)
        check_scheme(scheme, self.transport)
        some = [path] if path else list(candidates or [])
        if path is None and candidates is None:
            some = [Path(self.context.random(1 << 15))]
        self._check_candidates(some)
        self._scheme = scheme

        def change() -> None:
            assign(q, {"peer_qpn": remote.qpn, "peer_hi": peer_hi, "peer_lo": peer_lo, "rcv_nxt": remote.psn})
            self._set_candidates(some, FIXED_PATH if candidates is None else scheme)
            algorithms.start(hs, np.array([self.index]), self.attr.congestion_control, self.attr.initial_cwnd)

        self.context.device.call(change)

    def _check_candidates(self, some: list[Path]) -> None:
        limit = self.context.hs.candidate.shape[1]
        if not 1 <= len(some) <= limit:
            raise DetourError(f"a QP has 1 to {limit} candidate paths; {len(some)} were given")

    def _set_candidates(self, some: list[Path], scheme: PathScheme) -> None:
        """The QP's list of candidates, of which nothing is known yet. (PTMs of an earlier list are not sent.)"""
        self._withdraw("ptm")
        lists = [list_words(path.usids) for path in some]
        ports, weights = np.array([[path.sport for path in some]]), np.array([[path.weight for path in some]])
        set_candidates(self.context.hs, np.array([self.index]), ports, scheme, np.array([lists]), weights)
        assign(self._row(), {name: _FRESH[name] for name in _OF_PATHS.split()})
        algorithms.give_paths(self.context.hs, np.array([self.index]), scheme)
        self.path_scheme = scheme

    def set_path(self, path: Path | None = None, candidates: Sequence[Path] | None = None, now_ps: int = 0) -> None:
        """Take another path, or other candidates, from the next packet on, in the middle of the traffic. The sender
        chooses among candidates as `connect` was told. Packets under way are not lost by this (a QP that sprays sends
        them again); the new path begins with slow start. Start the statistics per path anew."""
        if (path is None) == (candidates is None):
            raise DetourError("set_path takes either a path or candidates")
        some = [path] if path else list(candidates or [])
        self._check_candidates(some)
        scheme = FIXED_PATH if path else self._scheme

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
            raise DetourError(f"flow label {label} must be 0 to {MAX_FLOW_LABEL}; the other bits belong to switches")
        self.context.device.call(lambda: assign(self._row(), {"flow_label": label}))

    def probe(self) -> None:
        """Send a PTM on every candidate path, whether there is traffic or not."""
        self._row()
        self.context.device.call(lambda: rdma.probe_all(self.context.hs.listing, self.index))
        self.context.device.kick(self.context.host)

    def probed(self) -> list[int | None]:
        """Queuing delay in ticks that the last probe of every candidate path brought back; None: not yet."""
        rows = self.context.hs.candidate[self.index, : int(self._row()["n_cand"])]
        return [int(row["delay"]) if row["asked"] == NIL and row["delay"] >= 0 else None for row in rows]

    def close(self) -> None:
        """Destroy the QP; outstanding work requests vanish without completion. May be called twice."""
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
        assign(q, {"qpn": 0, "state": state.QPS_RESET})

    def _withdraw(self, *rings: str) -> None:
        """Remove the QP's entries from these rings of its host, so that they are not sent; answers to probes are not
        its own."""
        hs, host = self.context.hs, self.context.host
        for name in rings:
            ring = getattr(hs, name)[host]
            for at in range(*hs.host[host][name].tolist()):
                m = ring[at & (len(ring) - 1)]
                if m["qp"] == self.index and m["kind"] != nic.CTL_PTR:
                    m["kind"] = nic.CTL_NONE

    @property
    def path_state(self) -> Any:
        """The path scheme's state of this QP: a row of `PathScheme.fields`."""
        return algorithms.state_of(self.context.hs, self.path_scheme)[self.index]

    # -- work ---------------------------------------------------------------------------------------------

    def post_send(self, wr: SendWR, now_ps: int = 0) -> None:
        """Post an RDMA WRITE. `now_ps`: the time, for `WC.posted_ps` (default: when the host was last looked at).
        Raises `DetourError` if the queue is full, the QP not connected, or the local buffer not inside a region of
        this QP's protection domain."""
        self._row()
        self._check_local(wr.sge)
        if not 0 <= wr.remote_addr < 1 << 63 or not 0 <= wr.rkey < 1 << 32:
            raise DetourError(f"remote address {wr.remote_addr:#x} or rkey {wr.rkey:#x} is out of range")
        flags = (state.WQE_SIGNALED if wr.signaled else 0) | (0 if wr.imm_data is None else state.WQE_IMM)
        hs, i, s, imm = self.context.hs, self.index, wr.sge, (wr.imm_data or 0) & 0xFFFFFFFF
        request = (wr.wr_id, s.addr, wr.remote_addr, wr.rkey, s.length, flags, imm, now_ps)
        result = self.context.device.call(lambda: rdma.post_write(hs.listing, i, *request))
        if result:
            raise DetourError(f"QP {self.qp_num:#x}: {REFUSALS[int(result)]}")
        self.context.device.kick(self.context.host)

    def _check_local(self, sge: SGE) -> None:
        hs = self.context.hs
        index = (sge.lkey >> 8) & int(hs.cfg[0]["mr_mask"])
        r = hs.mr[index] if 0 <= index < len(hs.mr) else None
        if r is None or not r["used"] or r["key"] != sge.lkey or r["pd"] != self.pd.number:
            raise DetourError(f"lkey {sge.lkey:#x} is not a memory region of this QP's protection domain")
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
        ticks = None
        if samples:
            mean = int(q["st_delay_sum"]) / samples
            ticks = {"min": int(q["st_delay_min"]), "mean": mean, "max": int(q["st_delay_max"])}
        result["queuing_delay_ticks"] = ticks
        result["queuing_delay_ns"] = {k: v * tick_ns for k, v in ticks.items()} if ticks else None
        result["paths"] = self._paths()
        result["cwnd"] = self.cwnd
        result["srtt_ns"] = int(q["srtt"]) // 1000
        result["state"] = self.state.name
        return result

    def _paths(self) -> dict[str, int]:
        used: Counter[str] = Counter()
        for c in self.context.hs.candidate[self.index, : int(self._row()["n_cand"])]:
            if c["packets"]:
                used[_path_name(c)] += int(c["packets"])
        return dict(used)

    @property
    def current_path(self) -> str:
        """The path of the next packet, as `str(Path)` writes it."""
        c = self.context.hs.candidate[self.index, int(self._row()["cand"])]
        return _path_name(c)


_OF_PATHS = "cand delay mark_wait asked_since asked_best blackhole_due probe_by detours_known"
"""what a QP knows of its paths"""


def _path_name(c: Any) -> str:
    """`str(Path)` of a row of the table of candidates."""
    return f"usid:{to_text(c['dst_hi'], c['dst_lo'])}" if c["dst_hi"] else f"sport:{int(c['sport']):#06x}"


def random_candidates(context: Context, shortest: int, non_shortest: int) -> list[Path]:
    """Candidates with distinct random source ports, those of shortest paths first (section III: the sender needs
    to know nothing about which port leads where)."""
    ports: dict[int, None] = {}
    while len(ports) < shortest:
        ports[context.random(1 << 15)] = None
    while len(ports) < shortest + non_shortest:
        ports[0x8000 | context.random(1 << 15)] = None
    return [Path(sport) for sport in ports]


# -- rows of the table of QPs ---------------------------------------------------------------------------------


def check_receiver(transport: Transport, reordering: bool) -> None:
    """Raise `DetourError` for a transport that has no choice of receiver."""
    if reordering and transport.selective:
        raise DetourError(f"a reordering receiver is for go-back-N; {transport.name} takes packets in any order")


def check_scheme(scheme: PathScheme, transport: Transport) -> None:
    """Raise `DetourError` for a transport that cannot have every packet on a path of its own."""
    if scheme.sprays and not transport.selective:
        raise DetourError(f"{transport.name} needs one path at a time; {scheme.name} gives every packet its own")


def takes_order(transport: Transport, reordering: bool) -> bool:
    """Return whether the receiver drops what comes early."""
    return not (transport.selective or reordering)


def _fresh() -> Any:
    """The row of a QP in RESET."""
    q = np.zeros(1, QueuePair.dtype)[0]
    chains = "flight_head flight_tail epoch_head lost_head lost_tail heap_pos active_next"
    assign(q, dict.fromkeys(f"{chains} nak_seq rcv_refused delay mark_wait asked_since asked_best".split(), NIL))
    assign(q, dict.fromkeys(("path_timer", "cc_timer", "blackhole_due"), MAX_TIME) | {"state": state.QPS_RESET})
    return q


_FRESH = _fresh()


def reset(hs: Hosts, rows: int | Int64Array, **values: Any) -> None:
    """Rows of the table of QPs (one or an array of them) that were taken are QPs in RESET, each with its number and
    with these fields."""
    generation = hs.qp["generation"][rows]
    hs.qp[rows] = _FRESH
    hs.qp["generation"][rows] = generation
    hs.qp["qpn"][rows] = qp_numbers(hs, rows)
    for name, value in values.items():
        hs.qp[name][rows] = value


def set_candidates(
    hs: Hosts, rows: Int64Array, ports: NDArray[Any], scheme: PathScheme, lists: NDArray[Any] | None = None,
    weights: NDArray[Any] | int = 1,
) -> None:  # fmt: skip
    """Candidates of QPs, of which nothing is known yet; of one that sprays shortest paths come first. `ports`: source
    ports, shape (n, candidates); `weights`: the same, or one for all; `lists`: the words of uSID lists (`list_words`),
    one more axis."""
    fresh = np.zeros(ports.shape, Candidate.dtype)
    fresh["sport"], fresh["weight"] = ports, weights
    if lists is not None:
        fresh["dst_hi"], fresh["dst_lo"], fresh["final_hi"] = np.moveaxis(lists, -1, 0)
    for name in ("delay", "asked", "answered", "head", "tail"):
        fresh[name] = NIL
    if scheme.sprays:
        fresh = np.take_along_axis(fresh, np.argsort(ports >> 15, axis=1, kind="stable"), axis=1)
    hs.candidate[rows, : ports.shape[1]] = fresh
    hs.qp["n_cand"][rows] = ports.shape[1]
    hs.qp["n_short"][rows] = (ports >> 15 == 0).sum(axis=1)
