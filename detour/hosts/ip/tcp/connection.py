# SPDX-License-Identifier: Apache-2.0
"""A connection's life (RFC 9293, 3.10): opening, segments that come in, timers, its end."""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.memory import load8, load16be, load32be, move_bytes, set_bytes, store64
from detour.base.structs import offsets
from detour.base.times import MAX_TIME
from detour.hosts.cc import control as cc
from detour.hosts.draws import draw
from detour.hosts.ip import demux, timers
from detour.hosts.ip.frames import checked
from detour.hosts.ip.layout import PROTO_TCP, TCP_SOCKET, ParsedFrame, SocketRecord, StackGlobals, host_row, socket_row
from detour.hosts.ip.tcp import acks, control, lists, receiver, recovery, rto, segments, sender
from detour.hosts.ip.tcp import layout as tcp
from detour.hosts.ip.tcp.layout import ConnRecord, SegmentRecord, conn_row

_LOW = int64(0xFFFFFFFF)
_NONE = int64(0)
_CONFIG_AT = offsets(ConnRecord)["ring"]
_CONFIG_BYTES = offsets(ConnRecord)["tx_segments"] - _CONFIG_AT
_CONN_BYTES = ConnRecord.dtype.itemsize
_SEGMENT_BYTES = SegmentRecord.dtype.itemsize


# -- opening ---------------------------------------------------------------------------------------------


@inner()
def _prepare(g: StackGlobals, i: int, state: int, now: int) -> None:
    """A connection whose parameters are set begins. The initial number is random (RFC 9293, 3.4.1, for its sake)."""
    s, c = socket_row(g, i), conn_row(g, i)
    h = host_row(g, s.host)
    c.state = state
    c.iss = (draw(h) << 1) | (draw(h) & 1)
    c.snd_una = 0
    c.snd_nxt = 1
    c.want_syn = 1
    c.rcv_edge = 0
    lists.forget(c)
    c.high1 = c.high2 = c.high3 = -1
    c.rack_txn = -1
    c.rto = c.initial_rto_ps
    rto.stop(c)
    c.delack_due = MAX_TIME
    c.cc_timer = MAX_TIME
    c.wait_due = MAX_TIME
    c.shift_in = 0
    while (c.rcv_buffer >> c.shift_in) > 65_535 and c.shift_in < 14:
        c.shift_in += 1
    own = g.cc_rows + i * tcp.CC_BYTES
    set_bytes(own, 0, tcp.CC_BYTES)
    c.cc_row = own
    store64(own, c.cc_table)
    timers.make_ready(g, i, s)


@inner()
def open_active(g: StackGlobals, i: int, start: int) -> None:
    """The SYN goes at `start`."""
    s, c = socket_row(g, i), conn_row(g, i)
    _prepare(g, i, int64(tcp.SYN_SENT), start)
    c.want_syn = 0
    c.rto_due = start
    c.retries = -1
    rto.arm(g, s, c, i)


@inner()
def _accept(g: StackGlobals, host: int, listening: int, f: ParsedFrame, now: int) -> int:
    """A SYN for a listener: a connection with its parameters; -1: no room."""
    i = demux.new_socket(g, host, int64(TCP_SOCKET), int64(PROTO_TCP))
    if i < 0:
        return -1
    s, c = socket_row(g, i), conn_row(g, i)
    s.v6 = f.v6
    s.lport = f.dport
    s.rport = f.sport
    s.l_hi, s.l_lo = f.dst_hi, f.dst_lo
    s.r_hi, s.r_lo = f.src_hi, f.src_lo
    s.ttl = host_row(g, host).ttl
    s.tos = socket_row(g, listening).tos
    set_bytes(g.conns + i * _CONN_BYTES, 0, _CONN_BYTES)
    move_bytes(g.conns + i * _CONN_BYTES + _CONFIG_AT, g.conns + listening * _CONN_BYTES + _CONFIG_AT, _CONFIG_BYTES)
    c.listener = listening
    c.stop_ps = MAX_TIME
    c.snd_end = 1
    c.trace_room = 0
    c.ring = tcp.FEW_SEGMENTS
    c.segs = g.segments + i * tcp.FEW_SEGMENTS * _SEGMENT_BYTES
    if f.v6 != 0:
        c.mss_limit -= 20
    segments.parse_options(c, f.at, f.header, True)
    _prepare(g, i, int64(tcp.SYN_RECEIVED), now)
    _agree(c, f.flags & (tcp.ECE | tcp.CWR) == tcp.ECE | tcp.CWR)
    c.irs = f.seq
    c.rcv_nxt = 1
    demux.enter(g, i)
    rto.arm(g, s, c, i)
    return i


@inner()
def _agree(c: ConnRecord, ecn: bool) -> None:
    """Set the options that both ends support, as the incoming SYN or SYN-ACK says."""
    c.sack_ok = 1 if c.sack != 0 and c.peer_sack != 0 else 0
    c.ts_ok = 1 if c.timestamps != 0 and c.ts_there != 0 else 0
    c.ecn_ok = 1 if c.ecn != 0 and ecn else 0
    c.scale_ok = 1 if c.peer_shift >= 0 else 0
    c.shift_out = max(c.peer_shift, 0)
    if c.scale_ok == 0:
        c.shift_in = 0
    c.mss = max(min(c.peer_mss, c.mss_limit), 64) - (12 if c.ts_ok != 0 else 0)
    if c.ts_ok != 0:
        c.ts_echo = c.ts_value


@inner()
def _established(c: ConnRecord, now: int) -> None:
    c.state = tcp.ESTABLISHED
    c.established_ps = now
    c.snd_una = 1
    c.retries = 0
    c.backoff = 0
    c.rto = max(c.rto, c.min_rto_ps)
    rto.stop(c)
    control.begin(c, now)
    control.note(c, now)


# -- segments that come in -------------------------------------------------------------------------------


@inner()
def receive(g: StackGlobals, host: int, f: ParsedFrame, now: int) -> bool:
    """A segment came in; False if its checksum is wrong."""
    h = host_row(g, host)
    f.header = (load8(f.at + 12) >> 4) << 2 if f.here >= 20 else 0
    if f.header < 20 or f.header > f.here:
        h.rx_malformed += 1
        return True
    if not checked(f):
        return False
    f.sport, f.dport = load16be(f.at), load16be(f.at + 2)
    f.seq, f.ack, f.flags = load32be(f.at + 4), load32be(f.at + 8), load8(f.at + 13)
    i = demux.find(g, host, int64(PROTO_TCP), f.dport, f.src_hi, f.src_lo, f.sport)
    if i >= 0:
        s, c = socket_row(g, i), conn_row(g, i)
        _segment(g, s, c, i, f, now)
        if sender.wants(g, c, now):
            timers.make_ready(g, i, s)
        rto.arm(g, s, c, i)
        return True
    if f.flags & (tcp.SYN | tcp.ACK | tcp.RST) == tcp.SYN:
        listening = demux.find(g, host, int64(PROTO_TCP), f.dport, _NONE, _NONE, _NONE)
        if listening >= 0:
            _accept(g, host, listening, f, now)
            return True
    h.rx_no_port += 1
    segments.refuse(g, host, f)
    return True


@inner()
def _segment(g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int, f: ParsedFrame, now: int) -> None:
    segments.parse_options(c, f.at, f.header, f.flags & tcp.SYN != 0)
    if c.state == tcp.SYN_SENT:
        _in_syn_sent(g, s, c, i, f, now)
        return
    left = acks.offset(c.rcv_nxt, c.irs, f.seq)
    right = left + f.length - f.header
    if not _acceptable(c, left, right, f.flags):
        if f.flags & tcp.RST == 0:
            if f.flags & tcp.SYN and c.state == tcp.SYN_RECEIVED:
                c.want_syn = 1
            else:
                c.want_ack = 1
                if left < right <= c.rcv_nxt:
                    receiver.old(c, left, right)
        return
    if f.flags & tcp.RST:
        if c.state == tcp.TIME_WAIT:
            return  # it may answer an old duplicate (RFC 1337)
        if left == c.rcv_nxt:  # else it may be forged (RFC 5961, 3.2)
            _end(g, c, s, i, int64(tcp.END_REFUSED if c.state == tcp.SYN_RECEIVED else tcp.RESET), now)
        else:
            c.want_ack = 1
        return
    if f.flags & tcp.SYN:  # RFC 5961, 4
        if c.state == tcp.SYN_RECEIVED:
            c.want_syn = 1
        else:
            c.want_ack = 1
        return
    if f.flags & tcp.ACK == 0:
        return
    if c.ts_ok != 0 and c.ts_there != 0:
        _remember_time(c, left, now)
    _with_ack(g, s, c, i, f, left, right, now)


@inner()
def _acceptable(c: ConnRecord, left: int, right: int, flags: int) -> bool:
    """Return whether a segment lies in the window (RFC 9293, 3.4), and its timestamp is not old (RFC 7323, 5.2)."""
    if c.ts_ok != 0 and c.ts_there != 0 and flags & tcp.RST == 0 and c.ts_recent != 0:
        age = (c.ts_value - c.ts_echo) & _LOW
        if age >= 1 << 31:
            c.rx_dropped += 1
            return False
    if flags & tcp.FIN:
        right += 1
    edge = max(c.rcv_edge, c.rcv_nxt)
    return left <= edge and right >= c.rcv_nxt


@inner()
def _remember_time(c: ConnRecord, left: int, now: int) -> None:
    """The timestamp that is echoed (RFC 7323, 4.3). `ts_recent`: 1 once there is one."""
    if left <= c.rcv_nxt:
        c.ts_echo = c.ts_value
        c.ts_recent = 1


@inner()
def _with_ack(
    g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int, f: ParsedFrame, left: int, right: int, now: int
) -> None:
    """The rest: the ACK, the data, the FIN."""
    acked = acks.offset(c.snd_una, c.iss, f.ack)
    if acked > c.snd_nxt:
        if c.state == tcp.SYN_RECEIVED:
            segments.refuse(g, s.host, f)
        else:
            c.want_ack = 1
        return
    if c.state == tcp.SYN_RECEIVED:
        if acked < 1:
            return
        if c.retries == 0:
            rto.measured(c, max(now - c.last_sent, 1))
        _established(c, now)
        c.snd_edge = 1 + (load16be(f.at + 14) << c.shift_out)
    if acked >= c.snd_una - max(c.last_window, 1 << 16):
        acks.on_ack(g, c, i, acked, load16be(f.at + 14), f.flags, right == left, now)
    _closing(g, c, s, i, now)
    if c.state == tcp.CLOSED:
        return
    open_for_data = c.state in (tcp.ESTABLISHED, tcp.FIN_WAIT_1, tcp.FIN_WAIT_2)
    if right > left and open_for_data:
        receiver.on_data(g, s, c, i, f, left, right, now)
    if f.flags & tcp.FIN and open_for_data:
        c.fin_at = right
        if right > c.rcv_nxt:
            c.want_ack = 1
    if c.fin_at > 0 and c.rcv_nxt == c.fin_at:
        _on_fin(c, now)
    elif f.flags & tcp.FIN and c.fin_at > 0 and c.rcv_nxt > c.fin_at:
        c.want_ack = 1
        if c.state == tcp.TIME_WAIT:
            c.wait_due = now + c.time_wait_ps


@inner()
def _in_syn_sent(g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int, f: ParsedFrame, now: int) -> None:
    """RFC 9293, 3.10.7.3. Both ends may open at once."""
    if f.flags & tcp.ACK and acks.offset(_NONE, c.iss, f.ack) != 1:
        segments.refuse(g, s.host, f)
        return
    if f.flags & tcp.RST:
        if f.flags & tcp.ACK:
            _end(g, c, s, i, int64(tcp.END_REFUSED), now)
        return
    if f.flags & tcp.SYN == 0:
        return
    c.irs = f.seq
    c.rcv_nxt = 1
    if f.flags & tcp.ACK:
        _agree(c, f.flags & (tcp.ECE | tcp.CWR) == tcp.ECE and c.retries <= 0)
        if c.retries == 0:
            rto.measured(c, max(now - c.last_sent, 1))
        _established(c, now)
        c.snd_edge = 1 + load16be(f.at + 14)
        c.want_ack = 1
    else:
        _agree(c, f.flags & (tcp.ECE | tcp.CWR) == tcp.ECE | tcp.CWR)
        c.state = tcp.SYN_RECEIVED
        c.want_syn = 1
    if c.ts_there != 0:
        c.ts_recent = 1


# -- the end ---------------------------------------------------------------------------------------------


@inner()
def _end(g: StackGlobals, c: ConnRecord, s: SocketRecord, i: int, error: int, now: int) -> None:
    """The connection is no more."""
    c.state = tcp.CLOSED
    c.error = error
    c.closed_ps = now
    c.want_syn = 0
    c.want_ack = 0
    c.want_probe = 0
    lists.forget(c)
    c.seg_una = c.seg_nxt
    rto.stop(c)
    c.delack_due = MAX_TIME
    c.wait_due = MAX_TIME
    c.cc_timer = MAX_TIME
    s.closed = 1
    demux.remove(g, i)


@inner()
def _closing(g: StackGlobals, c: ConnRecord, s: SocketRecord, i: int, now: int) -> None:
    """React to an ACK of our FIN."""
    if c.snd_una <= c.snd_end:
        return
    if c.state == tcp.FIN_WAIT_1:
        c.state = tcp.FIN_WAIT_2
        s.closed = 1
    elif c.state == tcp.CLOSING:
        _wait(c, s, now)
    elif c.state == tcp.LAST_ACK:
        _end(g, c, s, i, int64(tcp.NO_ERROR), now)


@inner()
def _wait(c: ConnRecord, s: SocketRecord, now: int) -> None:
    c.state = tcp.TIME_WAIT
    c.closed_ps = now
    s.closed = 1
    rto.stop(c)
    c.wait_due = now + c.time_wait_ps


@inner()
def _on_fin(c: ConnRecord, now: int) -> None:
    """The peer sends nothing any more. Whoever only listened closes as well."""
    c.rcv_nxt += 1
    c.want_ack = 1
    if c.state == tcp.ESTABLISHED:
        c.state = tcp.CLOSE_WAIT
        if c.listener >= 0:
            finish(c)
    elif c.state == tcp.FIN_WAIT_1:
        c.state = tcp.CLOSING
    elif c.state == tcp.FIN_WAIT_2:
        c.state = tcp.TIME_WAIT
        c.closed_ps = now
        c.wait_due = now + c.time_wait_ps


@inner()
def finish(c: ConnRecord) -> None:
    """Nothing more is written: what was is sent, then a FIN."""
    if c.fin != 0:
        return
    if c.snd_end == tcp.UNLIMITED:
        c.snd_end = c.snd_nxt
    c.fin = 1


# -- timers ----------------------------------------------------------------------------------------------


@inner()
def on_timer(g: StackGlobals, i: int, now: int) -> None:
    """A deadline of the connection has passed."""
    s, c = socket_row(g, i), conn_row(g, i)
    c.pace_wait = 0
    if c.wait_due <= now:
        c.state = tcp.CLOSED
        c.wait_due = MAX_TIME
        demux.remove(g, i)
    if c.stop_ps <= now and c.state >= tcp.ESTABLISHED:
        c.stop_ps = MAX_TIME
        finish(c)
    if c.delack_due <= now:
        c.delack_due = MAX_TIME
        c.want_ack = 1
    if c.cc_timer <= now:
        cc.on_timer(c, now)
    if c.reorder_due <= now:
        c.delivered = 0
        recovery.detect(g, c, i, now)
    if c.probe_due <= now:
        c.probe_due = MAX_TIME
        c.want_probe = 1
    if c.rto_due <= now:
        _timeout(g, s, c, i, now)
    if sender.wants(g, c, now):
        timers.make_ready(g, i, s)
    rto.arm(g, s, c, i)


@inner()
def _timeout(g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int, now: int) -> None:
    """The retransmission timeout."""
    if c.retries >= c.max_retries:
        _end(g, c, s, i, int64(tcp.TIMED_OUT), now)
        return
    if c.state < tcp.ESTABLISHED:
        c.retries += 1
        c.backoff = max(c.retries, 0)
        c.want_syn = 1
        c.rto_due = now + rto.timeout(c)
    elif c.seg_una < c.seg_nxt:
        recovery.on_timeout(g, c, i, now)
        control.note(c, now)
    elif c.snd_end + c.fin > c.snd_nxt and c.snd_edge <= c.snd_nxt:
        c.snd_edge = c.snd_nxt + 1  # a window of 0 is probed with a byte (RFC 9293, 3.8.6.1)
        c.backoff += 1
        c.rto_due = now + rto.timeout(c)
    else:
        c.rto_due = MAX_TIME
