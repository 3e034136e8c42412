# SPDX-License-Identifier: Apache-2.0
"""NSCC: what each of the four kinds of answers does to the window, and quick adapt."""

from __future__ import annotations

import pytest

from detour.hosts.cc import control as native_control
from detour.hosts.state import Hosts
from tests.native import FromPython, controlled

US = 1_000_000
LARGEST = 225.0
"""1.5 times 12 us at 100 Gb/s, in packets of 1000 bytes"""

cc = FromPython(native_control)


def begin(window: float = LARGEST) -> Hosts:
    """A QP with NSCC."""
    hosts = controlled("nscc", 10.0)
    assert hosts.qp[0]["cwnd"] == pytest.approx(LARGEST), "where it begins"
    hosts.qp[0]["cwnd"] = window
    return hosts


def answers(hosts: Hosts, count: int, wait_us: float, *, marked: bool = False, at_us: float = 1.0) -> float:
    """The window after answers, 80 ns apart from `at_us` on, about packets that waited so long."""
    frame = hosts.frame[0]
    frame["has_delay"], frame["delay"], frame["ce"] = 1, int(wait_us * 1000), int(marked)
    for number in range(count):
        cc.tell(hosts.cfg[0], hosts.qp[0], frame, True, 20 * US)
        cc.on_acked(hosts.qp[0], 1000, number, False, int((at_us + 0.08 * number) * US))
    return float(hosts.qp[0]["cwnd"])


def test_it_grows_the_more_the_less_packets_wait() -> None:
    grown = [answers(begin(50.0), 50, wait) - 50.0 for wait in (3.0, 6.0, 11.0)]
    # 4 packets a window times what is left of 12 us, and 0.15
    assert grown[0] == pytest.approx(3.0, abs=0.4)
    assert grown[1] == pytest.approx(2.0, abs=0.4)
    assert grown[2] == pytest.approx(0.33, abs=0.4)


def test_after_a_window_without_queues_it_grows_fast() -> None:
    assert answers(begin(50.0), 51, 0.5) < 56
    assert answers(begin(50.0), 151, 0.5) == pytest.approx(50 + 4 + 0.25 * 100, abs=3)


def test_it_is_never_above_the_largest() -> None:
    assert answers(begin(LARGEST), 2000, 0.0) == pytest.approx(LARGEST)


def test_marks_on_a_path_that_waits_little_change_nothing() -> None:
    assert answers(begin(100.0), 100, 5.0, marked=True) == pytest.approx(100.0, abs=0.5)


def test_waits_without_marks_let_it_grow_for_fairness_alone() -> None:
    assert answers(begin(100.0), 100, 20.0) == pytest.approx(105.0, abs=1.0)


def test_marks_and_waits_shrink_it_once_a_round_trip() -> None:
    hosts = begin(100.0)
    answers(hosts, 400, 20.0)  # the mean is near 20 us now
    before = float(hosts.qp[0]["cwnd"])
    after = answers(hosts, 100, 20.0, marked=True, at_us=100.0)  # 8 us
    assert after == pytest.approx(before * (1 - 0.8 * 8 / 20), rel=0.05)
    assert answers(hosts, 1000, 40.0, marked=True, at_us=120.0) > 0.4**8 * before, "half of it at most each time"


def test_a_loss_is_a_packet_less() -> None:
    hosts = begin(100.0)
    cc.on_lost(hosts.qp[0], 3, True, 5 * US)
    assert hosts.qp[0]["cwnd"] == pytest.approx(99.0)


def test_quick_adapt_takes_what_arrived() -> None:
    hosts = begin()
    answers(hosts, 1, 5.0)  # the first look
    hosts.qp[0]["inflight"] = 200
    answers(hosts, 10, 60.0, at_us=2.0)
    cc.on_lost(hosts.qp[0], 3, True, 10 * US)
    before = float(hosts.qp[0]["cwnd"])
    assert before > 200
    assert answers(hosts, 1, 60.0, marked=True, at_us=40.0) == pytest.approx(12, abs=1.5), "a round trip's arrivals"
    # What was under way before does not count against it.
    assert answers(hosts, 50, 60.0, marked=True, at_us=41.0) == pytest.approx(12, abs=1.5)
