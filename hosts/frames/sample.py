# SPDX-License-Identifier: Apache-2.0
"""Single data packets, as a host would send them, for whoever wants to see what becomes of one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from detour.base.errors import DetourError
from detour.base.parts import Part
from detour.base.raw import bytes_at, int64s_at
from detour.hosts.frames.addresses import final_address, to_words
from detour.hosts.frames.sizes import BTH, DATA_OVERHEAD, ICRC, RETH, UDP
from detour.hosts.frames.wire import (
    ECT0,
    OP_WRITE_ONLY,
    PORT_ROCE,
    put_bth,
    put_ethernet_ipv6,
    put_udp,
    seal,
)
from detour.topo import Host
from detour.topo.address import GATEWAY_MAC, usid_address

FRAMES = Part("frames", __name__)

_MAX_PAYLOAD = 9000
_MAC_DST, _MAC_SRC, _SRC, _DST, _FINAL, _SPORT, _PSN, _SIZE = 0, 1, 2, 4, 6, 8, 9, 10
_WORDS = 11


@FRAMES.entry
def write_sample(frame: int, room: int, values: int) -> None:
    """Writes a data packet; `values`: address of what is different in each, int64s."""
    buf, v = bytes_at(frame, room), int64s_at(values, np.int64(_WORDS))
    size = v[_SIZE]
    length = UDP + BTH + RETH + size + ICRC
    udp = put_ethernet_ipv6(
        buf,
        np.int64(0),
        v[_MAC_DST],
        v[_MAC_SRC],
        v[_SRC],
        v[_SRC + 1],
        v[_DST],
        v[_DST + 1],
        np.int64(ECT0),
        np.int64(0),
        length,
        np.int64(1),
    )
    at = put_udp(buf, udp, v[_SPORT], np.int64(PORT_ROCE), length)
    put_bth(buf, at, np.int64(OP_WRITE_ONLY), np.int64(1), np.int64(0), np.int64(1), v[_PSN], np.int64(0x80))
    seal(buf, udp, length, v[_SRC], v[_SRC + 1], v[_FINAL], v[_FINAL + 1], np.int64(1))


def data_frame(
    source: Host, target: Host, sport: int = 0, usids: Sequence[int] = (), payload: int = 1000, psn: int = 0
) -> bytes:
    """A RoCEv2 data packet of `payload` zero bytes with the Transit Measurement option, valid in all checksums.

    Raises:
        DetourError: the payload is no multiple of 4, or too long.
    """
    if not 0 <= payload <= _MAX_PAYLOAD or payload % 4:
        raise DetourError(f"a payload of {payload} bytes; a multiple of 4 up to {_MAX_PAYLOAD} is possible")
    to = usid_address(usids) if usids else target.address
    final = final_address(usids) if usids else target.address
    buffer = np.zeros(DATA_OVERHEAD + payload, np.uint8)
    values = np.zeros(_WORDS, np.int64)
    values[_MAC_DST], values[_MAC_SRC] = GATEWAY_MAC, source.mac
    for at, address in ((_SRC, source.address), (_DST, to), (_FINAL, final)):
        values[at : at + 2] = to_words(address)
    values[_SPORT], values[_PSN], values[_SIZE] = sport, psn, payload
    write_sample(buffer.ctypes.data, len(buffer), values.ctypes.data)
    return buffer.tobytes()
