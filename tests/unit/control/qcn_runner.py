# SPDX-License-Identifier: Apache-2.0
"""One switch with qcn.p4 and messages for it, for tests that look into its registers."""

import struct

from detour.control import qcn, schema
from detour.engine.tables import MemberRef
from detour.fabric.backends.virtual.fabric import program
from tests.packet_runner import PacketRunner
from tests.ptf.packets import frame, ip, udp

PORT, HOST_PORT = 3, 1


def make_runner() -> PacketRunner:
    """A switch of group 0 of 9; hosts of switch 0 are behind port 1, all others behind port 3."""
    runner = PacketRunner(program("qcn"))
    tables = runner.state.tables
    tables[schema.NODE_CONFIG].set_default(schema.SET_NODE, (7, 0, 9))
    profile = tables[schema.ROUTE].profile
    assert profile is not None
    for number, (length, port) in enumerate(((16, PORT), (48, HOST_PORT)), start=1):
        profile.add_member(number, schema.FORWARD, (port,))
        tables[schema.ROUTE].insert(((0xFD00 << 112, length),), MemberRef(number), (), 0)
    tables[qcn.OWN_HOSTS].insert((HOST_PORT,), schema.NO_ACTION, (), 0)
    return runner


def pdu(feedback: int, out_port: int = PORT, priority: int = 0, group: int = 0) -> bytes:
    """A message as 802.1Qau lays it out."""
    head = struct.pack("!HHHHH", feedback, 5, 2, out_port, group)
    return head + struct.pack("!hhH6sH", 100, -7, priority << 13, bytes(6), 0)


def message(feedback: int, dst: str, **fields: int) -> bytes:
    """A message in a frame."""
    return bytes(frame(ip(dst, src="fcbb:bb00:2::"), udp(4794, 4794, pdu(feedback, **fields))))
