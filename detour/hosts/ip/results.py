# SPDX-License-Identifier: Apache-2.0
"""Records of the hosts' measurements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from detour.hosts.ip.addressing import text_of

_PS = 1e12


@dataclass(frozen=True)
class PingResult:
    """Times are ps. `rtts_ps`: of each request, 0: no answer. `last_error`: ICMP type, code and who sent it."""

    sent: int
    received: int
    duplicates: int
    corrupt: int
    errors: int
    last_error: tuple[int, int, str] | None
    rtts_ps: np.ndarray = field(repr=False)

    @property
    def answered_ps(self) -> np.ndarray:
        """Round trips of those that were answered."""
        return self.rtts_ps[self.rtts_ps > 0]

    def summary(self) -> dict[str, Any]:
        """Numbers for a table; seconds."""
        trips = self.answered_ps / _PS
        answered = trips.size > 0
        return {
            "sent": self.sent,
            "received": self.received,
            "errors": self.errors,
            "rtt_min_s": float(trips.min()) if answered else None,
            "rtt_mean_s": float(trips.mean()) if answered else None,
            "rtt_max_s": float(trips.max()) if answered else None,
        }


@dataclass(frozen=True)
class SentResult:
    """Packets and bytes of payload that a flow has sent. `unreachable`: packets not sent because the neighbour did not
    answer."""

    packets: int
    bytes: int
    first_ps: int
    last_ps: int
    unreachable: int
    done: bool


@dataclass(frozen=True)
class RawResult:
    """Frames that were sent."""

    packets: int
    bytes: int
    done: bool


@dataclass(frozen=True)
class ReceivedResult:
    """Packets that a port has received from a sender. `measured` packets carried their number and time: of these `lost`
    were passed over and have not come since, `reordered` came late, by up to `displaced` numbers; delays in ps.
    `samples`: records of `layout.SampleRecord`; `delay_counts`: a histogram (`layout.BUCKETS`)."""

    source: str
    source_port: int
    packets: int
    bytes: int
    ce: int
    first_ps: int
    last_ps: int
    measured: int
    lost: int
    reordered: int
    displaced: int
    corrupt: int
    delay_mean_ps: float
    delay_min_ps: int
    delay_max_ps: int
    jitter_ps: float
    delay_counts: np.ndarray | None = field(repr=False)
    samples: np.ndarray | None = field(repr=False)

    @property
    def goodput_bps(self) -> float:
        """Payload a second from the first to the last packet; the first one begins the time."""
        took = self.last_ps - self.first_ps
        return 0.0 if took <= 0 else self.bytes * (self.packets - 1) / self.packets * 8 * _PS / took

    def delay_at(self, share: float) -> float:
        """The delay in ps below which a share of the packets is, to within a bucket (an eighth of an octave)."""
        if self.delay_counts is None or not self.delay_counts.any():
            return float("nan")
        sums = np.cumsum(self.delay_counts)
        number = int(np.searchsorted(sums, share * int(sums[-1])))
        return min(max(bucket_middle(number), self.delay_min_ps), self.delay_max_ps)


def bucket_middle(number: int) -> float:
    """The middle of a bucket of delays, ps."""
    if number < 16:
        return float(number)
    shift = number // 8 - 1
    return (number - 8 * shift + 0.5) * 2.0**shift


def integers(row: np.void, names: str) -> dict[str, int]:
    """Fields of a row of a table, by name, or as `name=field` says."""
    pairs = [name.partition("=") for name in names.split()]
    return {name: int(row[field or name]) for name, _, field in pairs}


def received(row: np.void, peer: np.void, counts: np.ndarray | None, samples: np.ndarray | None) -> ReceivedResult:
    """The result of a row of the table of sockets and of its `layout.PeerRecord`."""
    measured, delays = int(peer["measured"]), int(peer["delay_sum"])
    same = "first_ps last_ps measured reordered displaced corrupt"
    return ReceivedResult(
        source=text_of(int(row["r_hi"]), int(row["r_lo"])),
        lost=max(int(peer["gaps"]) - int(peer["reordered"]), 0),
        delay_mean_ps=delays / measured if measured else float("nan"),
        jitter_ps=int(peer["jitter"]) / 16,
        delay_counts=counts,
        samples=samples,
        **integers(row, "source_port=rport"),
        **integers(peer, f"{same} packets=rx_packets bytes=rx_bytes ce=rx_ce"),
        **integers(peer, "delay_min_ps=delay_min delay_max_ps=delay_max"),
    )
