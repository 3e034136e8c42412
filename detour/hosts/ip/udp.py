# SPDX-License-Identifier: Apache-2.0
"""UDP (RFC 768): flows that send by a clock of theirs, and ports that count what arrives.

A payload begins with a magic number, the flow, the packet's number and the time at which it was sent; the rest is the
pattern. So a receiver knows one-way delays (if its clock is the sender's, as within a network), what is missing, what
came late and what is damaged. Reordering is counted as in RFC 4737: a packet is late if one with a higher number
arrived before it; by how much is how many numbers the highest one is ahead.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.memory import load16be, load32be, load64, load64be, store16be, store32be, store64, store64be
from detour.hosts.draws import draw, exponential
from detour.hosts.frames.checksum import fold, sum_bytes
from detour.hosts.ip import demux, icmp, layout, neighbours, timers
from detour.hosts.ip.frames import checked, put_headers
from detour.hosts.ip.layout import (
    IpHostRecord,
    ParsedFrame,
    PeerRecord,
    SampleRecord,
    SocketRecord,
    StackGlobals,
    UdpFlowRecord,
    flow_row,
    host_row,
    peer_row,
    sample_at,
    size_at,
    socket_row,
)
from detour.hosts.ip.pattern import is_pattern, pattern_sum, put_pattern

_UDP_BYTES = int64(8)
_CE = int64(3)
_PS_BITS = int64(8 * 10**12)
_NONE = int64(0)
_SAMPLE_BYTES = SampleRecord.dtype.itemsize


# -- sending ---------------------------------------------------------------------------------------------


@inner()
def _draw_size(h: IpHostRecord, f: UdpFlowRecord) -> None:
    """Bytes of the next payload."""
    f.size = f.fixed_size
    if f.n_sizes > 0:
        x = draw(h)
        low, high = int64(0), f.n_sizes - 1
        while low < high:
            middle = (low + high) >> 1
            if x < size_at(f.sizes, middle).below:
                high = middle
            else:
                low = middle + 1
        f.size = size_at(f.sizes, low).bytes


@inner()
def _wander(g: StackGlobals, h: IpHostRecord, f: UdpFlowRecord, gap: int) -> int:
    """Return how much later than a gap the next packet of a constant flow is due: how late the flow is changes by up to
    half the stack's jitter a packet, between nothing and a gap. So the phase of two equal flows is not that of their
    beginning, and a flow sends as many packets as it is to."""
    most = min(g.jitter_ps, gap)
    if most == 0:
        return 0
    before = f.shift_ps
    shift = abs(before + ((draw(h) * (most >> 8)) >> 23) - (most >> 1))
    if shift > gap:
        shift = 2 * gap - shift
    f.shift_ps = max(shift, before - gap, 0)
    return f.shift_ps - before


@inner()
def _advance(g: StackGlobals, h: IpHostRecord, f: UdpFlowRecord) -> None:
    """The time at which the packet after this one is due. What the division leaves over is not lost."""
    bits = f.size * _PS_BITS + f.rest
    gap = bits // f.rate_bps
    if f.mode == layout.CONSTANT:
        f.rest = bits - gap * f.rate_bps
        f.next_ps += gap + _wander(g, h, f, gap)
    elif f.mode == layout.ON_OFF:
        f.rest = bits - gap * f.rate_bps
        f.next_ps += gap
        while f.next_ps >= f.until_ps:
            silence = exponential(h, f.off_ps)
            f.next_ps += silence
            f.until_ps += silence + exponential(h, f.on_ps)
    else:
        f.next_ps += exponential(h, gap)
    _draw_size(h, f)


@inner()
def begin(g: StackGlobals, i: int) -> None:
    """A flow is set up: its first packet is due at `next_ps`."""
    s, f = socket_row(g, i), flow_row(g, i)
    h = host_row(g, s.host)
    if f.mode == layout.ON_OFF:
        f.until_ps = f.next_ps + exponential(h, f.on_ps)
    _draw_size(h, f)
    timers.set_due(g, i, s, f.next_ps)


@inner()
def write(g: StackGlobals, i: int, frame: int, now: int) -> int:
    """The next packet; returns bytes stored << 32 | on the wire, 0: none goes now."""
    s, f = socket_row(g, i), flow_row(g, i)
    if now < f.next_ps or f.next_ps - f.shift_ps >= f.stop_ps or f.left == 0:
        return 0
    if s.failed == 0 and not neighbours.reachable(g, s, i) and s.failed == 0:
        return 0
    both = _put(g, s, f, i, frame, now) if s.failed == 0 else _NONE
    if s.failed != 0:
        s.failed = 0
        f.unreachable += 1
    f.tx_packets += 1
    f.tx_bytes += f.size
    f.first_ps = now if f.tx_packets == 1 else f.first_ps
    f.last_ps = now
    f.left -= 1
    _advance(g, host_row(g, s.host), f)
    if f.left == 0 or f.next_ps - f.shift_ps >= f.stop_ps:
        s.closed = 1
    elif f.next_ps <= now:
        timers.make_ready(g, i, s)
    else:
        timers.set_due(g, i, s, f.next_ps)
    return both


@inner()
def _put(g: StackGlobals, s: SocketRecord, f: UdpFlowRecord, i: int, frame: int, now: int) -> int:
    """Write a packet."""
    length = _UDP_BYTES + f.size
    at = put_headers(s, g.headers + i * layout.HEADERS_BYTES, frame, s.tos, length)
    store16be(at, s.lport)
    store16be(at + 2, s.rport)
    store16be(at + 4, length)
    total = s.l4_sum + 2 * length
    payload = at + _UDP_BYTES
    rest, place, stored = f.size, f.tx_packets, at - frame + _UDP_BYTES
    if f.size >= layout.UDP_HEAD:
        store32be(payload, layout.UDP_MAGIC)
        store32be(payload + 4, s.flow_id)
        store64be(payload + 8, f.tx_packets)
        store64be(payload + 16, now)
        total += sum_bytes(payload, int64(layout.UDP_HEAD))
        stored += layout.UDP_HEAD
        payload += layout.UDP_HEAD
        rest -= layout.UDP_HEAD
    if g.elide == 0 and rest > 0:
        put_pattern(g, payload, place, rest)
        total += pattern_sum(g, place, rest)
        stored += rest
    check = ~fold(total) & 0xFFFF
    store16be(at + 6, check if check != 0 else int64(0xFFFF))
    return (stored << 32) | (at - frame + length)


# -- receiving -------------------------------------------------------------------------------------------


@inner()
def receive(g: StackGlobals, host: int, f: ParsedFrame, ip: int, now: int) -> bool:
    """A datagram came in; False if its checksum is wrong."""
    h = host_row(g, host)
    if f.here < _UDP_BYTES:
        h.rx_malformed += 1
        return True
    length = load16be(f.at + 4)
    if length < _UDP_BYTES or length > f.length:
        h.rx_malformed += 1
        return True
    f.length = length
    f.here = min(f.here, length)
    if (load16be(f.at + 6) != 0 or f.v6 != 0) and not checked(f):
        return False
    sport, port = load16be(f.at), load16be(f.at + 2)
    i = demux.find(g, host, int64(layout.PROTO_UDP), port, f.src_hi, f.src_lo, sport)
    if i < 0:
        i = _new_peer(g, host, f, port, sport)
    if i == -1:
        icmp.port_unreachable(g, host, f, ip)
    elif i >= 0 and socket_row(g, i).kind == layout.UDP_PEER:
        _count(g, peer_row(g, i), f, now)
    return True


@inner()
def _new_peer(g: StackGlobals, host: int, f: ParsedFrame, port: int, sport: int) -> int:
    """Add a row for packets from a sender that is new to a port; return -1 if the port is not open, -2 if there is no
    room."""
    listening = demux.find(g, host, int64(layout.PROTO_UDP), port, _NONE, _NONE, _NONE)
    if listening < 0:
        return -1
    i = demux.new_socket(g, host, int64(layout.UDP_PEER), int64(layout.PROTO_UDP))
    if i < 0:
        return -2
    s = socket_row(g, i)
    s.lport = port
    s.rport = sport
    s.r_hi = f.src_hi
    s.r_lo = f.src_lo
    s.v6 = f.v6
    p, template = peer_row(g, i), peer_row(g, listening)
    # A port that keeps samples or histograms has room for those of a few senders.
    if template.room > template.taken:
        p.samples = template.samples + _SAMPLE_BYTES * template.taken
        p.room = template.share
        template.taken += template.share
    if template.histogram != 0 and template.histograms > 0:
        p.histogram = template.histogram
        template.histogram += 8 * layout.BUCKETS
        template.histograms -= 1
    demux.enter(g, i)
    return i


@inner()
def bucket(delay: int) -> int:
    """Number of the bucket of a histogram: eight an octave."""
    if delay < 8:
        return max(delay, 0)
    shift = int64(0)
    x = delay
    while x >= 16:
        x >>= 1
        shift += 1
    return min(8 * shift + x, layout.BUCKETS - 1)


@inner()
def _count(g: StackGlobals, p: PeerRecord, f: ParsedFrame, now: int) -> None:
    """Enter a packet of a sender."""
    size = f.length - _UDP_BYTES
    ce = 1 if f.tos & 3 == _CE else 0
    p.rx_packets += 1
    p.rx_bytes += size
    p.rx_ce += ce
    p.first_ps = now if p.rx_packets == 1 else p.first_ps
    p.last_ps = now
    payload = f.at + _UDP_BYTES
    seq, sent = int64(-1), int64(-1)
    if f.here >= _UDP_BYTES + layout.UDP_HEAD and load32be(payload) == layout.UDP_MAGIC:
        seq, sent = load64be(payload + 8), load64be(payload + 16)
        if g.elide == 0 and not is_pattern(g, payload + layout.UDP_HEAD, seq, f.here - _UDP_BYTES - layout.UDP_HEAD):
            p.corrupt += 1
        _measure(p, seq, now - sent)
    if p.taken < p.room:
        sample = sample_at(p.samples, p.taken)
        sample.time_ps = now
        sample.sent_ps = sent
        sample.seq = seq
        sample.bytes = size
        sample.ce = ce
        p.taken += 1


@inner()
def _measure(p: PeerRecord, seq: int, delay: int) -> None:
    """Order and delay of a packet that says its number and its time."""
    if seq >= p.expected:
        p.gaps += seq - p.expected
        p.expected = seq + 1
    else:
        p.reordered += 1
        p.displaced = max(p.displaced, p.expected - 1 - seq)
    p.delay_sum += delay
    p.delay_max = max(p.delay_max, delay)
    p.delay_min = delay if p.measured == 0 else min(p.delay_min, delay)
    if p.measured > 0:  # RFC 3550, 6.4.1, in sixteenths
        p.jitter += abs(delay - p.last_delay) - (p.jitter >> 4)
    p.measured += 1
    p.last_delay = delay
    if p.histogram != 0:
        at = p.histogram + 8 * bucket(delay)
        store64(at, load64(at) + 1)
