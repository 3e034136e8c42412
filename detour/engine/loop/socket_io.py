# SPDX-License-Identifier: Apache-2.0
"""Frames to and from sockets and Linux interfaces, and the wall clock. Nothing here blocks but `sleep`.

A frame that a socket does not take now (EAGAIN, ENOBUFS) waits in a bounded backlog and is tried again; after
`BACKLOG_NS` it is dropped and counted.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.base.native import MACHINE
from detour.engine.loop import pool
from detour.engine.loop.layout import (
    AT_CONTROL,
    AT_COUNTER,
    AT_EPOLL_CHANGE,
    AT_EPOLL_EVENTS,
    AT_IOVEC,
    AT_POLLFD,
    AT_TIMEOUT,
    AT_TIMESPEC,
    BACKLOG,
    BACKLOG_NS,
    CONTROL_BYTES,
    EPOLL_EVENTS,
    IO_PACKET,
    IO_TAP,
    RING_SLOT_BYTES,
    RING_SLOTS,
    IoRecord,
    LoopGlobals,
    SlotRecord,
)
from detour.engine.loop.native import (
    clock_gettime,
    epoll_ctl,
    epoll_wait,
    errno,
    fetch_add,
    getsockopt,
    io_at,
    load16,
    load32,
    load64,
    load_acquire,
    move_bytes,
    ppoll,
    prefetch_lines,
    read,
    recv,
    recvmsg,
    sendto,
    slot_at,
    store8,
    store32,
    store64,
    write,
)

_ENOENT, _EINTR, _EAGAIN, _ENOBUFS, _ECONNREFUSED = 2, 4, 11, 105, 111
_CLOCK_MONOTONIC = 1
_SEND_FLAGS = 0x4000 | 0x40  # MSG_NOSIGNAL | MSG_DONTWAIT
_RECEIVE_FLAGS = 0x40 | 0x20  # MSG_DONTWAIT | MSG_TRUNC: the result is the frame's real length
_EPOLL_DELETE, _EPOLL_MODIFY = 2, 3
_EPOLLIN, _POLLERR = 1, 8
_EPOLL_EVENT_SIZE = 12 if MACHINE[0] == "x86_64" else 16  # packed there, aligned elsewhere
_EPOLL_DATA = _EPOLL_EVENT_SIZE - 8
_SOL_PACKET, _PACKET_AUXDATA = 263, 8
_SOL_SOCKET, _SO_ERROR = 1, 4
_RING_PREFETCHED = 192
"""Bytes of a place in a ring that another processor has written and most frames need."""
# Of struct tpacket2_hdr: status and length are one word; the places of other fields.
_RING_FILLED, _RING_COPY, _RING_STORED, _RING_FRAME, _RING_TAG = 1, 2, 8, 12, 24
_VLAN_VALID, _VLAN_TPID_VALID = 0x10, 0x40
_VLAN_BYTES, _VLAN_TYPE = 4, 0x0081  # 0x8100 as it lies in memory
_GIVE_UP_AFTER = 100
"""Failing reads in a row after which a socket is no longer watched (its interface is gone)."""


@inner()
def wall_ns(g: LoopGlobals) -> int:
    """CLOCK_MONOTONIC in ns."""
    clock_gettime(_CLOCK_MONOTONIC, g.system + AT_TIMESPEC)
    return load64(g.system + AT_TIMESPEC) * 1_000_000_000 + load64(g.system + AT_TIMESPEC + 8)


@inner()
def _try_send(g: LoopGlobals, io: IoRecord, slot: int) -> bool:
    """Send a frame and end the packet; False if the socket does not take it now."""
    frame = slot_at(g.slots, slot)
    data = g.slots + frame.start
    if io.family == IO_TAP:
        result = write(io.fd, data, frame.length)
    else:
        result = sendto(io.send_fd, data, frame.length, _SEND_FLAGS, io.address, io.address_length)
    if result < 0:
        error = errno()
        if error in (_EAGAIN, _ENOBUFS, _EINTR):
            return False
        if error in (_ENOENT, _ECONNREFUSED):
            io.tx_no_peer += 1
        else:
            io.tx_drops += 1
    else:
        io.tx_packets += 1
    pool.give_back(g, slot)
    return True


@inner()
def send_frame(g: LoopGlobals, index: int, slot: int) -> None:
    """Send a frame out of the fabric, or put it behind those that wait already."""
    io = io_at(g.ios, index)
    if io.count == 0:
        if g.gathering != 0:
            io.gathered = g.gathered
            g.gathered = index + 1
        elif _try_send(g, io, slot):
            return
    if io.count >= BACKLOG:
        io.tx_drops += 1
        pool.give_back(g, slot)
        return
    frame = slot_at(g.slots, slot)
    frame.next = -1
    frame.time = wall_ns(g) if g.gathering == 0 else g.polled_ns
    if io.count == 0:
        io.head = slot
    else:
        slot_at(g.slots, io.tail).next = slot
    io.tail = slot
    io.count += 1
    g.backlog += 1


@inner()
def _send_waiting(g: LoopGlobals, io: IoRecord, now: int) -> int:
    """Send what waits for a socket until it takes no more, and drop what has waited too long; return how often it
    tried."""
    tries = 0
    while io.count > 0:
        slot = io.head
        following = slot_at(g.slots, slot).next
        expired = now - slot_at(g.slots, slot).time > BACKLOG_NS
        tries += 1
        if not _try_send(g, io, slot):
            if not expired:
                break
            io.tx_drops += 1
            pool.give_back(g, slot)
        io.head = following
        io.count -= 1
        g.backlog -= 1
    return tries


@inner()
def send_gathered(g: LoopGlobals) -> None:
    """Send the frames of a batch: what the kernel needs for one is in the cache for the next."""
    g.gathering = 0
    while g.gathered != 0:
        io = io_at(g.ios, g.gathered - 1)
        g.gathered = io.gathered
        _send_waiting(g, io, g.polled_ns)


@inner()
def retry(g: LoopGlobals) -> None:
    """Try again to send what waits."""
    now = wall_ns(g)
    for index in range(g.ios_count):
        io = io_at(g.ios, index)
        io.tx_retries += _send_waiting(g, io, now)


@inner()
def _insert_vlan_tag(frame: SlotRecord, data: int, length: int, tag: int) -> int:
    """Put the VLAN tag back that the kernel keeps beside a frame; return the frame's length."""
    if tag == 0 or length < 12:
        return length
    move_bytes(data - 4, data, 12)
    for place in range(4):
        store8(data + 8 + place, (tag >> (24 - 8 * place)) & 0xFF)
    frame.start -= 4
    return length + 4


@inner()
def _vlan_tag(status: int, tag: int, kind: int) -> int:
    """Type and tag as one number, 0 if there is none."""
    if status & _VLAN_VALID == 0:
        return 0
    return (kind if status & _VLAN_TPID_VALID else 0x8100) << 16 | tag


@inner()
def _receive_message(g: LoopGlobals, io: IoRecord, data: int) -> int:
    """`_receive_bytes` of a packet socket without its ring."""
    store64(io.message + AT_IOVEC, data)
    store64(io.message + AT_IOVEC + 8, g.frame_bytes)
    store64(io.message + 40, CONTROL_BYTES)
    length = recvmsg(io.fd, io.message, _RECEIVE_FLAGS)
    control = io.message + AT_CONTROL
    is_auxdata = load32(control + 8) == _SOL_PACKET and load32(control + 12) == _PACKET_AUXDATA
    status = load32(control + 16) if load64(io.message + 40) >= 36 and is_auxdata else 0
    io.tag = _vlan_tag(status, load16(control + 32), load16(control + 34))
    return length


@inner()
def _receive_from_ring(g: LoopGlobals, io: IoRecord, data: int) -> int:
    """The same from the ring, which takes no system call; -1: there is no frame."""
    header = io.ring + io.ring_at * RING_SLOT_BYTES
    word = load_acquire(header)
    if word & _RING_FILLED == 0:
        return -1
    length = (word >> 32) & 0xFFFFFFFF
    if load32(header + _RING_STORED) < length:  # the kernel has put all of it into the socket's queue, if it could
        rest = _receive_message(g, io, data) if word & _RING_COPY else -1
        length = rest if rest >= 0 else g.frame_bytes + 1
    elif length <= g.frame_bytes:
        move_bytes(data, header + load16(header + _RING_FRAME), length)
        io.tag = _vlan_tag(word, load16(header + _RING_TAG), load16(header + _RING_TAG + 2))
    io.ring_at = (io.ring_at + 1) % RING_SLOTS
    prefetch_lines(io.ring + (io.ring_at + 1) % RING_SLOTS * RING_SLOT_BYTES, _RING_PREFETCHED)
    fetch_add(header, -word)  # the kernel may fill it again, after all that was read
    return length


@inner()
def _receive_bytes(g: LoopGlobals, io: IoRecord, data: int) -> int:
    """The length of the frame that came (it may be longer than what was stored), or < 0."""
    if io.ring != 0:
        return _receive_from_ring(g, io, data)
    if io.family == IO_TAP:
        return read(io.fd, data, g.frame_bytes + 1)  # it cuts without a word: a byte more tells that it has
    if io.family == IO_PACKET:
        return _receive_message(g, io, data)
    return recv(io.fd, data, g.frame_bytes, _RECEIVE_FLAGS)


@inner()
def _too_long(io: IoRecord, data: int, length: int) -> bool:
    """Return whether a frame is longer than its interface may send: by that of a VLAN tag more, if it has one."""
    if io.longest == 0 or length <= io.longest:
        return False
    return length > io.longest + _VLAN_BYTES or load16(data + 12) != _VLAN_TYPE


@inner()
def hold(g: LoopGlobals, index: int, held: int) -> None:
    """Do not look at a socket for a while (`held` 1), which would be readable all the time, or do again (0)."""
    io = io_at(g.ios, index)
    g.held += held - io.held
    io.held = held
    event = g.system + AT_EPOLL_CHANGE
    store32(event, 0 if held != 0 else _EPOLLIN)
    store64(event + _EPOLL_DATA, index)
    epoll_ctl(g.epoll, _EPOLL_MODIFY, io.fd, event)


@inner()
def receive_frame(g: LoopGlobals, index: int) -> int:
    """The slot of a frame that a socket has, or -1 if there is none now."""
    io = io_at(g.ios, index)
    slot = pool.take(g)
    if slot < 0:
        return -1
    frame = slot_at(g.slots, slot)
    data = g.slots + frame.start
    while True:
        length = _receive_bytes(g, io, data)
        if length < 0:
            if io.ring == 0:
                _receive_failed(g, io, errno())
            break
        io.rx_failing = 0
        if _too_long(io, data, length):
            io.rx_oversized += 1
        elif 0 < length <= g.frame_bytes:
            length = _insert_vlan_tag(frame, data, length, io.tag)
            frame.length = length
            frame.wire = length
            frame.port = io.port
            io.rx_packets += 1
            return slot
        else:
            io.rx_drops += 1
    pool.give_back(g, slot)
    return -1


@inner()
def has_frame(io: IoRecord) -> bool:
    """Return whether a socket has a ring and that has a frame."""
    return io.ring != 0 and load_acquire(io.ring + io.ring_at * RING_SLOT_BYTES) & _RING_FILLED != 0


@inner()
def _take_error(g: LoopGlobals, io: IoRecord) -> None:
    """Ask a socket with a ring for its error (its interface went down), which it has until somebody does."""
    store32(g.system + AT_COUNTER, 0)
    store32(g.system + AT_COUNTER + 4, 4)
    getsockopt(io.fd, _SOL_SOCKET, _SO_ERROR, g.system + AT_COUNTER, g.system + AT_COUNTER + 4)
    error = load32(g.system + AT_COUNTER)
    if error != 0:
        _receive_failed(g, io, error)


@inner()
def _receive_failed(g: LoopGlobals, io: IoRecord, error: int) -> None:
    """Count an error; a socket that keeps failing is no longer watched."""
    if error in (_EAGAIN, _EINTR):
        io.rx_failing = 0
        return
    io.rx_errors += 1
    io.rx_failing += 1
    if io.rx_failing >= _GIVE_UP_AFTER:
        epoll_ctl(g.epoll, _EPOLL_DELETE, io.fd, 0)


@inner()
def readable(g: LoopGlobals) -> int:
    """Number of readable descriptors; `ready_index` names them."""
    if g.watched == 0 and g.epoll_ready == 0:
        return 0
    g.epoll_ready = 0
    return epoll_wait(g.epoll, g.system + AT_EPOLL_EVENTS, EPOLL_EVENTS, 0)


@inner()
def ready_index(g: LoopGlobals, number: int) -> int:
    """The index of the `number`-th readable socket; -1 is Python's wake-up call, which is thereby answered."""
    index = load64(g.system + AT_EPOLL_EVENTS + number * _EPOLL_EVENT_SIZE + _EPOLL_DATA)
    if index < 0:
        read(g.wake_fd, g.system + AT_COUNTER, 8)
    return index


@inner()
def sleep(g: LoopGlobals, duration_ns: int) -> None:
    """Wait for something to read, at most that long (< 0: without end)."""
    polled = g.system + AT_POLLFD
    store32(polled, g.epoll)
    store32(polled + 4, _EPOLLIN)
    count = 1
    # Sockets with a ring are waited for here only: one in an epoll would tell it of every frame.
    for index in range(g.ios_count if g.rings > 0 else 0):
        io = io_at(g.ios, index)
        if io.ring != 0:
            store32(polled + 8 * count, io.fd)
            store32(polled + 8 * count + 4, _EPOLLIN)
            count += 1
    timeout = 0
    if duration_ns >= 0:
        timeout = g.system + AT_TIMEOUT
        store64(timeout, duration_ns // 1_000_000_000)
        store64(timeout + 8, duration_ns % 1_000_000_000)
    if ppoll(polled, count, timeout, 0) <= 0:
        return
    g.epoll_ready = load16(polled + 6)
    count = 1
    for index in range(g.ios_count if g.rings > 0 else 0):
        io = io_at(g.ios, index)
        if io.ring != 0:
            if load16(polled + 8 * count + 6) & _POLLERR != 0:
                _take_error(g, io)
            count += 1
