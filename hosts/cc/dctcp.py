# SPDX-License-Identifier: Apache-2.0
"""DCTCP (RFC 8257) with the choices of Linux where the RFC leaves some; windows in packets
(docs/facts.md, "DCTCP").

* Section 3.3: alpha <- (1 - g) alpha + g F once a window, F the marked fraction of the bytes acknowledged in it;
  alpha starts at 1. The window shrinks by alpha / 2 at the first mark, at most once a window, not below
  `min_cwnd`; while the packets that were out at that time come back it does not grow (Linux' CWR state).
* Section 3.5: a loss halves the window, at most once a window, if it was a full queue as far as the sender knows
  (`transport.evidence`; not in the RFC). A timeout restarts slow start from `min_cwnd`. Either is undone if the packets
  arrive after all (RFC 4015).
* Slow start and congestion avoidance are RFC 5681's, and a window of which less than half is used does not grow
  (Linux' rule for slow start, here for both).
* Not in the RFC: with `empty_gain` a window that is used up grows by that fraction a round trip while its packets
  report that they met next to no queue. One packet a round trip takes a hundred of them, more than a millisecond,
  to fill half of a link that another sender has left.

A "window" ends when the first packet sent after its beginning is acknowledged; since transmissions, repeats
included, are numbered in order, `txn` tells.
"""

from __future__ import annotations

import numpy as np

from detour.base.jit import float64, inner
from detour.hosts.records import Config, QueuePair


@inner
def on_path(cfg: Config, q: QueuePair) -> None:
    """Starts afresh; whatever is sent from now on belongs to the first window."""
    q.dctcp_alpha = 1.0
    q.dctcp_acked = 0
    q.dctcp_marked = 0
    q.dctcp_end = q.next_txn
    q.dctcp_hold = q.next_txn
    q.dctcp_before = 0.0


@inner
def on_idle(cfg: Config, q: QueuePair) -> None:
    """The window restarts, remembering three quarters of where it was (RFC 5681, 4.1; RFC 2861)."""
    if q.cwnd > q.cwnd_initial:
        q.ssthresh = max(q.ssthresh, 0.75 * q.cwnd) if q.ssthresh < np.inf else 0.75 * q.cwnd
        q.cwnd = q.cwnd_initial


@inner
def on_acked(cfg: Config, q: QueuePair, nbytes: int, txn: int, empty: bool) -> None:
    """Counts, grows the window, and at its end takes a new alpha (section 3.3, steps 3 to 8)."""
    q.dctcp_acked += nbytes
    if txn >= q.dctcp_hold and 2 * q.inflight >= q.cwnd:
        step = 1.0 if q.cwnd < q.ssthresh else 1.0 / q.cwnd
        if empty and q.inflight + 1 >= q.cwnd:
            step = max(step, cfg.empty_gain)
        q.cwnd = min(q.cwnd + step, float64(cfg.max_cwnd))
    if txn < q.dctcp_end:
        return
    if q.dctcp_acked > 0:
        fraction = q.dctcp_marked / q.dctcp_acked
        q.dctcp_alpha += cfg.dctcp_g * (fraction - q.dctcp_alpha)
    q.dctcp_acked = 0
    q.dctcp_marked = 0
    q.dctcp_end = q.next_txn


@inner
def on_ecn(cfg: Config, q: QueuePair, nbytes: int, txn: int) -> None:
    """Counts the mark; the first one of a window shrinks it (section 3.3, step 9)."""
    q.dctcp_marked += nbytes
    if txn >= q.dctcp_hold:
        q.dctcp_before = 0.0
        _shrink(cfg, q, 1.0 - q.dctcp_alpha / 2)


@inner
def on_lost(cfg: Config, q: QueuePair, txn: int, congested: bool) -> None:
    """Halves the window, if a queue was full, unless it was cut since the packet was sent (section 3.5, RFC 5681)."""
    if congested and txn >= q.dctcp_hold:
        _remember(q)
        _shrink(cfg, q, 0.5)
    q.dctcp_doubt += 1


@inner
def on_spurious(cfg: Config, q: QueuePair) -> None:
    """Undoes the last cut if all losses since then were spurious and no mark has cut the window besides (RFC 4015)."""
    q.dctcp_doubt -= 1
    if q.dctcp_doubt <= 0:
        undo(cfg, q)


@inner
def undo(cfg: Config, q: QueuePair) -> None:
    """The last cut was for nothing."""
    if cfg.every_loss_cuts or q.dctcp_before == 0:
        return
    q.cwnd = max(q.cwnd, q.dctcp_before)
    q.ssthresh = max(q.ssthresh, q.dctcp_before_ssthresh)
    q.dctcp_before = 0.0


@inner
def on_rto(cfg: Config, q: QueuePair, lost: int) -> None:
    """Slow start again, up to half of the window before the first timeout in a row (RFC 5681, 3.1; the floor is
    `min_cwnd`)."""
    if q.epoch_rtos <= 1:
        _remember(q)
        q.ssthresh = max(q.cwnd / 2, float64(cfg.min_cwnd))
    q.dctcp_doubt += lost
    q.cwnd = float64(cfg.min_cwnd)
    q.dctcp_hold = q.next_txn


@inner
def _remember(q: QueuePair) -> None:
    """The window is about to be cut because of losses."""
    q.dctcp_before = q.cwnd
    q.dctcp_before_ssthresh = q.ssthresh
    q.dctcp_doubt = 0


@inner
def _shrink(cfg: Config, q: QueuePair, factor: float) -> None:
    q.cwnd = max(q.cwnd * factor, float64(cfg.min_cwnd))
    q.ssthresh = q.cwnd
    q.dctcp_hold = q.next_txn
