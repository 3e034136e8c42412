# SPDX-License-Identifier: Apache-2.0
"""Parameters of the host stacks, one set for all hosts of a process.

What a paper or RFC leaves open is a named parameter here. Times are picoseconds, delays on the wire ticks.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from detour.base.errors import DetourError

US = 1_000_000
MS = 1_000 * US


@dataclass(frozen=True)
class HostConfig:
    """Defaults fit 100 Gb/s in virtual time; `HostConfig.real_time` has those for the wall clock."""

    payload: int = 1000
    """bytes of payload a data packet (FACTS 6)"""
    mtu: int = 1000
    """bytes of an "MTU" in the 75-MTU rule (section III)"""
    link_rate_bps: int = 100_000_000_000
    """rate that the 75-MTU rule and line-rate start assume"""
    tick_ps: int = 1_000
    """length of a tick of the Transit Measurement option"""
    elide_payload: bool = False
    """payload bytes, ICRC and UDP checksum are neither written nor read; lengths are as if they were"""

    min_rto_ps: int = 200 * US
    """lower bound of the retransmission timeout (RFC 6298, 2.4)"""
    initial_rto_ps: int = 1 * MS
    """retransmission timeout before the first RTT sample"""
    max_rto_ps: int = 100 * MS
    """upper bound, backoff included"""
    min_probe_timeout_ps: int = 20 * US
    """lower bound of the tail-loss probe's timeout of two smoothed RTTs (RFC 8985, 7.2)"""
    retry_count: int = 7
    """timeouts in a row without any progress before the QP fails"""

    initial_cwnd: int = 10
    """packets that a connection starts with (RFC 6928)"""
    line_rate_start: bool = False
    """a connection starts with `line_rate_cwnd` instead"""
    line_rate_cwnd: int = 128
    """packets of a bandwidth-delay product: the window of a line-rate start"""
    reroute_cwnd: int = 10
    """packets with which slow start begins on a new path (section III)"""
    min_cwnd: int = 2
    """floor of the congestion window in packets (FACTS 5)"""
    max_cwnd: int = 1 << 14
    """ceiling of the congestion window in packets"""
    dctcp_g: float = 1 / 16
    """gain of the marked fraction's estimate (RFC 8257, 3.3)"""

    delta1: float = 0.8
    """a better path's delay is below this share of the current one's (section III)"""
    delta2: int = 75
    """and below it by more than this many MTU transmission times"""
    delta3: int = 100
    """a PTM is sent every max(cwnd, delta3) data packets"""
    initial_probes: int = 4
    """PTMs on random alternatives when a connection gets busy"""
    probe_backlog: int = 16
    """packets to send that make a connection busy ("many packets to send", section III)"""
    dead_path_rtos: int = 2
    """timeouts in a row on one path that make the sender leave it"""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 0 if field.name in _MAY_BE_ZERO else 1
            if field.type == "int" and value < least:
                raise DetourError(f"host parameter {field.name} is {value}; it must be at least {least}")
        if self.payload > MAX_PAYLOAD:
            raise DetourError(f"host parameter payload is {self.payload}; it must be at most {MAX_PAYLOAD}")
        if self.max_rto_ps < self.min_rto_ps:
            raise DetourError("host parameter max_rto_ps is below min_rto_ps; it must not be")
        if not 0 < self.delta1 <= 1 or not 0 < self.dctcp_g <= 1:
            raise DetourError("host parameters delta1 and dctcp_g must be above 0 and at most 1")

    @classmethod
    def real_time(cls, link_rate_bps: int = 20_000_000, **changes: Any) -> HostConfig:
        """Defaults for the wall clock: 1 us ticks and timeouts that a laptop can keep."""
        values: dict[str, Any] = {
            "link_rate_bps": link_rate_bps,
            "tick_ps": 1_000_000,
            "min_rto_ps": 20 * MS,
            "initial_rto_ps": 200 * MS,
            "max_rto_ps": 2_000 * MS,
            "min_probe_timeout_ps": 5 * MS,
        }
        return cls(**(values | changes))


_MAY_BE_ZERO = ("retry_count", "delta2", "initial_probes", "probe_backlog")
MAX_PAYLOAD = 4096
"""bytes; the largest RDMA MTU (IBTA)"""

_TYPES = {"int": np.int64, "float": np.float64, "bool": np.int64}
_SIZES = ("arena_bytes", "n_qps", "n_mrs", "window", "sq_depth", "cq_depth", "control_depth")
CONFIG = np.dtype([(f.name, _TYPES[str(f.type)]) for f in fields(HostConfig)] + [(name, np.int64) for name in _SIZES])
"""`HostConfig` as a record for native code, with the sizes that `make_hosts` chose"""
