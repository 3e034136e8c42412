# SPDX-License-Identifier: Apache-2.0
"""Operations that plain Numba cannot express: records by address, memory by address, calls by address, libc.

Each of these exists twice: as an intrinsic for compiled code, and with ctypes for `NUMBA_DISABLE_JIT=1`.
Addresses are plain integers. Nothing here checks bounds; the callers hold the invariants.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from detour.base.heap import HeapEntry
from detour.base.jit import COMPILED, inner, intrinsic
from detour.base.memory import INT, LONG, generated, libc
from detour.base.memory import call2 as call2
from detour.base.memory import call3 as call3
from detour.base.memory import call4 as call4
from detour.base.memory import call5 as call5
from detour.base.memory import call6 as call6
from detour.base.memory import fetch_add as fetch_add
from detour.base.memory import load8 as load8
from detour.base.memory import load16 as load16
from detour.base.memory import load32 as load32
from detour.base.memory import load64 as load64
from detour.base.memory import load_acquire as load_acquire
from detour.base.memory import move_bytes as move_bytes
from detour.base.memory import prefetch as prefetch
from detour.base.memory import prefetch_lines as prefetch_lines
from detour.base.memory import store8 as store8
from detour.base.memory import store16 as store16
from detour.base.memory import store32 as store32
from detour.base.memory import store64 as store64
from detour.base.pointers import record_by_address
from detour.engine.loop import layout
from detour.engine.phv import FixedPhv
from detour.hosts.stacks import stack_at as stack_at

global_at = record_by_address(layout.LoopGlobals)
slot_at = record_by_address(layout.SlotRecord)
phv_at = record_by_address(FixedPhv)
heap_at = record_by_address(HeapEntry)
entity_at = record_by_address(layout.EntityRecord)
node_at = record_by_address(layout.NodeRecord)
channel_at = record_by_address(layout.ChannelRecord)
port_at = record_by_address(layout.PortRecord)
queue_at = record_by_address(layout.QueueRecord)
switch_at = record_by_address(layout.SwitchRecord)
nic_at = record_by_address(layout.NicRecord)
io_at = record_by_address(layout.IoRecord)
progress_at = record_by_address(layout.ProgressRecord)
mailbox_at = record_by_address(layout.MailboxRecord)
mail_at = record_by_address(layout.MailRecord)
up_at = record_by_address(layout.UpcallRecord)


def _highest_bit(mask: int) -> int:
    return int(mask).bit_length() - 1


@intrinsic(_highest_bit)
def highest_bit() -> Any:
    """`highest_bit(mask)`: number of the highest bit set in a positive int64."""

    def generate(ir: Any, builder: Any, args: Any) -> Any:
        return builder.sub(ir.IntType(64)(63), builder.ctlz(args[0], ir.IntType(1)(1)))

    return generated(1, generate)


recv = libc("recv", LONG, INT, LONG, LONG, INT)
recvmsg = libc("recvmsg", LONG, INT, LONG, INT)
sendto = libc("sendto", LONG, INT, LONG, LONG, INT, LONG, INT)
read = libc("read", LONG, INT, LONG, LONG)
write = libc("write", LONG, INT, LONG, LONG)
ppoll = libc("ppoll", INT, LONG, LONG, LONG, LONG)
epoll_wait = libc("epoll_wait", INT, INT, LONG, INT, INT)
epoll_ctl = libc("epoll_ctl", INT, INT, INT, INT, LONG)
getsockopt = libc("getsockopt", INT, INT, INT, INT, LONG, LONG)
clock_gettime = libc("clock_gettime", INT, INT, LONG)


def _errno() -> Callable[[], int]:
    """`errno()`: why the last function of the C library failed. (Python may use errno itself, so ctypes keeps ours.)"""
    if not COMPILED:
        return ctypes.get_errno
    location = libc("__errno_location", LONG)

    @inner()
    def value() -> int:
        return load32(location())

    return value


errno = _errno()


def timer_slack_off() -> None:
    """Let the calling thread's sleeps end on time (Linux rounds them by 50 us otherwise)."""
    set_timer_slack = 29
    ctypes.CDLL(None).prctl(set_timer_slack, ctypes.c_ulong(1), 0, 0, 0)
