# SPDX-License-Identifier: Apache-2.0
"""The sending half of LERP, the Lightweight Efficient Retransmission Protocol (non-shortest-path paper, I, III).

Every transmission gets the next number of its QP's order of transmissions, `txn`, and the QP's path epoch. ACKs
name the transmission that caused them (PSN and count, `wire.py`). A path keeps order, so when transmission t of
an epoch has arrived, every earlier one *of that epoch* that is still in flight is lost and is sent again at
once; the same holds for retransmissions, which have numbers of their own. Packets of an older epoch say
nothing about those of the current path and the other way round: after a change of path nothing is declared lost
just because the new path is faster.

Timers cover what order cannot show: a tail-loss probe (RFC 8985, 7) after two round trips without progress, the
retransmission timeout (RFC 6298), and for leftovers of an older path a timeout of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.hosts import cc, flight, paths, rtt, timers, wire
from detour.hosts.jit import inner
from detour.hosts.nic import activate
from detour.hosts.rows import candidate_row, cfg_row, frame_row, host_row, qp_row, slot_row, wqe_row
from detour.hosts.state import (
    MAX_TIME,
    NIL,
    QPS_RTS,
    SLOT_ACKED,
    SLOT_FLIGHT,
    SLOT_FREE,
    SLOT_LOST,
    WC_REM_ACCESS_ERR,
    WC_RETRY_EXC_ERR,
    WC_SUCCESS,
)
from detour.hosts.wire import SACK_BITS, SYNDROME_ACCESS, SYNDROME_ACK, SYNDROME_RNR, unwrap
from detour.hosts.workqueue import complete, fail

PROBE_NONE, PROBE_DUE, PROBE_SENT = 0, 1, 2


# -- sending ------------------------------------------------------------------------------------------------


@inner
def _may_send_new(hs: Any, q: Any) -> bool:
    if q["snd_nxt"] >= q["snd_end"] or q["nak_seq"] >= 0:
        return False
    return q["snd_nxt"] - q["snd_una"] < cfg_row(hs)["window"]


@inner
def can_send(hs: Any, q: Any) -> bool:
    """Whether the window lets a packet go, not asking about pacing."""
    if q["state"] != QPS_RTS:
        return False
    if q["tail_probe"] == PROBE_DUE:
        return True
    return q["inflight"] + 1 <= q["cwnd"] and (q["n_lost"] > 0 or _may_send_new(hs, q))


@inner
def next_frame(hs: Any, i: int, q: Any, buf: Any, o: int, now: int) -> int:
    """Writes the QP's next data packet; 0 if there is none to send now."""
    if not can_send(hs, q):
        return 0
    if q["pace_next"] > now:
        timers.advance(hs, i, q, q["pace_next"])
        return 0
    if q["tail_probe"] == PROBE_DUE:
        q["tail_probe"] = PROBE_SENT
        q["st_tail_probes"] += 1
        if q["n_lost"] == 0 and not _may_send_new(hs, q):
            return _repeat_last(hs, i, q, buf, o, now)
    if q["n_lost"] > 0:
        return _repeat(hs, i, q, q["lost_head"], buf, o, now)
    return _send_new(hs, i, q, buf, o, now)


@inner
def _send_new(hs: Any, i: int, q: Any, buf: Any, o: int, now: int) -> int:
    seq = q["snd_nxt"]
    depth = cfg_row(hs)["sq_depth"]
    w = wqe_row(hs, i, q["sq_nxt"] & (depth - 1))
    if seq >= w["first"] + w["packets"]:
        q["sq_nxt"] += 1
        w = wqe_row(hs, i, q["sq_nxt"] & (depth - 1))
    index = seq & (cfg_row(hs)["window"] - 1)
    s = slot_row(hs, i, index)
    s["wqe"] = q["sq_nxt"] & (depth - 1)
    s["count"] = 0
    s["first"] = now
    s["size"] = min(cfg_row(hs)["payload"], w["length"] - (seq - w["first"]) * cfg_row(hs)["payload"])
    q["snd_nxt"] = seq + 1
    paths.before_data(hs, i, q, now)
    return _emit(hs, i, q, index, seq, buf, o, now)


@inner
def _repeat(hs: Any, i: int, q: Any, index: int, buf: Any, o: int, now: int) -> int:
    """Sends a packet again that is on one of the lists."""
    s = slot_row(hs, i, index)
    seq = flight.seq_of(hs, q, index)
    flight.take(hs, i, q, index)
    s["count"] = (s["count"] + 1) & wire.COUNT_MASK
    if s["epoch"] != q["epoch"]:
        s["first"] = NIL
    q["st_retransmitted"] += 1
    return _emit(hs, i, q, index, seq, buf, o, now)


@inner
def _repeat_last(hs: Any, i: int, q: Any, buf: Any, o: int, now: int) -> int:
    """The tail-loss probe when there is nothing new: the last packet, whose ACK shows what is missing."""
    if q["flight_tail"] == NIL:
        return 0
    return _repeat(hs, i, q, q["flight_tail"], buf, o, now)


@inner
def _emit(hs: Any, i: int, q: Any, index: int, seq: int, buf: Any, o: int, now: int) -> int:
    cfg = cfg_row(hs)
    s = slot_row(hs, i, index)
    flight.append(hs, i, q, index, now)
    cc.on_sent(cfg, q, s["size"], s["txn"], now)
    c = candidate_row(hs, i, q["cand"])
    c["packets"] += 1
    q["st_packets"] += 1
    paths.after_data(hs, i, q, now)
    timers.advance(hs, i, q, deadline(hs, i, q))
    w = wqe_row(hs, i, s["wqe"])
    return wire.write_data(hs, buf, o, q, c, w, seq, np.int64(s["count"]), seq - w["first"])


# -- acknowledgements ---------------------------------------------------------------------------------------


@inner
def on_ack(hs: Any, i: int, now: int) -> None:
    """The ACK or NAK in `frame_row(hs)` came in for QP `i`."""
    f = frame_row(hs)
    q = qp_row(hs, i)
    if q["state"] != QPS_RTS:
        host_row(hs, q["host"])["rx_wrong_state"] += 1
        return
    if f["syndrome"] == SYNDROME_ACK:
        _on_positive(hs, i, q, f, now)
    elif f["syndrome"] == SYNDROME_ACCESS:
        _on_refused(hs, i, q, unwrap(f["psn"], q["snd_una"]))
    elif f["syndrome"] == SYNDROME_RNR:
        q["retries"] = 0
    if q["nak_seq"] >= 0 and q["snd_una"] >= q["nak_seq"]:
        fail(hs, i, np.int64(WC_REM_ACCESS_ERR))
    elif can_send(hs, q):
        activate(hs, i, q)


@inner
def _on_positive(hs: Any, i: int, q: Any, f: Any, now: int) -> None:
    q["st_ecn_marked"] += f["ce"]
    measured = _measured_path(hs, i, q, f)
    newest = _on_trigger(hs, i, q, f, now)
    cum = min(unwrap(f["psn"], q["snd_una"]) + 1, q["snd_nxt"])
    for seq in range(q["snd_una"], cum):
        newest = max(newest, _acked(hs, i, q, seq, np.int64(-1), now))
    if f["bitmap"]:
        base = unwrap(f["base"], q["snd_una"])
        for k in range(max(0, q["snd_una"] - base), min(SACK_BITS, q["snd_nxt"] - base)):
            if (f["bitmap"] >> k) & 1:
                newest = max(newest, _acked(hs, i, q, base + k, np.int64(-1), now))
    if newest >= 0:
        _lose_before(hs, i, q, q["epoch_head"], newest, q["epoch"], now)
    _slide(hs, i, q)
    if measured != NIL:  # last, because it may make the QP leave the path that all this was about
        paths.on_data_delay(hs, i, q, measured, f["delay"], now)


@inner
def _measured_path(hs: Any, i: int, q: Any, f: Any) -> Any:
    """Candidate whose queuing delay the ACK reflects if that is the current path, else `NIL`."""
    seq = unwrap(f["trigger"], q["snd_una"])
    if not f["has_delay"] or seq < q["snd_una"] or seq >= q["snd_nxt"]:
        return np.int64(NIL)
    s = slot_row(hs, i, seq & (cfg_row(hs)["window"] - 1))
    fresh = s["state"] == SLOT_FLIGHT and s["count"] == f["count"] and s["epoch"] == q["epoch"]
    return np.int64(s["cand"]) if fresh else np.int64(NIL)


@inner
def _on_trigger(hs: Any, i: int, q: Any, f: Any, now: int) -> int:
    """The packet that caused the ACK: round trip and mark. Returns its `txn`, as `_acked` does."""
    seq = unwrap(f["trigger"], q["snd_una"])
    if seq < q["snd_una"] or seq >= q["snd_nxt"]:
        return -1
    s = slot_row(hs, i, seq & (cfg_row(hs)["window"] - 1))
    _sample_round_trip(q, s, f["count"], now)
    if s["state"] != SLOT_FLIGHT or s["count"] != f["count"]:
        return _acked(hs, i, q, seq, f["count"], now)
    if s["epoch"] != q["epoch"]:
        txn, epoch = s["txn"], np.int64(s["epoch"])
        _acked(hs, i, q, seq, f["count"], now)
        _lose_before(hs, i, q, q["flight_head"], txn, epoch, now)
        return -1
    if f["ce"]:
        cc.on_ecn(cfg_row(hs), q, s["size"], s["txn"], now)
    return _acked(hs, i, q, seq, f["count"], now)


@inner
def _sample_round_trip(q: Any, s: Any, count: int, now: int) -> None:
    """Transmission `count` of a packet has arrived. Since ACKs name it, packets sent twice give samples too (no need
    for Karn's rule), also if the last transmission was in vain: a timeout that was too short corrects itself."""
    if s["state"] == SLOT_ACKED or s["epoch"] != q["epoch"]:
        return
    if count == s["count"]:
        rtt.on_sample(q, now - s["sent"])
    elif count == 0 and s["first"] >= 0:
        rtt.on_sample(q, now - s["first"])


@inner
def _acked(hs: Any, i: int, q: Any, seq: int, count: int, now: int) -> int:
    """Packet `seq` has arrived; `count` says in which transmission (-1: not known).

    Returns the transmission's number if it is one of the current epoch from which the loss of earlier ones
    follows, else -1."""
    index = seq & (cfg_row(hs)["window"] - 1)
    s = slot_row(hs, i, index)
    if s["state"] != SLOT_FLIGHT and s["state"] != SLOT_LOST:
        return -1
    q["retries"] = 0
    in_flight = s["state"] == SLOT_FLIGHT
    if not in_flight or (count >= 0 and count != s["count"]):
        q["st_spurious"] += 1
    if s["epoch"] == q["epoch"]:
        q["last_progress"] = now
        q["epoch_rtos"] = 0
        q["tail_probe"] = PROBE_NONE
    current = in_flight and s["epoch"] == q["epoch"]
    if current:
        cc.on_acked(cfg_row(hs), q, s["size"], s["txn"], now)
    flight.take(hs, i, q, index)
    known = count == s["count"] or (count < 0 and s["count"] == 0)
    return s["txn"] if current and known else -1


@inner
def _lose_before(hs: Any, i: int, q: Any, index: int, txn: int, epoch: int, now: int) -> None:
    """Declares lost what was sent in `epoch` before `txn`, beginning at `index` of the flight list."""
    while index != NIL:
        s = slot_row(hs, i, index)
        if s["txn"] >= txn or s["epoch"] > epoch:
            return
        after = s["next"]
        if s["epoch"] == epoch:
            flight.lose(hs, i, q, index)
            if epoch == q["epoch"]:
                cc.on_lost(cfg_row(hs), q, s["txn"], now)
        index = after


@inner
def _slide(hs: Any, i: int, q: Any) -> None:
    """Moves the window over what is acknowledged and completes work requests in order."""
    mask = cfg_row(hs)["window"] - 1
    while q["snd_una"] < q["snd_nxt"]:
        s = slot_row(hs, i, q["snd_una"] & mask)
        if s["state"] == SLOT_FLIGHT or s["state"] == SLOT_LOST:
            break
        s["state"] = SLOT_FREE
        q["snd_una"] += 1
    while q["sq_una"] < q["sq_end"]:
        w = wqe_row(hs, i, q["sq_una"] & (cfg_row(hs)["sq_depth"] - 1))
        if w["first"] + w["packets"] > q["snd_una"]:
            break
        if q["sq_nxt"] == q["sq_una"]:
            q["sq_nxt"] += 1
        complete(hs, i, q, np.int64(WC_SUCCESS))


@inner
def _on_refused(hs: Any, i: int, q: Any, seq: int) -> None:
    """Remote access error at `seq`: nothing from there on is sent any more; what precedes it is completed."""
    if seq < q["snd_una"] or seq >= q["snd_nxt"]:
        return
    for k in range(seq, q["snd_nxt"]):
        flight.take(hs, i, q, k & (cfg_row(hs)["window"] - 1))
    q["nak_seq"] = seq
    q["snd_nxt"] = seq
    q["retries"] = 0


# -- time ---------------------------------------------------------------------------------------------------


@inner
def deadline(hs: Any, i: int, q: Any) -> int:
    """When QP `i` wants `on_deadline` to be called."""
    when = min(_loss_deadline(hs, i, q), paths.deadline(q), q["cc_timer"])
    if q["pace_next"] and not q["active"] and can_send(hs, q):
        when = min(when, q["pace_next"])
    return when


@inner
def _loss_deadline(hs: Any, i: int, q: Any) -> int:
    if q["flight_head"] == NIL:
        return MAX_TIME
    cfg = cfg_row(hs)
    rto = rtt.timeout(cfg, q)
    when = MAX_TIME
    if q["epoch_head"] != NIL:
        quiet = max(slot_row(hs, i, q["epoch_head"])["sent"], q["last_progress"])
        when = quiet + rto
        if q["tail_probe"] == PROBE_NONE and rtt.is_known(q):
            when = min(when, quiet + rtt.probe_timeout(cfg, q))
    if q["flight_head"] != q["epoch_head"]:
        when = min(when, slot_row(hs, i, q["flight_head"])["sent"] + q["left_rto"])
    return when


@inner
def on_deadline(hs: Any, i: int, now: int) -> None:
    """Does whatever of the QP's timers is due."""
    q = qp_row(hs, i)
    if q["state"] != QPS_RTS:
        return
    if q["cc_timer"] <= now:
        cc.on_timer(cfg_row(hs), q, now)
    paths.on_deadline(hs, i, q, now)
    if _loss_deadline(hs, i, q) <= now:
        _on_loss_deadline(hs, i, q, now)
    if q["state"] == QPS_RTS and can_send(hs, q):
        activate(hs, i, q)


@inner
def _on_loss_deadline(hs: Any, i: int, q: Any, now: int) -> None:
    index = q["flight_head"]
    while index != NIL and index != q["epoch_head"]:  # leftovers of older paths
        s = slot_row(hs, i, index)
        if s["sent"] + q["left_rto"] > now:
            break
        after = s["next"]
        flight.lose(hs, i, q, index)
        index = after
    if q["epoch_head"] == NIL:
        return
    quiet = max(slot_row(hs, i, q["epoch_head"])["sent"], q["last_progress"])
    if quiet + rtt.timeout(cfg_row(hs), q) <= now:
        _on_rto(hs, i, q, now)
    elif q["tail_probe"] == PROBE_NONE and rtt.is_known(q) and quiet + rtt.probe_timeout(cfg_row(hs), q) <= now:
        q["tail_probe"] = PROBE_DUE


@inner
def _on_rto(hs: Any, i: int, q: Any, now: int) -> None:
    """Nothing has come back on this path: all of it counts as lost (RFC 6298, 5.4 to 5.6)."""
    cfg = cfg_row(hs)
    q["st_rtos"] += 1
    q["retries"] += 1
    q["epoch_rtos"] += 1
    if q["retries"] > cfg["retry_count"]:
        fail(hs, i, np.int64(WC_RETRY_EXC_ERR))
        return
    while q["epoch_head"] != NIL:
        flight.lose(hs, i, q, q["epoch_head"])
    q["tail_probe"] = PROBE_SENT
    cc.on_rto(cfg, q, now)
    if q["epoch_rtos"] >= cfg["dead_path_rtos"]:
        paths.leave_dead_path(hs, i, q, now)
