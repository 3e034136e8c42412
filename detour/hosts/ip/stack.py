# SPDX-License-Identifier: Apache-2.0
"""The contract of `hosts.stacks` for IP hosts: six native functions of a state and a host.

`state` is the address of the record of globals, `frame` that of a frame with room for the longest one.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.memory import load16be
from detour.base.native import Part
from detour.hosts.frames.headers import ETHERNET_BYTES, TYPE_ARP, TYPE_IPV4, TYPE_IPV6, load48
from detour.hosts.ip import demux, icmp, layout, neighbours, raw, rings, timers, udp
from detour.hosts.ip.frames import BAD_SUM, FRAGMENT, PARSED, parse_ipv4, parse_ipv6
from detour.hosts.ip.layout import IpHostRecord, ParsedFrame, StackGlobals, frame_row, globals_at, host_row, socket_row
from detour.hosts.ip.tcp import connection, sender
from detour.hosts.ip.tcp.layout import conn_row

IP = Part("ip", __name__)

SNIFF_NOTHING, SNIFF_UNKNOWN, SNIFF_ALL = 0, 1, 2
"""which frames Python sees: none, those that nothing here takes, all"""


# -- what comes in ---------------------------------------------------------------------------------------


@IP.entry
def receive(state: int, host: int, frame: int, stored: int, wire: int, now: int) -> int:
    """A frame came in."""
    g = globals_at(state, 0)
    h = host_row(g, host)
    h.now = now
    h.rx_frames += 1
    h.rx_bytes += wire
    taken = _take(g, host, h, frame, stored, wire, now)
    if h.sniff == SNIFF_ALL or (h.sniff == SNIFF_UNKNOWN and not taken):
        rings.show(g, h, host, frame, stored, wire, now)
    return 0


@inner()
def _take(g: StackGlobals, host: int, h: IpHostRecord, frame: int, stored: int, wire: int, now: int) -> bool:
    """Return whether something here is for this frame."""
    if stored < ETHERNET_BYTES:
        h.rx_malformed += 1
        return False
    to = load48(frame)
    if to != h.mac and (to >> 40) & 1 == 0:
        h.rx_other_mac += 1
        return False
    kind = load16be(frame + 12)
    f = frame_row(g, host)
    f.source_mac = load48(frame + 6)
    f.start = frame
    f.stored = stored
    f.wire = wire
    ip = frame + ETHERNET_BYTES
    if kind == TYPE_IPV4:
        how = parse_ipv4(f, ip, wire - ETHERNET_BYTES, stored - ETHERNET_BYTES)
    elif kind == TYPE_IPV6:
        how = parse_ipv6(f, ip, wire - ETHERNET_BYTES, stored - ETHERNET_BYTES)
    elif kind == TYPE_ARP and neighbours.on_arp(g, host, ip, stored - ETHERNET_BYTES):
        return True
    else:
        h.rx_unknown += 1
        return False
    return _take_packet(g, host, h, f, how, ip, now)


@inner()
def _take_packet(g: StackGlobals, host: int, h: IpHostRecord, f: ParsedFrame, how: int, ip: int, now: int) -> bool:
    if how != PARSED:
        if how == BAD_SUM:
            h.rx_bad_checksum += 1
        elif how == FRAGMENT:
            h.rx_fragments += 1
        else:
            h.rx_malformed += 1
        return False
    if not _is_mine(h, f):
        h.rx_other_address += 1
        return False
    good = True
    if f.proto == layout.PROTO_UDP:
        good = udp.receive(g, host, f, ip, now)
    elif f.proto == layout.PROTO_TCP:
        good = connection.receive(g, host, f, now)
    elif f.proto == (layout.PROTO_ICMP6 if f.v6 != 0 else layout.PROTO_ICMP):
        good = icmp.receive(g, host, f, f.start, now)
    else:
        h.rx_unknown += 1
        return False
    if not good:
        h.rx_bad_checksum += 1
    return good


@inner()
def _is_mine(h: IpHostRecord, f: ParsedFrame) -> bool:
    """Return whether a packet is to this host: its addresses, the broadcast addresses of its subnet, groups that it is
    in."""
    if f.v6 == 0:
        if h.v4_lo == 0:
            return False
        wild = ~h.v4_mask & 0xFFFFFFFF
        low = f.dst_lo & 0xFFFFFFFF
        return f.dst_lo == h.v4_lo or low == 0xFFFFFFFF or f.dst_lo == (h.v4_lo | wild)
    if f.dst_lo == h.v6_lo and f.dst_hi == h.v6_hi and h.v6_hi | h.v6_lo != 0:
        return True
    if f.dst_lo == h.ll_lo and f.dst_hi == h.ll_hi:
        return True
    if f.dst_hi != neighbours.SOLICITED_HI:
        return False
    low = f.dst_lo & 0xFFFFFF
    all_nodes = f.dst_lo == 1
    solicited = f.dst_lo >> 24 == 0x1FF and (low == h.v6_lo & 0xFFFFFF or low == h.ll_lo & 0xFFFFFF)
    return all_nodes or solicited


# -- what goes out ---------------------------------------------------------------------------------------


@inner()
def _expire(g: StackGlobals, host: int, h: IpHostRecord, now: int) -> None:
    while timers.first_key(g, host) <= now:
        i = timers.take_due(g, host, h, now)
        if i < 0:
            return
        kind = socket_row(g, i).kind
        if kind == layout.TCP_SOCKET:
            connection.on_timer(g, i, now)
        elif kind == layout.RESOLVER:
            neighbours.on_timer(g, host, now)
        else:  # the next packet is due
            timers.make_ready(g, i, socket_row(g, i))


@IP.entry
def transmit(state: int, host: int, frame: int, room: int, now: int) -> int:
    """Write the next frame to send; return bytes stored << 32 | bytes on the wire, 0 if nothing may go now."""
    g = globals_at(state, 0)
    h = host_row(g, host)
    h.now = now
    _expire(g, host, h, now)
    both = rings.pop(g, h, host, frame)
    while both == 0 and h.active_head >= 0 and h.paused & 1 == 0:
        i = timers.take_ready(g, h)
        kind = socket_row(g, i).kind
        if kind == layout.TCP_SOCKET:
            both = sender.write(g, i, frame, now)
        elif kind == layout.UDP_FLOW:
            both = udp.write(g, i, frame, now)
        elif kind == layout.ECHO:
            both = icmp.write(g, i, frame, now)
        elif kind == layout.RAW:
            both = raw.write(g, i, frame, room, now)
    if both == 0:
        both = rings.pop(g, h, host, frame)  # who had nothing to send may have asked for its neighbour
    if both != 0:
        h.tx_frames += 1
        h.tx_bytes += both & 0xFFFFFFFF
    return both


@IP.entry
def deadline(state: int, host: int) -> int:
    """The time at which `expire` wants to be called, ps; `MAX_TIME`: never."""
    g = globals_at(state, 0)
    return timers.first_due(g, host, host_row(g, host))


@IP.entry
def not_before(state: int, host: int) -> int:
    """A time before which no deadline is, ps."""
    g = globals_at(state, 0)
    return timers.first_key(g, host)


@IP.entry
def expire(state: int, host: int, now: int) -> int:
    """The deadline has passed. Harmless if it has not."""
    g = globals_at(state, 0)
    h = host_row(g, host)
    h.now = now
    _expire(g, host, h, now)
    return 0


@IP.entry
def pause(state: int, host: int, mask: int) -> int:
    """Priority p must not be sent while bit p of `mask` is set (PFC). Sockets send in priority 0; answers go on."""
    host_row(globals_at(state, 0), host).paused = mask
    return 0


# -- for Python between two slices -------------------------------------------------------------------------


@IP.entry
def begin(state: int, i: int, now: int) -> int:
    """A socket is set up."""
    g = globals_at(state, 0)
    s = socket_row(g, i)
    h = host_row(g, s.host)
    h.now = max(h.now, now)
    if s.kind == layout.UDP_FLOW:
        udp.begin(g, i)
    elif s.kind == layout.RAW:
        raw.begin(g, i)
    elif s.kind == layout.TCP_SOCKET:
        connection.open_active(g, i, now)
    elif s.kind == layout.ECHO:
        timers.set_due(g, i, s, max(now, int64(0)))
    return 0


@IP.entry
def make_socket(state: int, host: int, kind: int, proto: int) -> int:
    """`demux.new_socket`."""
    return demux.new_socket(globals_at(state, 0), host, kind, proto)


@IP.entry
def enter_socket(state: int, i: int) -> int:
    """`demux.enter`."""
    demux.enter(globals_at(state, 0), i)
    return 0


@IP.entry
def find_socket(state: int, host: int, proto: int, port: int) -> int:
    """Return the socket that takes packets to a port from any sender, -1 if there is none."""
    none = int64(0)
    return demux.find(globals_at(state, 0), host, proto, port, none, none, none)


@IP.entry
def finish(state: int, i: int, now: int) -> int:
    """A connection writes nothing more."""
    g = globals_at(state, 0)
    s, c = socket_row(g, i), conn_row(g, i)
    connection.finish(c)
    timers.make_ready(g, i, s)
    return 0
