# SPDX-License-Identifier: Apache-2.0
"""The switches of the dumbbell: a few native functions in place of a P4 program, since here hosts are measured.

Port 1 is the cable, host k of the switch's side is on port 2 + k. The third byte of a destination address says the
side, the fourth one the host. Packets that may be marked (ECT) are if they found as many packets in their queue as the
side's state says, or more. ARP is not forwarded.
"""

from __future__ import annotations

from typing import Any

from detour.base.memory import load8, load16be, load32, load64, store8, store16be, store32
from detour.base.native import Part
from detour.engine import phv
from detour.hosts.stacks import address_of

RELAY = Part("relay", __name__)

_DEPTH_SHIFT = 8
_IPV4 = 0x0800
_SIDE, _PLACE, _IP = 128, 132, 136
"""Our fields of the PHV: of the destination, and whether it is an IPv4 packet."""
_PHV_BYTES = 192
_ARGUMENTS = {"parse": 4, "ingress": 2, "egress": 2, "deparse": 5, "preserve": 3, "digest": 3, "prefetch": 2}


@RELAY.entry
def parse(sw: int, p: int, pkt: int, length: int) -> int:
    """Nothing is taken off the frame: all of it is payload."""
    is_ip = 1 if length >= 34 and load16be(pkt + 12) == _IPV4 else 0
    store32(p + _IP, is_ip)
    store32(p + _SIDE, load8(pkt + 32) if is_ip else 0)
    store32(p + _PLACE, load8(pkt + 33) if is_ip else 0)
    return 0


@RELAY.entry
def ingress(sw: int, p: int) -> int:
    """`sw` is the side, and above it the depth at which marks begin."""
    if load32(p + _IP) == 0:
        store32(p + phv.EGRESS_SPEC, phv.DROP_PORT)
    elif load32(p + _SIDE) == sw & 0xFF:
        store32(p + phv.EGRESS_SPEC, 1 + load32(p + _PLACE))
    else:
        store32(p + phv.EGRESS_SPEC, 1)
    return 0


@RELAY.entry
def egress(sw: int, p: int) -> int:
    """The mark, and what it changes of the header's checksum (RFC 1624)."""
    if load32(p + phv.ENQ_QDEPTH) < sw >> _DEPTH_SHIFT:
        return 0
    ip = load64(p + phv.PAYLOAD_PTR) + 14
    tos = load8(ip + 1)
    if tos & 3 == 1 or tos & 3 == 2:
        store8(ip + 1, tos | 3)
        total = (~load16be(ip + 10) & 0xFFFF) + (tos | 3) - tos
        store16be(ip + 10, ~((total & 0xFFFF) + (total >> 16)))
    return 0


@RELAY.entry
def deparse(sw: int, p: int, out: int, payload: int, length: int) -> int:
    """No headers."""
    return 0


@RELAY.entry
def preserve(fields: int, source: int, target: int) -> int:
    """Nothing is cloned."""
    return 0


@RELAY.entry
def digest(fields: int, p: int, out: int) -> int:
    """There are none."""
    return 0


@RELAY.entry
def prefetch(sw: int, reach: int) -> int:
    """There are no tables."""
    return 0


class Relay:
    """The part of a program that `Network.set_pipeline` needs."""

    max_header_bytes = 512
    max_digest_bytes = 4
    phv_size = _PHV_BYTES
    egress_parse_addr = ingress_deparse_addr = 0

    def __init__(self) -> None:
        functions = (parse, ingress, egress, deparse, preserve, digest, prefetch)
        self._code: list[Any] = []
        for name, function in zip(_ARGUMENTS, functions, strict=True):
            address, code = address_of(function, _ARGUMENTS[name])
            setattr(self, f"{name}_addr", address)
            self._code.append(code)


class RelaySide:
    """And of a switch's state: which side it is, and how many packets a queue has when marks begin."""

    def __init__(self, side: int, marking_depth: int) -> None:
        self.sw = side | marking_depth << _DEPTH_SHIFT

    def set_drop_port(self, port: int) -> None:
        pass

    def set_port_state(self, port: int, up: bool) -> None:
        """Ignore the state of ports."""
