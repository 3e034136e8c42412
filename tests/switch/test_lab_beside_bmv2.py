# SPDX-License-Identifier: Apache-2.0
"""The ECN lab of docs/labs on BMv2 in real time and here in virtual time: the same frames at the same times through a
queue of the same `set_queue_rate`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import detour
from detour.base.errors import DetourError
from tests.switch.bmv2_lab import Bmv2Lab, TimedFrame, missing

_LAB = Path(__file__).resolve().parents[2] / "docs" / "labs" / "ecn"
_SECOND = 10**12
_FRAMES, _GAP, _PPS = 200, 1 / 400, 100
_CAPACITY, _THRESHOLD = 64, 10
_SPENT = 2.0
"""seconds: half a second of sending, and the queue"""
_LATE = 8
"""packets by which a real switch may be off"""

_needs_bmv2 = pytest.mark.skipif(missing() is not None, reason=missing() or "")


def _sends() -> list[TimedFrame]:
    head = Ether(src="08:00:00:00:01:01", dst="08:00:00:00:01:00") / IP(src="10.0.1.1", dst="10.0.3.3", tos=1) / UDP()
    return [TimedFrame(k * _GAP, "h1", bytes(head / Raw(struct.pack("!I", k) + bytes(400)))) for k in range(_FRAMES)]


def _marks(frames: Sequence[bytes]) -> dict[int, bool]:
    """Of what came, by number."""
    own = [frame for frame in frames if frame[12:14] == b"\x08\x00"]
    return {struct.unpack_from("!I", frame, 42)[0]: frame[15] & 3 == 3 for frame in own}


def _here(sends: Sequence[TimedFrame]) -> dict[int, bool]:
    with detour.lab(_LAB) as lab:
        lab.cli("s1", f"set_queue_rate {_PPS} 3")
        lab.host("h3").sniff()
        times = [round(send.at * _SECOND) for send in sends]
        lab.host("h1").send_frames([send.frame for send in sends], times_ps=times)
        lab.run_until(round(_SPENT * _SECOND))
        return _marks([frame for _, frame in lab.host("h3").sniffed()])


def test_marks_and_drops_are_where_arithmetic_has_them() -> None:
    marks = _here(_sends())
    # The queue grows by 3 packets in 10 ms, of which 4 are sent.
    first = next(number for number, marked in marks.items() if marked)
    assert first == pytest.approx(_THRESHOLD * 4 / 3, abs=2)
    assert all(marked == (number >= first) for number, marked in marks.items())
    assert len(marks) == pytest.approx(_CAPACITY + _FRAMES * _GAP * _PPS, abs=2)


@_needs_bmv2
def test_bmv2_marks_and_drops_the_same_packets() -> None:
    with Bmv2Lab(_LAB) as lab:
        lab.set_queue_rate("s1", 3, _PPS)
        there = _marks([seen.frame for seen in lab.play(_sends(), _SPENT, ["h3"])])
        here = _here(lab.sent)
    assert len(there) == pytest.approx(len(here), abs=_LATE)
    assert sum(there.values()) == pytest.approx(sum(here.values()), abs=_LATE)
    assert min(k for k in there if there[k]) == pytest.approx(min(k for k in here if here[k]), abs=_LATE)


@_needs_bmv2
def test_what_a_switch_sends_can_be_listened_to() -> None:
    with Bmv2Lab(_LAB) as lab:
        seen = lab.play(_sends()[:3], 0.5, [("s1", 3), "h2"])
        assert [each.place for each in seen] == [("s1", 3)] * 3
        with pytest.raises(DetourError, match="there is no h9"):
            lab.play([], 0.1, ["h9"])
