# SPDX-License-Identifier: Apache-2.0
"""trim.p4: classes that are trimmed are forwarded like others while queues have room."""

from __future__ import annotations

from tests.ptf.base_test import Switch, verify_forwarded
from tests.ptf.packets import frame, host, ip, udp

IN, OUT = 1, 3


def test_packets_that_find_room_are_whole(trim: Switch) -> None:
    trim.route("fd00:5::", 32, [OUT])
    trim.insert("classes", {"hdr.ipv6.dscp": 0}, action=("trim", {"bytes": 144, "priority": 0}))
    for dscp in (0, 48):
        sent, got = (
            frame(ip(host(5), src=host(8), tc=dscp << 2, hlim=hops), udp(payload=bytes(1000))) for hops in (64, 63)
        )
        verify_forwarded(trim, IN, sent, got, OUT)
