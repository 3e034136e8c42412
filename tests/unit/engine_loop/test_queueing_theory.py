# SPDX-License-Identifier: Apache-2.0
"""An output queue against queueing theory: M/D/1, packet by packet and on average."""

from __future__ import annotations

import numpy as np
import pytest
import script_program as script
from script_program import frame

SERVICE_PS = 1_000_000
RATE_BPS = 64 * 8 * 1_000_000  # the rate at which 64 bytes take a microsecond
BATCH = 500


def departures(make, arrivals: np.ndarray) -> np.ndarray:
    """When packets that come at these times (ps) have left a link on which each takes `SERVICE_PS`."""
    bench = make().single(2, rate_bps=RATE_BPS, queue_packets=10_000)
    for first in range(0, len(arrivals), BATCH):
        batch = arrivals[first : first + BATCH]
        for time_ps in batch.tolist():
            bench.net.inject((1, 2), frame(script.UNICAST, 2), time_ps=time_ps)
        bench.net.run(int(batch[-1]))
    bench.net.run(int(arrivals[-1]) + len(arrivals) * SERVICE_PS)
    return np.array(bench.times(2))


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_an_output_queue_is_m_d_1(make, load: float) -> None:
    """Mean waiting time: rho / (2 (1 - rho)) services (Pollaczek and Khinchine)."""
    rng = np.random.default_rng(7)
    arrivals = np.cumsum(rng.exponential(SERVICE_PS / load, 30_000)).astype(np.int64)
    left = departures(make, arrivals)
    free, expected = 0, []
    for arrival in arrivals.tolist():  # Lindley's recursion
        free = max(free, arrival) + SERVICE_PS
        expected.append(free)
    assert left.tolist() == expected
    waited = (left - arrivals - SERVICE_PS).mean() / SERVICE_PS
    assert waited == pytest.approx(load / (2 * (1 - load)), rel=0.05)
