# SPDX-License-Identifier: Apache-2.0
"""Parameters of the host stacks, one set for all hosts of a process.

What a paper or RFC leaves open is a named parameter here. Times are picoseconds, delays on the wire ticks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from detour.base.errors import DetourError
from detour.base.times import MS, US


@dataclass(frozen=True)
class HostConfig:
    """Defaults fit 100 Gb/s in virtual time; `parameters.real_time` has those for the wall clock."""

    payload: int = 1000
    """bytes of payload a data packet (docs/facts.md, "Non-shortest paths: what the paper leaves open")"""
    mtu: int = 1000
    """bytes of an "MTU" in the 75-MTU rule (section III)"""
    link_rate_bps: int = 100_000_000_000
    """rate that the 75-MTU rule and line-rate start assume"""
    tick_ps: int = 1_000
    """length of a tick of the Transit Measurement option"""
    data_dscp: int = 0
    """DSCP of data packets and PTMs"""
    data_priority: int = 0
    """priority (0 to 7) whose pause stops data packets and PTMs; control is never paused"""
    encapsulates: bool = False
    """packets with a uSID list are encapsulated (H.Encaps.Red, RFC 8986) instead of rewritten"""
    elide_payload: bool = False
    """payload bytes, ICRC and UDP checksum are neither written nor read; lengths are as if they were"""

    min_rto_ps: int = 200 * US
    """lower bound of the retransmission timeout (RFC 6298, 2.4)"""
    initial_rto_ps: int = 1 * MS
    """retransmission timeout before the first RTT sample"""
    max_rto_ps: int = 100 * MS
    """upper bound, backoff included, which ends at eight times the first or the initial timeout (`rtt.timeout`)"""
    min_probe_timeout_ps: int = 20 * US
    """lower bound of the tail-loss probe's timeout of two smoothed RTTs (RFC 8985, 7.2)"""
    retry_ps: int = 500 * MS
    """time without any progress, at the end of a timeout, after which a QP fails that does not say it itself
    (`QPInitAttr.timeout`, `retry_cnt`)"""
    frame_life_ps: int = 1_000 * MS
    """longest time that a frame can be under way: no QP's number is used again before (docs/transports-reference.md)"""

    initial_cwnd: int = 10
    """packets that a connection starts with (RFC 6928)"""
    line_rate_start: bool = False
    """a connection starts with `line_rate_cwnd` instead"""
    line_rate_cwnd: int = 128
    """packets of a bandwidth-delay product: the window of a line-rate start"""
    reroute_cwnd: int = 10
    """packets with which slow start begins on a new path (section III)"""
    min_cwnd: int = 2
    """floor of the congestion window in packets (docs/facts.md, "DCTCP")"""
    max_cwnd: int = 1 << 14
    """ceiling of the congestion window in packets"""
    every_loss_cuts: bool = False
    """DCTCP: a loss halves the window whatever queues say (RFC 8257, 3.5); else only one that a full queue explains
    (`loss_classification`)"""
    loss_mtus: int = 75
    """MTU transmission times: a loss before any mark is congestion if packets then waited for longer"""
    cnp_interval_ps: int = 0
    """DCQCN: shortest time between two CNPs of a QP; 0: none are sent, the CE bit of every ACK says it (HPCC's ns-3)"""

    idle_wait: bool = True
    """a sender whose receiver wants order waits, before it takes a new path, for what its packets on the old one may
    still need (section III; a receiver of LERP takes any order)"""
    empty_mtus: int = 5
    """MTU transmission times: a packet that waited for no longer met an empty path (for the options below)"""
    initial_probes: int = 4
    """PTMs on random alternatives when a connection gets busy, or when its path is silent"""
    dead_path_rtos: int = 2
    """timeouts in a row on one path that make the sender leave it"""
    leaves_silent_paths: bool = True
    """with selective ACKs: when nothing comes back a sender asks, and leaves a path that alone is silent"""
    min_silence_ps: int = 1 * US
    """shortest silence in which it asks"""

    bdp_packets: int = 120
    """spraying: packets that a link carries in the round trip of the longest shortest path, if no queue is in its way;
    a fabric in virtual time works it out"""
    spray_dead_ps: int = 1 * MS
    """spraying: time after which a dead path is asked again for the first time (`multipath`), and for which MRC's rule
    and `spray` bar paths that lose packets"""

    react_penalty_ps: int = 10 * MS
    """NIC rerouting: time for which a path that was left is not taken again; others do so after timeouts (`health`)"""
    monitor: bool = True
    """receivers add up the queuing delays of data packets, for monitoring"""

    plugins: Mapping[str, float] = field(default_factory=dict[str, float])
    """parameters of path schemes, congestion control and transports that have other values here than by default
    (`parameters.host_config`)"""

    def __post_init__(self) -> None:
        check_numbers(self, may_be_zero=_MAY_BE_ZERO)
        most = MAX_PAYLOAD - (_OUTER_BYTES if self.encapsulates else 0)
        if self.payload > most:
            raise DetourError(f"host parameter payload is {self.payload}; it must be at most {most}")
        if self.max_rto_ps < self.min_rto_ps:
            raise DetourError("host parameter max_rto_ps is below min_rto_ps; it must not be")
        if self.data_dscp > 63 or self.data_priority > 7:
            raise DetourError("host parameters data_dscp and data_priority must be at most 63 and 7")


HOST_NUMBERS = tuple(each.name for each in fields(HostConfig) if each.name != "plugins")


def check_numbers(record: Any, may_be_zero: Sequence[str] = (), shares: Sequence[str] = ()) -> None:
    """Raise `DetourError` for a whole number below 1, or below 0 if it may be zero, and for a share that is not above
    0 and at most 1. `record`: a dataclass of parameters."""
    for each in fields(record):
        value, least = getattr(record, each.name), 0 if each.name in may_be_zero else 1
        if isinstance(value, int) and not isinstance(value, bool) and value < least:
            raise DetourError(f"host parameter {each.name} is {value}; it must be at least {least}")
        if each.name in shares and not 0 < value <= 1:
            raise DetourError(f"host parameter {each.name} is {value}; it must be above 0 and at most 1")


LITERAL_LOSS: dict[str, Any] = {"every_loss_cuts": True, "adapts_to_reordering": False, "leaves_silent_paths": False}
"""losses as the non-shortest-path paper and RFC 8257 have them: each is congestion, what is overtaken is lost, and only
timeouts tell of a dead path"""

_MAY_BE_ZERO = ("loss_mtus", "empty_mtus", "initial_probes", "data_dscp", "data_priority", "cnp_interval_ps")
MAX_PAYLOAD = 4096
"""bytes; the largest RDMA MTU (IBTA)"""
_OUTER_BYTES = 40
"""of the IPv6 header around an encapsulated packet"""
