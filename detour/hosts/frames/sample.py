# SPDX-License-Identifier: Apache-2.0
"""Single data packets, as a host would send them, for whoever wants to see what becomes of one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from detour.base.errors import DetourError
from detour.base.jit import int64
from detour.base.native import Part
from detour.base.pointers import record_by_address
from detour.base.structs import Int64, NativeRecord
from detour.hosts.addresses import final_address, to_words
from detour.hosts.frames.sizes import BTH, DATA_OVERHEAD, ICRC, RETH, UDP
from detour.hosts.frames.wire import ECT0, OP_WRITE_ONLY, PORT_ROCE, put_bth, put_ethernet_ipv6, put_udp, seal
from detour.hosts.records import RdmaHost
from detour.topo import Host
from detour.topo.address import GATEWAY_MAC, usid_address

FRAMES = Part("frames", __name__)

_MAX_PAYLOAD = 9000
_NONE, _ONE = int64(0), int64(1)
_host_at = record_by_address(RdmaHost)


class _Sample(NativeRecord):
    """The fields that differ from frame to frame."""

    dst_hi: Int64
    dst_lo: Int64
    final_hi: Int64
    final_lo: Int64
    sport: Int64
    psn: Int64
    size: Int64


_sample_at = record_by_address(_Sample)


@FRAMES.entry
def write_sample(frame: int, host: int, sample: int) -> None:
    """Write a data packet; addresses of its sender's row and of a `_Sample`."""
    h, v = _host_at(host, _NONE), _sample_at(sample, _NONE)
    length = UDP + BTH + RETH + v.size + ICRC
    udp = put_ethernet_ipv6(frame, h, v.dst_hi, v.dst_lo, int64(ECT0), _NONE, length, _ONE)
    at = put_udp(udp, v.sport, int64(PORT_ROCE), length)
    put_bth(at, int64(OP_WRITE_ONLY), _ONE, _NONE, _ONE, v.psn, int64(0x80))
    seal(udp, length, h, v.final_hi, v.final_lo, _ONE)


def data_frame(
    source: Host, target: Host, sport: int = 0, usids: Sequence[int] = (), payload: int = 1000, psn: int = 0
) -> bytes:
    """A RoCEv2 data packet of `payload` zero bytes with the Transit Measurement option, valid in all checksums. Raises
    DetourError if the payload is not a multiple of 4, or too long."""
    if not 0 <= payload <= _MAX_PAYLOAD or payload % 4:
        raise DetourError(f"a payload of {payload} bytes; expected a multiple of 4 up to {_MAX_PAYLOAD}")
    to = usid_address(usids) if usids else target.address
    final = final_address(usids) if usids else target.address
    buffer = np.zeros(DATA_OVERHEAD + payload, np.uint8)
    host, sample = np.zeros(1, RdmaHost.dtype), np.zeros(1, _Sample.dtype)
    host["gateway"], host["mac"] = GATEWAY_MAC, source.mac
    for row, prefix, address in ((host, "addr", source.address), (sample, "dst", to), (sample, "final", final)):
        row[f"{prefix}_hi"], row[f"{prefix}_lo"] = to_words(address)
    sample["sport"], sample["psn"], sample["size"] = sport, psn, payload
    write_sample(buffer.ctypes.data, host.ctypes.data, sample.ctypes.data)
    return buffer.tobytes()
