# SPDX-License-Identifier: Apache-2.0
"""Tens of thousands of connections at once, for experiments with elided payload: made, posted to and read as arrays.

    flows = connect_many(device, sources, destinations, transport="gbn", shortest=1, non_shortest=7)
    post_many(flows, 1 << 30)
    ...
    bytes_so_far = counters(hs, flows.receiver)["rx_delivered"]

Every host gets one protection domain, one completion queue and one memory region, which is the whole arena. What
comes of it is the same as with a `verbs.QP` per end.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.hosts import rdma
from detour.hosts.addresses import ended
from detour.hosts.cc import algorithm
from detour.hosts.cc.plugin import CongestionAlgorithm
from detour.hosts.paths import path_scheme
from detour.hosts.paths.plugin import PathScheme
from detour.hosts.records import QP_COUNTERS, CompletionEntry, LanePort, LeasedList, LeasedSet, TaskLane
from detour.hosts.state import FIRST_QPN, NIL, QPS_RTS, Hosts
from detour.hosts.transport import transport as transport_of
from detour.hosts.transport.plugin import Transport
from detour.hosts.verbs import algorithms
from detour.hosts.verbs.device import CQ, MR, PD, Context, Device, qp_numbers
from detour.hosts.verbs.qp import FIXED_PATH, REFUSALS, check_receiver, check_scheme, reset, set_candidates, takes_order
from detour.hosts.verbs.types import AccessFlag


@dataclass(frozen=True)
class Flows:
    """Connections: rows of the table of QPs of both ends, shape (n,), and the keys of the receivers' memory."""

    device: Device
    sender: Int64Array
    receiver: Int64Array
    rkey: Int64Array

    def __len__(self) -> int:
        return len(self.sender)


class PathSets(NamedTuple):
    """Sets of uSID lists without their last uSID, that of a host: of each the first `counts`, of which the first
    `shortest` count as shortest paths."""

    words: Int64Array
    """(sets, candidates, 2) of the address"""
    shift: Int64Array
    """(sets, candidates): by how many bits the last uSID is shifted"""
    weights: Int64Array
    """(sets, candidates), for schemes that have them (`hosts.paths.pathset`)"""
    counts: Int64Array
    shortest: Int64Array

    def lists(self, which: Int64Array, nodes: Int64Array) -> Int64Array:
        """(n, candidates, 2) words of the lists of sets `which`, (n,), that end at `nodes`, (n,)."""
        return ended(self.words[which], self.shift[which], nodes[:, None])


def draw_ports(n: int, shortest: int, non_shortest: int, seed: int) -> NDArray[np.int64]:
    """Candidate source ports, shape (n, shortest + non_shortest): random, distinct in a row, those of shortest paths
    (most significant bit 0) first."""
    if min(shortest, non_shortest) < 0 or max(shortest, non_shortest) > 255 or shortest + non_shortest < 1:
        raise DetourError(f"{shortest} shortest and {non_shortest} non-shortest paths: 1 to 255 candidates are needed")
    random = np.random.default_rng(seed)
    parts = [_distinct(random, n, shortest), 0x8000 | _distinct(random, n, non_shortest)]
    return np.concatenate(parts, axis=1)


def _distinct(random: np.random.Generator, n: int, k: int) -> NDArray[np.int64]:
    """`k` distinct 15-bit numbers in each of `n` rows: drawn, and drawn again where two are equal."""
    drawn = random.integers(0, 1 << 15, (n, k), dtype=np.int64)
    while True:
        order = np.sort(drawn, axis=1)
        again = np.flatnonzero((order[:, 1:] == order[:, :-1]).any(axis=1))
        if not len(again):
            return drawn
        drawn[again] = random.integers(0, 1 << 15, (len(again), k), dtype=np.int64)


def connect_many(
    device: Device,
    sources: Sequence[int] | Int64Array,
    destinations: Sequence[int] | Int64Array,
    *,
    transport: str | Transport = "lerp",
    congestion_control: str | CongestionAlgorithm = "dctcp",
    reordering: bool = False,
    telemetry: bool = True,
    ports: NDArray[Any] | None = None,
    lists: NDArray[Any] | None = None,
    shortest: int = 1,
    non_shortest: int = 0,
    auto: bool | None = None,
    choice: str | PathScheme = "probing",
    initial_cwnd: float | None = None,
    seed: int = 0,
    begin: bool = True,
) -> Flows:
    """Connect host `sources[k]` to host `destinations[k]` for every k, ready for `post_many`.

    `ports`: candidate source ports, shape (n, candidates); by default `draw_ports` draws them. A flow begins with the
    first one; `lists`: words of their uSID lists (`addresses.list_words`), one more axis. If `auto` (default: if there
    are several) the sender chooses among them as `choice` says. The other parameters are those of `verbs.QPInitAttr`.
    `begin` False: plugins have not been told of them yet.
    Raises `DetourError` for what cannot be, and if the tables are too small."""
    hs = device.hs
    src, dst = np.asarray(sources, np.int64), np.asarray(destinations, np.int64)
    if src.ndim != 1 or src.shape != dst.shape:
        raise DetourError(f"sources and destinations have shapes {src.shape} and {dst.shape}; they must be equal, (n,)")
    hosts = np.unique(np.concatenate([src, dst]))
    if len(hosts) and not 0 <= hosts[0] <= hosts[-1] < len(hs.host):
        raise DetourError(f"hosts {hosts[0]} to {hosts[-1]} must be 0 to {len(hs.host) - 1}")
    scheme, sends = path_scheme(choice), transport_of(transport)
    check_receiver(sends, reordering)
    check_scheme(scheme, sends)
    chosen = draw_ports(len(src), shortest, non_shortest, seed) if ports is None else np.asarray(ports, np.int64)
    _check_ports(hs, chosen, len(src))
    for host in hosts.tolist():
        room_of(device, host)
    with ExitStack() as taken:
        numbers: list[int] = []
        taken.callback(lambda: [device.give("qp", row) for row in numbers])
        while len(numbers) < 2 * len(src):
            numbers.append(device.take("qp"))
        taken.pop_all()
    rows = np.array(numbers, np.int64)
    flows = Flows(device, rows[: len(src)], rows[len(src) :], _keys(device, dst))
    values = {"telemetry": telemetry, "in_order": takes_order(sends, reordering)}
    psn = _first_psns(len(src), seed)
    how = scheme if (chosen.shape[1] > 1 if auto is None else auto) else FIXED_PATH

    def change() -> None:
        _fill(device, flows.sender, src, flows.receiver, dst, psn[0], psn[1], values)
        _fill(device, flows.receiver, dst, flows.sender, src, psn[1], psn[0], values)
        algorithms.give_transport(hs, rows, sends)
        set_candidates(hs, flows.sender, chosen, how, lists)
        algorithms.give_paths(hs, flows.sender, how, begin=begin)
        set_candidates(hs, flows.receiver, hs.candidate["sport"][flows.sender, :1], FIXED_PATH)
        algorithms.give_paths(hs, flows.receiver, FIXED_PATH)
        if begin:
            algorithms.start(hs, rows, congestion_control, initial_cwnd)
        else:
            algorithms.give(hs, rows, algorithm(congestion_control))

    device.call(change)
    return flows


def _first_psns(n: int, seed: int) -> Int64Array:
    """(2, n) of senders and receivers."""
    return np.random.default_rng([seed, 1]).integers(0, 1 << 24, (2, n), dtype=np.int64)


MOST_LEASES = (1 << 23) - FIRST_QPN
"""connections: each has two of the 2**24 QP numbers"""


def lease_many(
    device: Device, ends: Int64Array, ports: NDArray[Any], control: CongestionAlgorithm, *, seed: int = 0, **how: Any
) -> None:
    """Lanes of connections between hosts `ends`, (n, 2), that have QPs only while they carry something
    (`hosts.leases`): they take all rows of the table. `ports`, `control`, `seed`, `how`: as for `connect_many`. Raises
    `DetourError`: there are too many, the table is in use, or a plugin's fields have no room in a QP's row."""
    hs = device.hs
    if len(ends) > MOST_LEASES:
        raise DetourError(f"{len(ends)} connections; there are QP numbers for {MOST_LEASES}")
    for host in np.unique(ends).tolist():
        room_of(device, host)
    how |= {"congestion_control": control, "begin": False}
    first = connect_many(device, ends[:1, 0], ends[:1, 1], ports=ports[:1], seed=seed, **how)
    rows = np.concatenate([first.sender, first.receiver])
    if rows.tolist() != [0, 1] or not algorithms.has_room(hs, rows):
        raise DetourError("connections that share QPs need a table of QPs of their own, and plugins with small fields")
    hs.qp["state"][rows] = QPS_RTS
    lane = np.zeros(len(ends), TaskLane.dtype)
    lane["qp"] = lane["receiver"] = lane["head"] = lane["tail"] = NIL
    lane["source"], lane["destination"] = ends[:, 0], ends[:, 1]
    lane["rkey"] = _keys(device, ends[:, 1])
    lane["snd_nxt"] = lane["rcv_nxt"] = _first_psns(len(ends), seed)[0]
    if hs.qp["sprays"][0]:
        ports = np.take_along_axis(ports, np.argsort(ports >> 15, axis=1, kind="stable"), axis=1)
    hs.replace("lane_port", np.ascontiguousarray(ports, np.uint16).reshape(-1).view(LanePort.dtype))
    hs.replace("lane", lane)
    hs.lease["taken"], hs.lease["window"] = len(rows), algorithms.initial_window(hs, control)
    hs.cfg["leased"] = len(ends)


def lease_sets(
    device: Device, lanes: Int64Array, nodes: Int64Array, sets: PathSets, place: Int64Array, ports: NDArray[Any] | None,
    choice: PathScheme,
) -> None:  # fmt: skip
    """Leased lanes, (n,), of which none has carried anything, choose by a path scheme among the lists of sets `place`,
    (n,), that end at `nodes`, (n,). `ports`: (n, candidates) as for `connect_many`; None: what they have. All other
    lanes go by plain addresses. Raises `DetourError`: the scheme's fields have no room in a QP's row."""
    hs, width, row = device.hs, sets.shift.shape[1], np.zeros(1, np.int64)
    hs.candidate[0, :width] = hs.candidate[0, 0]
    hs.qp["n_cand"][row] = hs.lease["lists"] = width
    algorithms.give_paths(hs, row, choice, begin=False)
    if not algorithms.has_room(hs, row):
        raise DetourError(f"connections that share QPs need a path scheme with small fields; {choice.name} has others")
    hs.lane["path_set"][lanes], hs.lane["node"][lanes] = place + 1, nodes
    own = np.repeat(hs.lane_port["sport"].reshape(len(hs.lane), -1)[:, :1], width, axis=1)
    if ports is not None:
        own[lanes] = ports
    hs.replace("lane_port", own.reshape(-1).view(LanePort.dtype))
    shared, lists = np.zeros(len(sets.counts), LeasedSet.dtype), np.zeros(sets.shift.size, LeasedList.dtype)
    shared["n_cand"], shared["n_short"] = sets.counts, sets.shortest
    lists["dst_hi"], lists["dst_lo"] = sets.words.reshape(-1, 2).T
    lists["shift"], lists["weight"] = sets.shift.ravel(), sets.weights.ravel()
    hs.replace("leased_set", shared)
    hs.replace("leased_list", lists)


def lane_column(hs: Hosts, name: str) -> Int64Array:
    """(lanes,) a field of leases: a counter of all QPs that each has had, or what it has now (0: no QP)."""
    rows = hs.lane["receiver" if name.startswith("st_rx_") else "qp"]
    kept = name.removeprefix("st_").replace("delivered", "bytes")  # all is in order when a QP is given back
    column = np.zeros(len(rows), np.int64)
    if kept != name and kept in (TaskLane.dtype.names or ()):
        column[:] = hs.lane[kept]
    has = np.flatnonzero(rows != NIL)
    (np.maximum if name.endswith("_peak") else np.add).at(column, has, hs.qp[name][rows[has]])
    return column


def _check_ports(hs: Hosts, ports: NDArray[Any], n: int) -> None:
    limit = hs.candidate.shape[1]
    if ports.ndim != 2 or ports.shape[0] != n or not 1 <= ports.shape[1] <= limit:
        raise DetourError(f"candidate ports have shape {ports.shape}; {n} flows need ({n}, 1 to {limit})")
    if ports.size and not 0 <= ports.min() <= ports.max() <= 0xFFFF:
        raise DetourError("candidate source ports must be 0 to 65535")


def room_of(device: Device, host: int) -> tuple[PD, CQ, MR]:
    """Protection domain, completion queue and memory region that flows of a host share; made when first asked for."""
    if host not in device.rooms:
        if not device.hs.cfg[0]["elide_payload"]:
            raise DetourError("many connections at once need HostConfig(elide_payload=True)")
        context = Context(device, host)
        pd = PD(context)
        access = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE
        with ExitStack() as opened:
            cq = opened.enter_context(closing(CQ(context)))
            device.rooms[host] = (pd, cq, MR(pd, int(device.hs.cfg[0]["arena_bytes"]), access, addr=0))
            opened.pop_all()
    return device.rooms[host]


def _keys(device: Device, hosts: Int64Array) -> Int64Array:
    some, which = np.unique(hosts, return_inverse=True)
    return np.array([room_of(device, host)[2].rkey for host in some.tolist()], np.int64)[which]


def _fill(
    device: Device, rows: Int64Array, hosts: Int64Array, peers: Int64Array, peer_hosts: Int64Array, psn: Int64Array,
    peer_psn: Int64Array, values: dict[str, Any],
) -> None:  # fmt: skip
    """The QPs' rows as `verbs.QP` would leave them, not yet started."""
    hs = device.hs
    shared = {host: room_of(device, host) for host in np.unique(hosts).tolist()}
    cq = np.array([shared[host][1].index for host in hosts.tolist()], np.int64)
    reset(
        hs, rows, host=hosts, pd=[shared[host][0].number for host in hosts.tolist()], send_cq=cq, recv_cq=cq,
        peer_qpn=qp_numbers(hs, peers), peer_hi=hs.host["addr_hi"][peer_hosts], peer_lo=hs.host["addr_lo"][peer_hosts],
        rcv_nxt=peer_psn, snd_una=psn, snd_nxt=psn, snd_end=psn, **values,
    )  # fmt: skip


def lead(
    device: Device, rows: Int64Array, lists: Int64Array, finals: Int64Array, *, moved_ps: int | None = None
) -> None:
    """Packets of these QPs, which stay on one path, go by these uSID lists from the next one on. `lists`: (n, 2) words
    of addresses, 0: plain ones; `finals`: (n,) first words of what is left of a list in the end. `moved_ps`: it is this
    time, and what is on the old path counts as left behind: LERP sends again what does not arrive."""
    candidate = device.hs.candidate

    def change() -> None:
        candidate["dst_hi"][rows, 0], candidate["dst_lo"][rows, 0] = lists[:, 0], lists[:, 1]
        candidate["final_hi"][rows, 0] = np.where(lists[:, 0] != 0, finals, 0)
        if moved_ps is not None:
            for row in rows.tolist():
                rdma.move(device.hs.listing, row, 0, moved_ps)

    device.call(change)
    if moved_ps is not None:
        for host in np.unique(device.hs.qp["host"][rows]).tolist():
            device.kick(host)


def post_many(
    flows: Flows,
    length: int | NDArray[Any],
    *,
    now_ps: int = 0,
    wr_id: int | NDArray[Any] = 0,
    which: NDArray[Any] | None = None,
) -> None:
    """Post one RDMA WRITE of `length` bytes (up to 2**40, at most the arena; one number or one for each) on every
    flow, or on those of index `which`. Raises `DetourError` if a queue is full; then flows before that one have got
    theirs."""
    device, hs = flows.device, flows.device.hs
    chosen = np.arange(len(flows)) if which is None else np.asarray(which, np.int64)
    rows, keys = flows.sender[chosen], flows.rkey[chosen]
    lengths = np.ascontiguousarray(np.broadcast_to(np.asarray(length, np.int64), rows.shape))
    ids = np.ascontiguousarray(np.broadcast_to(np.asarray(wr_id, np.int64), rows.shape))
    limit = min(1 << 40, int(hs.cfg[0]["arena_bytes"]))
    if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= limit:
        raise DetourError(f"a message of {lengths.max()} bytes is too long; the arena and 2**40 allow {limit}")
    tables = [np.ascontiguousarray(each, np.int64) for each in (rows, keys, lengths, ids)]
    result = device.call(lambda: rdma.post_many(hs.listing, *tables, now_ps))
    for host in np.unique(hs.qp["host"][rows]).tolist():
        device.kick(host)
    if result:
        raise DetourError(f"a flow got no message: {REFUSALS[result]}")


def drain(device: Device, hosts: Sequence[int] | None = None) -> NDArray[Any]:
    """Take all completions of the flows' queues (of these hosts): rows of `records.Completion`, with `qpn` the number
    of the QP (`device.qp_numbers` has those of rows), `posted` and `done` in ps. By host, then in order."""
    hs = device.hs
    taken = [np.zeros(0, CompletionEntry.dtype)]
    for host in sorted(device.rooms) if hosts is None else hosts:
        c = hs.cq[room_of(device, host)[1].index]
        head, tail = int(c["head"]), int(c["tail"])
        taken.append(hs.cqe[room_of(device, host)[1].index, np.arange(head, tail) & (hs.cqe.shape[1] - 1)])
        c["head"] = tail
    return np.concatenate(taken)


def counters(hs: Hosts, rows: Int64Array) -> dict[str, NDArray[np.int64]]:
    """All counters of QPs (`records.QP_COUNTERS`, without "st_"), each of the shape of `rows`. Senders have the first
    ones, receivers those with "rx_"; times are ps."""
    return {name[3:]: hs.qp[name][rows] for name in QP_COUNTERS}


def path_packets(hs: Hosts, rows: Int64Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Data packets that QPs sent on shortest and on non-shortest paths, by the source port's most significant bit."""
    most = int(hs.qp["n_cand"][rows].max(initial=1))
    packets = hs.candidate["packets"][rows, :most]
    packets = np.where(np.arange(most) < hs.qp["n_cand"][rows][:, None], packets, 0)
    non_shortest = hs.candidate["sport"][rows, :most] >> 15 == 1
    return np.where(non_shortest, 0, packets).sum(axis=1), np.where(non_shortest, packets, 0).sum(axis=1)
