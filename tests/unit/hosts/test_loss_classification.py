# SPDX-License-Identifier: Apache-2.0
"""What losses say: a full queue, a bad link, or a path that does not keep order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from detour.hosts.cc import control as native_control
from detour.hosts.config import LITERAL_LOSS, HostConfig
from detour.hosts.decode import decode
from detour.hosts.parameters import host_config
from detour.hosts.transport import loss_classification as native_classification
from detour.hosts.verbs import QPInitAttr
from tests.native import FromPython, control_state, controlled
from tests.property.lossy import US, Network, Weather, make_pair, mark, through_switches, transfer

DCTCP = QPInitAttr(psn=0)
PACKETS = 1000

cc, classification = FromPython(native_control), FromPython(native_classification)


class Sender:
    """A row of a QP with DCTCP, and the answer that comes in."""

    def __init__(self, **changes: Any) -> None:
        self.hs = controlled("dctcp", 64.0, **changes)
        self.cfg, self.q, self.answer = self.hs.cfg[0], self.hs.qp[0], self.hs.frame[0]
        self.s = control_state(self.hs)[0]
        self.q["mark_wait"], self.q["next_txn"] = -1, 1000

    def judged(self, delay: int | None) -> bool:
        """Whether a loss is congestion if the next packet waited for `delay` ticks (None: it did not say)."""
        self.answer["has_delay"], self.answer["delay"] = delay is not None, delay or 0
        return bool(classification.is_congestion(self.cfg, self.q, self.answer))

    def marked(self, delay: int) -> None:
        self.answer["has_delay"], self.answer["delay"] = True, delay
        classification.note_mark(self.q, self.answer)

    def lose(self, congested: bool = True) -> None:
        """A packet that was sent since the last cut is lost."""
        cc.on_lost(self.q, int(self.q["next_txn"]), congested, 0)
        self.q["next_txn"] += 1


def test_a_loss_is_congestion_if_packets_waited_longer_than_where_marks_begin() -> None:
    sender = Sender()  # a tick is a nanosecond, an MTU 80 of them
    assert not sender.judged(0)
    assert not sender.judged(75 * 80)
    assert sender.judged(75 * 80 + 1), "before the first mark: 75 MTU times"
    sender.marked(9_000)
    sender.marked(6_400)
    sender.marked(7_000)
    assert not sender.judged(9_600), "the least of marked packets waited for 6.4 us"
    assert sender.judged(9_601)
    assert sender.judged(None), "nothing is known"
    literal = Sender(**LITERAL_LOSS)
    assert literal.judged(0), "RFC 8257, 3.5"


def test_only_a_full_queue_cuts_the_window() -> None:
    sender = Sender()
    sender.lose(congested=False)
    assert sender.q["cwnd"] == 64
    sender.lose()
    assert sender.q["cwnd"] == 32


def test_a_cut_is_undone_when_all_losses_prove_spurious() -> None:
    sender = Sender()
    sender.lose()
    sender.s["hold"] = 1 << 40  # two more in the same window
    sender.lose()
    sender.lose()
    for left in (32, 32, 64):
        cc.on_spurious(sender.q, 0)
        assert sender.q["cwnd"] == left
    cc.on_spurious(sender.q, 0)
    assert sender.q["cwnd"] == 64


def test_a_cut_stays_if_one_loss_was_true_or_a_mark_cut_too() -> None:
    sender = Sender()
    sender.lose()
    sender.lose(congested=False)
    cc.on_spurious(sender.q, 0)
    assert sender.q["cwnd"] == 32
    sender = Sender()
    sender.lose()
    cc.on_ecn(sender.q, 1000, int(sender.q["next_txn"]), 0)
    cut = float(sender.q["cwnd"])
    assert cut < 32
    cc.on_spurious(sender.q, 0)
    assert sender.q["cwnd"] == cut


def test_a_timeout_is_undone_when_everything_arrives_after_all() -> None:
    sender = Sender()
    cc.on_rto(sender.q, 3, 0)
    assert sender.q["cwnd"] == 2
    for _ in range(3):
        cc.on_spurious(sender.q, 0)
    assert sender.q["cwnd"] == 64


def test_lateness_is_learnt_and_forgotten_after_sixteen_round_trips_with_true_losses() -> None:
    sender = Sender()
    sender.q["srtt"], sender.q["newest_sent"] = 10 * US, 100 * US
    classification.note_late(sender.q, np.int64(97 * US), sender.q["newest_sent"])
    assert sender.q["reorder_ps"] == 3 * US
    classification.note_late(sender.q, np.int64(98 * US), sender.q["newest_sent"])
    assert sender.q["reorder_ps"] == 3 * US
    classification.note_late(sender.q, np.int64(50 * US), sender.q["newest_sent"])
    assert sender.q["reorder_ps"] == 10 * US, "a round trip at most"
    for round_trip in range(16):
        assert sender.q["reorder_ps"] == 10 * US
        for _ in range(3):  # of one round trip
            classification.note_loss(sender.q, np.int64(999 + round_trip))
        sender.q["next_txn"] += 1
    assert sender.q["reorder_ps"] == 0


def every(count: int, doom: Callable[[bytes], bytes | None]) -> Callable[[int, bytes], bytes | None]:
    """Filter for every so many-th data packet that is sent for the first time, from the 50th on."""

    def keep(_: int, frame: bytes) -> bytes | None:
        f = decode(through_switches(frame))
        chosen = f["kind"] == "data" and f["count"] == 0 and f["psn"] >= 50 and f["psn"] % count == 0
        return doom(frame) if chosen else frame

    return keep


def sent(weather: Weather, config: HostConfig, keep: Callable[[int, bytes], bytes | None] | None = None) -> Any:
    """The sender's row after a transfer that arrived whole, and its statistics, with the time that it took."""
    pair = make_pair(memory=1 << 20, attr_a=DCTCP, config=config)
    net = Network(pair.hs, weather, filter=keep, seed=3)
    stats = transfer(pair, net, PACKETS)
    return pair.hs.qp[pair.qp_a.index], stats | {"ps": net.now}


@pytest.mark.parametrize(("queue", "shrinks"), [(0, False), (20_000, True)])
def test_losses_without_a_queue_leave_the_window(queue: int, shrinks: bool) -> None:
    weather = Weather(queue_of=lambda sport: queue)
    row, stats = sent(weather, HostConfig(initial_cwnd=32), every(10, lambda frame: None))
    assert stats["lost"] == stats["retransmitted"] == 95
    assert (row["cwnd"] < 32) == shrinks
    row, _ = sent(weather, host_config(initial_cwnd=32, **LITERAL_LOSS), every(10, lambda frame: None))
    assert row["cwnd"] < 32, "RFC 8257: whatever queues say"


def test_marks_still_cut() -> None:
    row, _ = sent(Weather(), HostConfig(initial_cwnd=32), every(10, mark))
    assert row["cwnd"] < 32


def test_a_path_that_does_not_keep_order_is_found_out() -> None:
    late = Weather(reorder=0.1)
    row, stats = sent(late, HostConfig(initial_cwnd=32))
    literal_row, literal = sent(late, host_config(initial_cwnd=32, **LITERAL_LOSS))
    assert row["reorder_ps"] > 0
    assert literal_row["reorder_ps"] == 0
    assert stats["spurious"] < literal["spurious"]
    assert stats["ps"] < literal["ps"] / 2


def test_behind_late_packets_true_losses_are_found_all_the_same() -> None:
    row, stats = sent(Weather(reorder=0.1, loss=0.03), HostConfig(initial_cwnd=32))
    assert row["reorder_ps"] <= row["srtt"] + 30 * US
    assert stats["retransmitted"] > stats["spurious"]
