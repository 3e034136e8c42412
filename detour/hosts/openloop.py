# SPDX-License-Identifier: Apache-2.0
"""Open-loop sources: a host that sends datagrams by a Bernoulli process, whatever becomes of them, and counts what
arrives.

This is the load of the interconnection network literature (Dally and Towles, "Principles and Practices of
Interconnection Networks", 23.1): in every slot, the time that a packet takes on the host's link, a packet is generated
with probability `load`, and waits in an unlimited source queue until the link takes it. No transport, no congestion
control.

Nothing is stored for the queue: packets are generated in order, so the time of its first one is enough.

Frames: Ethernet | IPv6 | Transit Measurement option | UDP (port 4795) | time of generation, ps, 8 | time of
transmission, ps, 8 | payload, which is elided. The option's delay begins with what the packet waited in the source.
"""

from __future__ import annotations

from detour.base.dataplane import HOP_LIMIT
from detour.base.errors import DetourError
from detour.base.jit import inner, int64
from detour.base.memory import load8, load16be, load64be, store32be, store64be
from detour.hosts.draws import random_below
from detour.hosts.frames.sizes import ETHERNET, IPV6, TRANSIT, UDP
from detour.hosts.frames.wire import NH_HOP_BY_HOP, NH_UDP, put_ethernet_ipv6, put_udp
from detour.hosts.records import OpenLoopSource, RdmaHost
from detour.hosts.rows import cfg_row, host_row, source_row
from detour.hosts.state import MAX_TIME, Handle, Hosts

PORT_OPEN_LOOP = 4795
HEADER_BYTES = ETHERNET + IPV6 + TRANSIT + UDP + 16
"""shortest frame of an open-loop source"""

ALWAYS = 1 << 31
"""Scale of the probability of a packet in a slot."""

_PATHS = int64(1 << 15)
_WHOLE = int64(ALWAYS)
_NONE, _ONE = int64(0), int64(1)
_MOST_TICKS = int64((1 << 32) - 1)
_PS_PER_SECOND_OF_BITS = 8 * 10**12


def configure(
    hs: Hosts,
    host: int,
    *,
    load: float,
    targets: tuple[int, int],
    frame_bytes: int,
    rate_bps: int,
    uniform: float = 0.0,
    now_ps: int = 0,
) -> None:
    """Make `host` an open-loop source, or change one: what waits in its queue stays there.

    `load`: offered, as a fraction of the link. `targets`: first host and number of hosts from there on (in a round over
    all hosts) among which destinations are drawn; the host itself is left out. `uniform`: share of the packets that go
    to any other host instead. `frame_bytes`: length on the wire.

    Raises:
        DetourError: a parameter is out of range.
    """
    hosts = len(hs.host)
    first, count = targets
    if not 0 <= load <= 1:
        raise DetourError(f"offered load is {load:g}; it is a fraction of the host's link, 0 to 1")
    if not 0 <= uniform <= 1:
        raise DetourError(f"{uniform:g} of the packets go to any host; it is a share, 0 to 1")
    if not 0 <= first < hosts or not 1 <= count <= hosts:
        raise DetourError(f"targets are {count} hosts from {first} on; there are {hosts}")
    inside = (host - first) % hosts < count
    if count == 1 and inside:
        raise DetourError(f"host {host} cannot be the only target of its own packets")
    if frame_bytes < HEADER_BYTES:
        raise DetourError(f"frames of {frame_bytes} bytes; open-loop sources need at least {HEADER_BYTES}")
    row = hs.source[host]
    row["slot_ps"] = frame_bytes * _PS_PER_SECOND_OF_BITS // rate_bps
    row["probability"] = round(load * ALWAYS)
    row["first"], row["targets"] = first, count - inside
    row["own"] = (host - first) % hosts if inside else count
    row["hosts"], row["uniform"] = hosts, round(uniform * ALWAYS)
    row["frame_bytes"] = frame_bytes
    idle = not hs.host[host]["open_loop"] or row["next_ps"] == MAX_TIME
    if load == 0:
        row["next_ps"] = MAX_TIME
    elif idle:
        row["next_ps"] = now_ps
    hs.host[host]["open_loop"] = 1


@inner
def _generate(h: RdmaHost, source: OpenLoopSource) -> None:
    """Find the slot of the next packet."""
    source.next_ps += source.slot_ps
    while random_below(h, _WHOLE) >= source.probability:
        source.next_ps += source.slot_ps


@inner
def _target(h: RdmaHost, source: OpenLoopSource, host: int) -> int:
    """Draw the destination of a packet."""
    if source.uniform != 0 and random_below(h, _WHOLE) < source.uniform:
        number = random_below(h, source.hosts - 1)
        return number + 1 if number >= host else number
    number = random_below(h, source.targets)
    if number >= source.own:
        number += 1
    return (source.first + number) % source.hosts


@inner
def due(hs: Handle, host: int) -> int:
    """The time at which the next packet is generated, if that is not over already; ps, `MAX_TIME`: never."""
    time = source_row(hs, host).next_ps
    return time if time > host_row(hs, host).now else MAX_TIME


@inner
def write(hs: Handle, host: int, frame: int, now: int) -> int:
    """Write the first packet of the source queue; return its length, 0 if the queue is empty."""
    source = source_row(hs, host)
    if source.next_ps > now:
        return 0
    h = host_row(hs, host)
    target = host_row(hs, _target(h, source, host))
    length = source.frame_bytes
    size = length - ETHERNET - IPV6 - TRANSIT
    udp = put_ethernet_ipv6(frame, h, target.addr_hi, target.addr_lo, _NONE, _NONE, size, _ONE)
    store32be(udp - 4, min((now - source.next_ps) // cfg_row(hs).tick_ps, _MOST_TICKS))
    at = put_udp(udp, random_below(h, _PATHS), PORT_OPEN_LOOP, size)
    store64be(at, source.next_ps)
    store64be(at + 8, now)
    source.tx_packets += 1
    source.tx_bytes += length
    _generate(h, source)
    return length


@inner
def receive(hs: Handle, host: int, frame: int, length: int, now: int) -> bool:
    """Count a frame of an open-loop source; False if it is another one."""
    option = frame + ETHERNET + IPV6
    udp = option + TRANSIT
    if length < HEADER_BYTES or load8(frame + ETHERNET + 6) != NH_HOP_BY_HOP or load8(option) != NH_UDP:
        return False
    if load16be(udp + 2) != PORT_OPEN_LOOP:
        return False
    source = source_row(hs, host)
    source.rx_packets += 1
    source.rx_bytes += length
    source.rx_latency_ps += now - load64be(udp + UDP)
    source.rx_network_ps += now - load64be(udp + UDP + 8)
    source.rx_switches += HOP_LIMIT - load8(frame + ETHERNET + 7)
    return True
