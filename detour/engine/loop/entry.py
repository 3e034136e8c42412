# SPDX-License-Identifier: Apache-2.0
"""The functions that Python calls: `run_slice`, and a few small ones for use between slices.

`run_slice` executes events until Python is needed: virtual time as fast as possible, real time when
the wall clock says so, reading sockets and sleeping in between.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.native import Part
from detour.engine.loop import channels, heap, pool, socket_io, switch, windows
from detour.engine.loop.layout import CARD_RING, DRAIN, INBOX, MAX_TIME, UNLIMITED_PS, WOKEN, LoopGlobals
from detour.engine.loop.log import must_drain
from detour.engine.loop.native import channel_at, global_at, io_at, load64, move_bytes, slot_at

LOOP = Part("loop", __name__)

_HELD, _WATCHED = int64(1), int64(0)

_POLL_NS = 20_000
"""How long sockets may be left alone when there are always events due."""

_PAUSE_NS = 10_000
"""Time between two looks at sockets that had several frames at once."""

_FRAMES_PER_POLL = 64
_LOG_NS = 1_000_000
"""How long records for callbacks may wait while events are due."""

_CAPTURE_NS = 50_000_000
"""How long captured frames may wait: nobody is in a hurry for them, and Python costs time."""

_HOLD_NS = 1_000_000
"""How long a socket may be held: what it sent may have been cut off, and there is no event for that."""

_RETRY_NS = 200_000
"""Time between attempts to send to a socket that is full."""


@inner()
def _loop_time(g: LoopGlobals, wall: int) -> int:
    return (wall - g.epoch_ns) * 1000 - g.slip_ps


@inner()
def _read_socket(g: LoopGlobals, index: int, now: int) -> None:
    """Take the frames that a socket has; they arrive now, or when their link has carried them."""
    io = io_at(g.ios, index)
    channel = channel_at(g.channels, io.channel)
    if channel.rate_bps != 0 or channel.delay_ps != 0:
        _read_link(g, index, now)
        return
    time = max(now, g.now)
    if channel.count > 0:
        time = max(time, slot_at(g.slots, channel.tail).time)  # order on a channel is fixed
    for _ in range(_FRAMES_PER_POLL):
        if channel.count >= INBOX:
            return
        slot = socket_io.receive_frame(g, index)
        if slot < 0:
            return
        g.polled_frames += 1
        waits = channel.count > 0 or heap.first_time(g, windows.ONLY) <= time or must_drain(g)
        if waits or channel.up == 0:
            channels.append(g, io.channel, slot, time)
        else:
            g.gathering = 1
            windows.arrive_at_once(g, io.port, slot, time)
        time += UNLIMITED_PS  # then the port that the frame left by is free again


@inner()
def _read_link(g: LoopGlobals, index: int, now: int) -> None:
    """The same where frames come over a link with a rate or a delay: one after the other, as its sender would."""
    io = io_at(g.ios, index)
    channel = channel_at(g.channels, io.channel)
    buffered = channels.duration(channel.rate_bps, CARD_RING * io.longest)
    for _ in range(_FRAMES_PER_POLL):
        if io.free_at - now > buffered:
            socket_io.hold(g, index, _HELD)
            return
        if channel.count >= INBOX:
            return
        slot = socket_io.receive_frame(g, index)
        if slot < 0:
            return
        io.free_at = channels.send_at(g, io.channel, slot, max(now, io.free_at))


@inner()
def _resume(g: LoopGlobals, now: int) -> None:
    """Look again at those sockets of whose frames the links have taken half."""
    for index in range(g.ios_count):
        io = io_at(g.ios, index)
        if io.held != 0:
            rate = channel_at(g.channels, io.channel).rate_bps
            if io.free_at - now <= channels.duration(rate, CARD_RING * io.longest // 2):
                socket_io.hold(g, index, _WATCHED)


@inner()
def _poll(g: LoopGlobals, wall: int) -> None:
    """Read the sockets, and try again to send what could not go."""
    g.polled_ns = wall
    g.polled_frames = 0
    now = max(g.now, _loop_time(g, wall))
    if g.held > 0:
        _resume(g, now)
    for index in range(g.ios_count if g.rings > 0 else 0):
        if socket_io.has_frame(io_at(g.ios, index)):
            _read_socket(g, index, now)
            socket_io.send_gathered(g)
    for number in range(socket_io.readable(g)):
        index = socket_io.ready_index(g, number)
        if index >= 0:
            _read_socket(g, index, now)
            socket_io.send_gathered(g)
    if g.backlog > 0:
        socket_io.retry(g)


@inner()
def _due_until(g: LoopGlobals, wall: int) -> int:
    """Loop time now, after noting how far the loop is behind; beyond `max_lag_ps` loop time is held back."""
    now = _loop_time(g, wall)
    lag = max(0, now - heap.first_time(g, windows.ONLY))
    excess = lag - g.max_lag_ps
    # A fabric that cannot keep up runs slower, as it would with slower links; if it went on to catch up, every queue
    # and every timer would see a burst that no network has.
    if excess > 0:
        g.slip_ps += excess
        now -= excess
        lag -= excess
    g.lag_ps = lag
    g.lag_peak_ps = max(g.lag_peak_ps, lag)
    return now


@inner()
def _wants_python(g: LoopGlobals, waited_ns: int, due: bool) -> bool:
    """Return whether Python should take the logs now."""
    if g.up_used > 0 and (not due or waited_ns > _LOG_NS):
        return True
    return g.taken_used > 0 and waited_ns > _CAPTURE_NS


@inner()
def _rest(g: LoopGlobals) -> None:
    """Sleep until the next event, a frame from a socket, or Python's call."""
    g.lag_ps = 0
    duration = -1
    first = heap.first_time(g, windows.ONLY)
    if first < MAX_TIME:
        duration = max(0, first - _loop_time(g, socket_io.wall_ns(g)) + 999) // 1000
    if g.backlog > 0 and (duration < 0 or duration > _RETRY_NS):
        duration = _RETRY_NS
    if g.taken_used > 0 and (duration < 0 or duration > _CAPTURE_NS):
        duration = _CAPTURE_NS
    if g.held > 0 and (duration < 0 or duration > _HOLD_NS):
        duration = _HOLD_NS
    socket_io.sleep(g, duration)


@inner()
def _pause(g: LoopGlobals) -> None:
    """Let some more frames come: who looks after each is in the way of who writes them, and ask the kernel more."""
    first = heap.first_time(g, windows.ONLY)
    while g.wake == 0:
        wall = socket_io.wall_ns(g)
        if wall - g.polled_ns >= _PAUSE_NS or _loop_time(g, wall) >= first:
            return


@inner()
def _run_paced(g: LoopGlobals) -> int:
    """Real time."""
    started = socket_io.wall_ns(g)
    while g.wake == 0:
        wall = socket_io.wall_ns(g)
        now = _due_until(g, wall)
        for _ in range(windows.EVENTS_AT_ONCE):
            if heap.first_time(g, windows.ONLY) > now:
                break
            windows.step(g, windows.ONLY)
            if must_drain(g):
                return DRAIN
        due = heap.first_time(g, windows.ONLY) <= now
        if not due or wall - g.polled_ns >= _POLL_NS:
            _poll(g, wall)
            due = heap.first_time(g, windows.ONLY) <= now
        if _wants_python(g, wall - started, due):
            return DRAIN
        # Python sets `wake` before it makes its descriptor readable, which _poll may just have read.
        if not due and g.wake == 0:
            if g.rings > 0 and g.polled_frames > 3:
                _pause(g)
            else:
                _rest(g)
    return WOKEN


@LOOP.entry
def run_slice(globals_: int, until: int, budget: int) -> int:
    """Execute events and return why it stopped: `REACHED`, `WOKEN`, `DRAIN`, `BUDGET` or `POOL_EMPTY`.

    `globals_`: the address of the globals; where there are workers each is called with its own. `until` (ps) and
    `budget` (events) count in virtual time only.
    """
    g = global_at(globals_, 0)
    g.window_end = MAX_TIME
    if g.real_time != 0:
        return _run_paced(g)
    if g.node_count > 1:
        return windows.run_windows(g, until, budget)
    return windows.run_free(g, until, budget)


@LOOP.entry
def put_frames(
    globals_: int, index: int, port: int, times: int, sizes: int, count: int, frames: int, stored: int
) -> int:
    """Put `count` frames on a channel of kind `TO_INGRESS`; return how many of them found a place in the pool.

    Addresses of int64s: `times` (ps, rising), `sizes` (bytes on the wire); `frames` has a row of `stored` bytes for
    each: what is stored of it, at most its size."""
    g = global_at(globals_, 0)
    for number in range(count):
        new = pool.take(g)
        if new < 0:
            return number
        slot = slot_at(g.slots, new)
        size = load64(sizes + 8 * number)
        slot.length = min(stored, size)
        slot.wire = size
        slot.port = port
        move_bytes(g.slots + slot.start, frames + number * stored, slot.length)
        channels.insert(g, index, new, load64(times + 8 * number))
    return count


@LOOP.entry
def flush_switch(globals_: int, index: int) -> int:
    """`switch.flush` for Python."""
    return switch.flush(global_at(globals_, 0), index)


@LOOP.entry
def cut_channel(globals_: int, index: int) -> int:
    """Drop what is in flight on a channel, counted as cut; return how many frames that were."""
    g = global_at(globals_, 0)
    count = channels.flush(g, index)
    channel_at(g.channels, index).cut += count
    return count


@LOOP.entry
def schedule(globals_: int, entity: int, time: int) -> None:
    """`heap.schedule` for Python."""
    heap.schedule(global_at(globals_, 0), entity, time)
