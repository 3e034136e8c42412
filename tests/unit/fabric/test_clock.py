# SPDX-License-Identifier: Apache-2.0
"""Clocks of fabrics: what waits, what goes off on the way, and what is done once a period."""

from __future__ import annotations

import threading
import time

import pytest

from detour.base.errors import DetourError
from detour.base.times import MS, US
from detour.fabric.backends.clock import PS, FabricClock, VirtualClock, WallClock
from tests.waiting import PATIENCE_S


class Time:
    """Virtual time without a fabric: running takes it there."""

    def __init__(self) -> None:
        self.now_ps = 0
        self.stops: list[int] = []
        self.clock = VirtualClock(lambda: self.now_ps, self.run)

    def run(self, until_ps: int) -> None:
        self.now_ps = max(self.now_ps, until_ps)
        self.stops.append(until_ps)


@pytest.fixture
def virtual() -> Time:
    return Time()


def wall() -> WallClock:
    return WallClock(lambda: time.monotonic_ns() * 1000)


def test_who_waits_in_virtual_time_makes_it_pass(virtual: Time) -> None:
    virtual.clock.wait(300 * US)
    virtual.clock.wait_seconds(1e-6)
    assert virtual.now_ps == 301 * US
    virtual.clock.wait(200 * US)
    assert virtual.now_ps == 301 * US, "that time has been"


def test_alarms_go_off_at_their_time_and_in_order(virtual: Time) -> None:
    heard: list[tuple[str, int]] = []

    def alarm(name: str) -> None:
        heard.append((name, virtual.now_ps))

    def two() -> None:
        alarm("two")
        virtual.clock.at(25, lambda: alarm("in between"))

    virtual.clock.at(30, lambda: alarm("three"))
    virtual.clock.at(20, two)
    virtual.clock.at(20, lambda: alarm("another"))
    virtual.clock.at(50, lambda: alarm("later"))
    virtual.clock.wait(40)
    assert heard == [("two", 20), ("another", 20), ("in between", 25), ("three", 30)]
    assert virtual.now_ps == 40


def test_an_alarms_error_is_heard_by_who_waits(virtual: Time) -> None:
    def fail() -> None:
        raise DetourError("no")

    virtual.clock.at(20, fail)
    with pytest.raises(DetourError, match="no"):
        virtual.clock.wait(40)
    virtual.clock.wait(40)
    assert virtual.now_ps == 40


def test_what_is_done_once_a_period_in_virtual_time(virtual: Time) -> None:
    heard: list[int] = []
    period: list[float | None] = [10 / PS]
    ticker = virtual.clock.every(lambda: period[0], lambda: heard.append(virtual.now_ps), "test")
    virtual.clock.wait(35)
    assert heard == [10, 20, 30]
    ticker.restart()
    virtual.clock.wait(46)
    assert heard[3:] == [45]
    period[0] = None
    virtual.clock.wait(100)
    assert heard[4:] == [55], "the period that had begun is the last one"
    period[0] = 10 / PS
    virtual.clock.wait(200)
    assert len(heard) == 5
    ticker.restart()
    virtual.clock.wait(215)
    assert heard[5:] == [210]
    ticker.stop()
    ticker.stop()
    virtual.clock.wait(300)
    assert len(heard) == 6


def test_work_may_stop_its_own_ticker(virtual: Time) -> None:
    heard: list[int] = []

    def work() -> None:
        heard.append(virtual.now_ps)
        ticker.stop()

    ticker = virtual.clock.every(lambda: 10 / PS, work, "test")
    virtual.clock.wait(100)
    assert heard == [10]


@pytest.mark.parametrize("clock", [wall(), Time().clock], ids=["wall", "virtual"])
def test_who_wants_no_more_does_not_wait(clock: FabricClock) -> None:
    cancelled = threading.Event()
    clock.at(clock.now_ps + 5 * MS, cancelled.set)
    clock.wait_seconds(10 * PATIENCE_S, cancelled)
    assert cancelled.is_set()


def test_threads_that_wait_in_virtual_time_take_turns(virtual: Time) -> None:
    inside: list[int] = []
    crowds: list[int] = []

    def alarm() -> None:
        inside.append(1)
        crowds.append(len(inside))
        time.sleep(1e-3)
        inside.pop()

    for when in range(1, 20):
        virtual.clock.at(when * MS, alarm)
    threads = [threading.Thread(target=virtual.clock.wait, args=(end * MS,)) for end in (20, 15, 20, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert crowds == [1] * 19
    assert virtual.now_ps == 20 * MS


def test_the_wall_clock_passes_by_itself() -> None:
    clock, heard = wall(), []
    begin = clock.now_ps
    clock.at(begin + 3 * MS, lambda: heard.append(clock.now_ps))
    clock.wait(begin + 5 * MS)
    assert clock.now_ps >= begin + 5 * MS
    assert len(heard) == 1
    assert heard[0] >= begin + 3 * MS


def test_what_is_done_once_a_period_on_the_wall_clock() -> None:
    clock, done = wall(), threading.Event()
    period: list[float | None] = [None]
    ticker = clock.every(lambda: period[0], done.set, "test ticker")
    assert not done.wait(0.05), "not before restart"
    period[0] = 1e-3
    ticker.restart()
    assert done.wait(PATIENCE_S)
    ticker.stop()
    ticker.stop()
    assert "test ticker" not in {thread.name for thread in threading.enumerate()}


def test_a_fabric_that_goes_down_wakes_who_waits() -> None:
    def now() -> int:
        raise DetourError("the fabric is going down")

    with pytest.raises(DetourError, match="going down"):
        WallClock(now).wait(MS)
