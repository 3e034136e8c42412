# SPDX-License-Identifier: Apache-2.0
"""Reads frames for Python, as dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.base.errors import DetourError
from detour.hosts import rdma
from detour.hosts.addresses import to_text
from detour.hosts.frames.dissect import (
    BAD_CHECKSUM,
    BAD_ICRC,
    IS_ACK,
    IS_CNP,
    IS_DATA,
    IS_PTM,
    IS_PTR,
    MALFORMED,
    NOT_MINE,
)
from detour.hosts.state import Hosts, make_hosts

_FIELDS = {
    IS_DATA: "opcode solicited qpn psn count va rkey length imm has_delay delay ce hops sport",
    IS_ACK: "opcode qpn psn syndrome msn trigger count base bitmap has_delay delay ce hops sport",
    IS_PTM: "qpn psn cand has_delay delay ce sport",
    IS_PTR: "qpn psn cand reflected has_delay delay ce sport",
    IS_CNP: "opcode qpn ce sport",
}
_NAMES = {IS_DATA: "data", IS_ACK: "ack", IS_PTM: "ptm", IS_PTR: "ptr", IS_CNP: "cnp"}
_REASONS = {
    MALFORMED: "malformed",
    NOT_MINE: "not for UDP port 4791 or 4793",
    BAD_CHECKSUM: "broken: its UDP checksum is wrong",
    BAD_ICRC: "broken: its ICRC is wrong",
}
_parser: list[Hosts] = []


def decode(frame: bytes) -> dict[str, Any]:
    """Fields of a data packet, ACK, NAK, PTM, PTR or CNP, by name; `kind` says which it is.

    Raises `DetourError` if it is none or a checksum is wrong."""
    if not _parser:
        _parser.append(make_hosts(1, 1, 0))
    hs = _parser[0]
    # headers are looked at before their length is known, so there is always something behind the frame
    buf = np.frombuffer(frame + bytes(128), np.uint8).copy()
    kind = rdma.dissect_frame(hs.listing, buf.ctypes.data, len(frame))
    if kind < 0:
        raise DetourError(f"frame of {len(frame)} bytes is {_REASONS[kind]}")
    f = hs.frame[0]
    result: dict[str, Any] = {
        "kind": _NAMES[kind],
        "src": to_text(f["src_hi"], f["src_lo"]),
        "dst": to_text(f["dst_hi"], f["dst_lo"]),
    }
    for name in _FIELDS[kind].split():
        result[name] = int(f[name])
    if kind == IS_DATA:
        begin = int(f["payload"]) - buf.ctypes.data
        result["payload"] = frame[begin : begin + int(f["length"])]
    if kind == IS_PTM:
        result["reflected"] = 0
    return result
