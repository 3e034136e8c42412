# SPDX-License-Identifier: Apache-2.0
"""Parameters of the host stacks, one set for all hosts of a process.

What a paper or RFC leaves open is a named parameter here. Times are picoseconds, delays on the wire ticks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from detour.base.errors import DetourError
from detour.base.times import MS, US

MBPS = 1_000_000


@dataclass(frozen=True)
class HostConfig:
    """Defaults fit 100 Gb/s in virtual time; `HostConfig.real_time` has those for the wall clock."""

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
    adapts_to_reordering: bool = True
    """LERP: a packet that was declared lost and was only late makes the sender wait for longer (RFC 8985, 6.2.4); else
    paths keep order"""
    dctcp_g: float = 1 / 16
    """gain of the marked fraction's estimate (RFC 8257, 3.3)"""

    ack_every: int = 1
    """go-back-N: data packets an ACK; the last of a message and marked ones are answered at once (with LERP all are)"""
    cnp_interval_ps: int = 0
    """DCQCN: shortest time between two CNPs of a QP; 0: none are sent, the CE bit of every ACK says it (HPCC's ns-3)"""
    dcqcn_alpha_ps: int = 1 * US
    """DCQCN: time between updates of alpha"""
    dcqcn_decrease_ps: int = 4 * US
    """time between checks whether a notification came, which cut the rate; 0: the notification itself cuts it"""
    dcqcn_increase_ps: int = 300 * US
    """time from a cut, or an increase, to the next increase"""
    dcqcn_bytes: int = 0
    """bytes from a cut, or an increase, to the next increase; 0: only time counts"""
    dcqcn_g: float = 1 / 256
    """gain of alpha"""
    dcqcn_recovery: int = 1
    """F: increases that are fast recovery"""
    dcqcn_ai_bps: int = 20 * MBPS
    """step of the additive increase"""
    dcqcn_hai_bps: int = 200 * MBPS
    """step of the hyper increase"""
    dcqcn_min_bps: int = 1000 * MBPS
    """floor of the rate, if the link has as much"""
    dcqcn_clamp_target: bool = False
    """every cut lowers the target to the rate, not only the first one after an increase by time"""
    dcqcn_reroute_share: float = 0.1
    """fraction of the link's rate at which a new path begins; the target is all of it (section III: "slow-start")"""

    idle_wait: bool = True
    """a sender whose receiver wants order waits, before it takes a new path, for what its packets on the old one may
    still need (section III; a receiver of LERP takes any order)"""
    delta1: float = 0.8
    """a better path's delay is below this fraction of the current one's (section III)"""
    delta2: int = 75
    """and below it by more than this many MTU transmission times"""
    delta3: int = 100
    """a PTM is sent every max(cwnd, delta3) data packets"""
    own_share: bool = False
    """what a connection's own packets add to its path's delay does not count (not in the paper; see `delays`)"""
    standing_delay: bool = False
    """the current path is judged by the least delay of its last one to two windows of data packets instead of the last
    packet's, and not before it has carried a window (not in the paper; see `delays`)"""
    confirmations: int = 0
    """further PTMs in a row that must find a path better before the connection moves to it (section III: none)"""
    empty_mtus: int = 5
    """MTU transmission times: a packet that waited for no longer met an empty path (for the options below)"""
    delta2_empty: int = 0
    """`delta2` for paths that are empty, if that is smaller (not in the paper; 0: no difference)"""
    empty_confirmations: int = 8
    """`confirmations` where only `delta2_empty` makes a path better"""
    empty_gain: float = 0.0
    """DCTCP: fraction that the window grows by a round trip while the path is empty (not in RFC 8257; 0: one packet)"""
    crowded_probes: int = 1
    """PTMs at a time while an empty path, if there were one, would be better than the current one"""
    initial_probes: int = 4
    """PTMs on random alternatives when a connection gets busy"""
    probe_backlog: int = 16
    """packets to send that make a connection busy ("many packets to send", section III)"""
    dead_path_rtos: int = 2
    """timeouts in a row on one path that make the sender leave it"""
    leaves_silent_paths: bool = True
    """LERP: a sender asks when nothing comes back, and leaves a path that alone is silent (`blackhole`)"""
    min_silence_ps: int = 1 * US
    """shortest silence in which it asks"""

    bdp_packets: int = 120
    """spraying: packets that a link carries in the round trip of the longest shortest path, if no queue is in its way;
    a fabric in virtual time works it out"""
    spray_dead_ps: int = 1 * MS
    """spraying: time after which a dead path is asked again for the first time (`multipath`), and for which MRC's rule
    and `spray` bar paths that lose packets"""

    swap_paths: int = 0
    """MRC's rule: paths of a set; 0: seven, drawn by chance (`rivals.paths.mrc_like`)"""

    spritz_explore: int = 44
    """Spritz: after so many packets one path is drawn whatever is known of others (`spritz` has the source of all)"""
    spritz_marks: int = 8
    """Spritz-Scout: more marks than that make it forget a path"""
    spritz_weight: int = 5
    """Spritz: times that a shortest path is likelier to be drawn than a detour"""
    spritz_small_bytes: int = 1 << 19
    """Spritz: messages shorter than that have another weight"""
    spritz_small_weight: int = 100
    """and this is it"""

    bend_share: float = 0.05
    """leaving by marks: a round trip in which more than this fraction of packets is marked is congested (FlowBender's
    T)"""
    bend_rounds: int = 1
    """leaving by marks: congested round trips in a row that make the sender take another path (FlowBender's N)"""

    react_delay_ps: int = 5 * US
    """NIC rerouting: a packet that waits for so much longer than before is a sign of congestion, as its mark is"""
    react_answers: int = 8
    """NIC rerouting: bad answers in a row that make the sender leave a path"""
    react_hold_ps: int = 20 * US
    """NIC rerouting: time after a move in which nothing is judged (two round trips at least)"""
    react_penalty_ps: int = 10 * MS
    """NIC rerouting: time for which a path that was left is not taken again; others do so after timeouts (`health`)"""
    monitor: bool = True
    """receivers add up the queuing delays of data packets, for monitoring"""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 0 if field.name in _MAY_BE_ZERO else 1
            if field.type == "int" and value < least:
                raise DetourError(f"host parameter {field.name} is {value}; it must be at least {least}")
        most = MAX_PAYLOAD - (_OUTER_BYTES if self.encapsulates else 0)
        if self.payload > most:
            raise DetourError(f"host parameter payload is {self.payload}; it must be at most {most}")
        if self.max_rto_ps < self.min_rto_ps:
            raise DetourError("host parameter max_rto_ps is below min_rto_ps; it must not be")
        for name in _SHARES:
            if not 0 < getattr(self, name) <= 1:
                raise DetourError(f"host parameter {name} is {getattr(self, name)}; it must be above 0 and at most 1")
        if not 0 <= self.empty_gain <= 1:
            raise DetourError(f"host parameter empty_gain is {self.empty_gain}; it must be from 0 to 1")
        if self.data_dscp > 63 or self.data_priority > 7:
            raise DetourError("host parameters data_dscp and data_priority must be at most 63 and 7")

    @classmethod
    def real_time(cls, link_rate_bps: int = 20_000_000, **changes: Any) -> HostConfig:
        """Defaults for the wall clock: 1 us ticks, timeouts and patience that a laptop can keep."""
        values: dict[str, Any] = {
            "link_rate_bps": link_rate_bps,
            "tick_ps": 1_000_000,
            "min_rto_ps": 20 * MS,
            "initial_rto_ps": 200 * MS,
            "max_rto_ps": 2_000 * MS,
            # More than a minute: paths come back when the controller gets to it, and it shares the machine with us.
            "retry_ps": 65_000 * MS,
            "min_probe_timeout_ps": 5 * MS,
            "min_silence_ps": 100 * MS,
            "frame_life_ps": 60_000 * MS,
            "spray_dead_ps": 500 * MS,
            "react_delay_ps": 5 * MS,
            "react_hold_ps": 50 * MS,
            "react_penalty_ps": 5_000 * MS,
            "dcqcn_min_bps": max(1, link_rate_bps // 100),
            "dcqcn_ai_bps": max(1, link_rate_bps // 5000),
            "dcqcn_hai_bps": max(1, link_rate_bps // 500),
        }
        return cls(**(values | changes))


def host_changes(texts: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    """Pairs of name and value from texts like `delta3=200` or `own_share=no`.

    Raises:
        DetourError: no such parameter, or no value of its kind.
    """
    kinds = {field.name: str(field.type) for field in fields(HostConfig)}
    changes: list[tuple[str, Any]] = []
    for text in texts:
        name, _, value = text.partition("=")
        if name not in kinds:
            raise DetourError(f"there is no host parameter {name!r}; see HostConfig in detour/hosts/config.py")
        try:
            changes.append((name, _VALUES[kinds[name]](value.strip().lower())))
        except (KeyError, ValueError):
            raise DetourError(f"host parameter {name} is {kinds[name]}; {value!r} is none") from None
    return tuple(changes)


_VALUES: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}.__getitem__,
}

DCQCN_VENDOR: dict[str, Any] = {
    "cnp_interval_ps": 0, "dcqcn_alpha_ps": 1 * US, "dcqcn_decrease_ps": 4 * US, "dcqcn_increase_ps": 300 * US,
    "dcqcn_bytes": 0, "dcqcn_g": 1 / 256, "dcqcn_recovery": 1, "dcqcn_ai_bps": 20 * MBPS, "dcqcn_hai_bps": 200 * MBPS,
    "dcqcn_min_bps": 1000 * MBPS, "dcqcn_clamp_target": False,
}  # fmt: skip
"""DCQCN as HPCC's ns-3 has it for 100 Gb/s (`rdma-hw.cc`, `run.py --cc dcqcn`; no byte counter there); the defaults"""
DCQCN_PAPER: dict[str, Any] = DCQCN_VENDOR | {
    "cnp_interval_ps": 50 * US, "dcqcn_alpha_ps": 55 * US, "dcqcn_decrease_ps": 0, "dcqcn_increase_ps": 55 * US,
    "dcqcn_bytes": 10_000_000, "dcqcn_recovery": 5, "dcqcn_clamp_target": True,
}  # fmt: skip
"""DCQCN of SIGCOMM 2015, sections 3.1 to 3.3 and 5: alpha's timer must be longer than the interval of CNPs"""

LITERAL_LOSS: dict[str, Any] = {"every_loss_cuts": True, "adapts_to_reordering": False, "leaves_silent_paths": False}
"""losses as the non-shortest-path paper and RFC 8257 have them: each is congestion, what is overtaken is lost, and only
timeouts tell of a dead path"""

_MAY_BE_ZERO = (
    "swap_paths",
    *("loss_mtus", "delta2", "confirmations", "empty_mtus", "delta2_empty", "empty_confirmations", "initial_probes"),
    *("probe_backlog", "data_dscp", "data_priority", "cnp_interval_ps", "dcqcn_decrease_ps", "dcqcn_bytes"),
)
_SHARES = ("bend_share", "delta1", "dctcp_g", "dcqcn_g", "dcqcn_reroute_share")
MAX_PAYLOAD = 4096
"""bytes; the largest RDMA MTU (IBTA)"""
_OUTER_BYTES = 40
"""of the IPv6 header around an encapsulated packet"""
