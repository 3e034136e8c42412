# SPDX-License-Identifier: Apache-2.0
"""Congestion control as a plugin (`hosts.plugins`): one file with parameters, fields and hooks, and nothing elsewhere.

    @dataclass(frozen=True)
    class Parameters:
        target_us: float = 20.0

    @hook
    def on_acked(p, s, q, packet, now):
        if packet.delay >= 0:
            q.cwnd = max(q.cwnd + (0.1 if packet.delay < p.target_us * 1e6 else -0.5), 1.0)

    MINE = CongestionAlgorithm(Parameters(), {"last_cut": int}, (on_acked,))

A hook gets the parameters `p` (those of the dataclass, and `HostParameters`), the fields `s` of its own, the QP `q`
(`records.Sender`: `cwnd`, `ssthresh`, `pace_next` and `cc_timer` are there to be changed), the packet that it is about
(`Packet`) and the time in ps. Which hooks there are: `CONTROL_HOOKS`; what each is called for: `hosts.cc.control`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from detour.base.jit import inner, int64
from detour.base.memory import load64
from detour.base.pointers import record_address, record_by_address
from detour.base.structs import Int64, NativeRecord
from detour.hosts import plugins
from detour.hosts.plugins import PACKET_AT, Plugin, RecordType
from detour.hosts.plugins import hook as hook
from detour.hosts.records import Sender

CONTROL_HOOKS = (
    "on_path", "on_idle", "on_sent", "on_acked", "on_lost", "on_spurious", "on_rto", "on_timer",
    "on_ecn", "on_spurious_timeout", "on_cnp", "on_move",
)  # fmt: skip
HOOK_PATH, HOOK_IDLE, HOOK_SENT, HOOK_ACKED, HOOK_LOST, HOOK_SPURIOUS, HOOK_RTO, HOOK_TIMER = range(8)
HOOK_ECN, HOOK_SPURIOUS_TIMEOUT, HOOK_CNP, HOOK_MOVE = range(8, 12)


class Packet(NativeRecord):
    """A packet as hooks see it; `rtt`, `delay`, `hops` and `marked` only if the algorithm has parameters of its own.
    The first three are -1 where they are not known: without the Transit Measurement option, and for packets that an ACK
    reports as arrived but that did not cause it."""

    bytes: Int64  # payload; of on_sent: the frame's length
    txn: Int64  # its place in the QP's order of transmissions
    rtt: Int64  # its round trip, ps
    delay: Int64  # how long it waited in the queues of its path, ps
    hops: Int64  # switches that it passed
    marked: Int64  # it came with a CE mark
    congested: Int64  # on_lost: in a full queue, as far as the sender knows
    lost: Int64  # on_rto: packets that count as lost
    timeouts: Int64  # on_rto: timeouts in a row on this path
    empty: Int64  # on_acked: the path has next to no queue (with `HostConfig.empty_gain`)


class HostParameters:
    """The fields of `HostConfig` that `p` has beside the algorithm's own parameters."""

    link_rate_bps: int
    payload: int
    min_cwnd: int
    max_cwnd: int
    tick_ps: int
    every_loss_cuts: int
    cnp_interval_ps: int


HOST_PARAMETERS = tuple(HostParameters.__annotations__)


@dataclass(frozen=True)
class CongestionAlgorithm(Plugin):
    """An algorithm. `rate_based`: it is the rate that limits a sender, and receivers send CNPs (DCQCN). `told`: it is
    told of each packet what its answer says, if it has parameters."""

    rate_based: bool = False
    told: bool = True

    HOOKS: ClassVar[tuple[str, ...]] = CONTROL_HOOKS
    TAKES: ClassVar[tuple[str, ...]] = ("p", "s", "q", "packet", "now")
    NEWS: ClassVar[type[NativeRecord]] = Packet
    OF_HOST: ClassVar[tuple[str, ...]] = HOST_PARAMETERS


def entry_of(_hook: Any, records: tuple[RecordType, ...]) -> Any:
    """Return the function that is called by address: it makes records of addresses and calls the hook."""
    parameters_at, fields_at, qp_at = map(record_by_address, records)

    def entry(row: int, q: int, _: int, now: int) -> int:
        parameters = parameters_at(load64(load64(row)), 0)
        _hook(parameters, fields_at(row, 0), qp_at(q, 0), _packet_at(row + PACKET_AT, 0), now)
        return 0

    return entry


_packet_at = record_by_address(Packet)
_NONE = int64(0)


@inner
def packet_of(q: Sender) -> Packet:
    """The record of the packet that the next call of a hook is about."""
    return _packet_at(q.cc_row + PACKET_AT, 0)


@inner
def call(q: Sender, which: int, now: int) -> None:
    """Call a hook of the QP's algorithm, if it has that."""
    plugins.call(q.cc_row, record_address(q), _NONE, which, now)


@inner
def has(q: Sender, which: int) -> bool:
    """Return whether the QP's algorithm has a hook."""
    return plugins.has(q.cc_row, which)
