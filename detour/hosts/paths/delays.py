# SPDX-License-Identifier: Apache-2.0
"""Conclusions that a sender draws from queuing delays about its path and about others (non-shortest-path paper, section
III).

A path is better if its delay is below `delta1` times the current one's and the difference is above `delta2` MTU
transmission times. The current path's delay is that of its last acknowledged data packet. Options that are not in the
paper change either side of the comparison; docs/experiments.md has what each is worth:

* `own_share`: a sender's own part of a queue does not count; `standing_delay`: nor do queues that pass.
* `delta2_empty`: for a path that a probe finds empty a smaller difference is enough, if `empty_confirmations` further
  probes find it so too. What two share is then split also if one of them fills most of the queue.
"""

from __future__ import annotations

from dataclasses import dataclass

from detour.base.jit import float64, inner, int64
from detour.base.structs import Int64, NativeRecord
from detour.hosts.config import check_numbers
from detour.hosts.frames.sizes import DATA_OVERHEAD
from detour.hosts.paths.plugin import PathParameters
from detour.hosts.records import Config, QueuePair
from detour.hosts.state import NIL

_MAY_BE_ZERO = (
    "delta2", "confirmations", "delta2_empty", "empty_confirmations", "probe_backlog",
)  # fmt: skip
_LEAST_WINDOW = 16.0
"""packets of which the least delay says something, however small the window"""


@dataclass(frozen=True)
class Parameters(PathParameters):
    """Parameters of `probing`."""

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
    delta2_empty: int = 0
    """`delta2` for paths that are empty, if that is smaller (not in the paper; 0: no difference)"""
    empty_confirmations: int = 8
    """`confirmations` where only `delta2_empty` makes a path better"""
    crowded_probes: int = 1
    """PTMs at a time while an empty path, if there were one, would be better than the current one"""
    probe_backlog: int = 16
    """packets to send that make a connection busy ("many packets to send", section III)"""

    def __post_init__(self) -> None:
        check_numbers(self, _MAY_BE_ZERO, ("delta1",))


class ProbingState(NativeRecord):
    """The scheme's state of a QP (`probing`)."""

    low: Int64  # the least delay of the window that fills and of the one before it (-1: none), packets in the former
    low_before: Int64
    low_count: Int64
    since_ptm: Int64  # data packets
    rr_next: Int64
    probed: Int64  # this busy period has begun with a round
    round: Int64  # ROUND_...; its first PTM, begin, PTMs and answers
    round_first: Int64
    round_start: Int64
    round_open: Int64
    round_done: Int64


@inner
def mtu_times(cfg: Config, count: int) -> int:
    """So many MTU transmission times, ps."""
    return count * (cfg.mtu * 8_000_000_000_000 // cfg.link_rate_bps)


@inner
def is_empty(cfg: Config, delay: int) -> bool:
    """Return whether a packet that waited for `delay` ticks (-1: not known) met next to no queue."""
    return 0 <= delay * cfg.tick_ps <= mtu_times(cfg, cfg.empty_mtus)


@inner
def is_better(cfg: Parameters, delay: int, current: int) -> bool:
    """Return whether a path with `delay` ticks is to be preferred to the current one with `current`."""
    if delay >= cfg.delta1 * current:
        return False
    least = cfg.delta2
    if cfg.delta2_empty > 0 and is_empty(cfg, delay):
        least = min(least, cfg.delta2_empty)
    return _is_shorter(cfg, delay, current, least)


@inner
def _is_shorter(cfg: Config, delay: int, current: int, count: int) -> bool:
    """Return whether `delay` ticks are more than `count` MTU transmission times below `current`."""
    return (current - delay) * cfg.tick_ps > mtu_times(cfg, count)


@inner
def confirmations(cfg: Parameters, delay: int, current: int) -> int:
    """Number of further probes that must find the path with `delay` ticks better before it is taken."""
    if _is_shorter(cfg, delay, current, cfg.delta2):
        return cfg.confirmations
    return cfg.empty_confirmations


@inner
def is_crowded(cfg: Parameters, q: QueuePair, s: ProbingState) -> bool:
    """Return whether the sender would leave its path, which it can judge by now, for an empty one."""
    return s.low_before >= 0 and is_better(cfg, 0, compared(cfg, q, s))


@inner
def compared(cfg: Parameters, q: QueuePair, s: ProbingState) -> int:
    """The current path's delay in ticks as it is compared with those of others.

    Section III compares whole delays. With `own_share` the part that the connection's own packets cause does not
    count: a queue belongs to those who fill it in proportion to their rates, and ours is what is in flight a round
    trip. Without that a sender that has a path to itself flees from its own queue, to meet it again elsewhere."""
    delay = standing(s)
    if cfg.own_share == 0 or delay < 0 or q.srtt <= 0:
        return delay
    in_flight = float64(q.inflight * (cfg.payload + DATA_OVERHEAD) * 8)
    own = in_flight * 1e12 / (float64(q.srtt) * cfg.link_rate_bps)
    return int64(delay * max(0.0, 1.0 - own))


@inner
def standing(s: ProbingState) -> int:
    """The least delay in ticks of the window of packets that is full and of the one that fills; -1: not known.

    A queue that empties now and then is none to escape from (as in RFC 8289, section 3.2): what a burst leaves for a
    moment does not count. A window is full only after the path has carried some packets, so that slow start on a new
    path ends before it is judged."""
    if s.low < 0:
        return s.low_before
    if s.low_before < 0:
        return s.low
    return min(s.low, s.low_before)


@inner
def begin(cfg: Parameters, s: ProbingState, delay: int) -> None:
    """A path begins, of which a probe said `delay` (-1: nothing is known)."""
    s.low = NIL
    s.low_before = NIL if cfg.standing_delay else delay
    s.low_count = 0


@inner
def note(cfg: Parameters, s: ProbingState, delay: int, window: float) -> None:
    """A packet on the current path, which carries `window` packets a round trip, waited for `delay` ticks."""
    if s.low < 0 or delay < s.low:
        s.low = delay
    s.low_count += 1
    if cfg.standing_delay == 0 or s.low_count >= max(window, _LEAST_WINDOW):
        s.low_before = s.low
        s.low = NIL
        s.low_count = 0
