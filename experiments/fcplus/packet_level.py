# SPDX-License-Identifier: Apache-2.0
"""Which points of the packet level there are, and their tables: Table VIII's completion times, deadlocks; routings
under real transports, which the paper does not have.

What computes them (`packets.py`, `deadlock.py`, `transports.py`) is loaded when a point is run: it takes the engine
along.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import UNSET

from detour.experiments.fcplus import paper
from detour.experiments.fcplus.results import FcplusPoint, PacketsPoint, StuckPoint, TransportPoint
from detour.experiments.fcplus.settings import SETTINGS_SEED, candidates, chosen_setting
from detour.experiments.steady import DRAWS

NETWORKS = ("FC+ 2L", "FC+ 1L", "KSP", "FC", "Clos")
ARRIVALS_US = {"normal": 600, "full": 5_000}
"""for how long messages arrive"""
_DEADLOCK_ROUTES = ("KSP", "FC+ 1L", "FC+ 2L")
_SMALL = StuckPoint(n=12, s=6, v=3, hosts=3, k=8, each=4, us=2_000, network="KSP", dcqcn=False)
_LARGE = StuckPoint(n=120, s=22, v=None, hosts=10, k=32, each=4, us=300, network="KSP", dcqcn=False)
_DOWN = "s6-s1,s0-s10,s7-s2"
"""links of the small network whose failure locks it up where packets in the last class stay there"""


def select(full: bool, sizes: str = "equal") -> list[FcplusPoint]:
    """Five networks under three patterns; routes with and without deadlock on a small network and the paper's, and on
    the small one while links are down."""
    times = ARRIVALS_US["full" if full else "normal"]
    packets = [
        PacketsPoint(n=120, s=22, network=network, pattern=pattern, k=32, us=times, sizes=sizes)
        for pattern in paper.TABLE_8_FCT
        for network in NETWORKS
    ]
    deadlock = [
        replace(size, network=network, dcqcn=dcqcn)
        for size in (_SMALL, _LARGE)
        for dcqcn in (False, True)
        for network in _DEADLOCK_ROUTES
    ]
    failed = [
        replace(_SMALL, network=network, fail=_DOWN, guard=guard)
        for network, guard in (("FC+ 1L", False), ("FC+ 1L", UNSET), ("FC+ 2L", UNSET))
    ]
    return [*packets, *deadlock, *failed]


ROUTING_NAMES = ("FC+ 1L", "FC+ 2L", "ECMP", "KSP", "shortest-union", "UGAL-L", "UGAL-L per packet", "SprayLERP")
TRANSPORT_NAMES = ("lossless", "lossy", "shallow")
"""RoCEv2 with PFC; LERP without; the same with little memory. `transports.TRANSPORTS` says what each is"""
_COMPARED = ("near-worst", "uniform")
_SMALL_TRANSPORTS: dict[str, Any] = {"n": 32, "s": 10, "hosts": 5, "us": 1000, "load": 0.6}
_LARGE_TRANSPORTS: dict[str, Any] = {"n": 120, "s": 22, "hosts": 10, "us": 600, "load": 0.6}


def transports(extent: str, seeds: int | None = None) -> list[TransportPoint]:
    """Every routing under every transport and two patterns, at its best setting: on 32 switches, or ("full") the
    paper's 120. `seeds`: draws, None for as many as a comparison has (`experiments.steady`), one if "quick"."""
    draws = seeds or (1 if extent == "quick" else DRAWS)
    size = _LARGE_TRANSPORTS if extent == "full" else _SMALL_TRANSPORTS
    return [
        TransportPoint(
            routing=routing,
            transport=transport,
            pattern=pattern,
            seed=seed,
            setting=chosen_setting(transport, routing),
            **size,
        )
        for pattern in _COMPARED
        for transport in TRANSPORT_NAMES
        for routing in ROUTING_NAMES
        for seed in range(1, draws + 1)
    ]


def transport_settings() -> list[TransportPoint]:
    """All that is tried to find the best settings, on the small network."""
    return [
        TransportPoint(
            routing=routing,
            transport=transport,
            pattern=pattern,
            seed=SETTINGS_SEED,
            setting=setting,
            **_SMALL_TRANSPORTS,
        )
        for transport in TRANSPORT_NAMES
        for routing in ROUTING_NAMES
        for setting in candidates(transport, routing)
        for pattern in _COMPARED
    ]


def run(point: PacketsPoint | StuckPoint | TransportPoint) -> PacketsPoint | StuckPoint | TransportPoint:
    """Computes a point of any kind."""
    if isinstance(point, TransportPoint):
        from detour.experiments.fcplus import transports as fcplus_transports

        return fcplus_transports.run(point)
    from detour.experiments.fcplus import deadlock as fcplus_deadlock
    from detour.experiments.fcplus import packets as fcplus_packets

    return fcplus_packets.run(point) if isinstance(point, PacketsPoint) else fcplus_deadlock.run(point)


def seconds(point: PacketsPoint | StuckPoint | TransportPoint) -> float:
    """Roughly what a point costs on one core, compiling left out."""
    if isinstance(point, TransportPoint):
        return 1 + point.n * point.hosts * point.us / 40_000
    if isinstance(point, PacketsPoint):
        return 15 + point.us * {"near-worst": 0.032, "uniform": 0.028, "all-to-all": 0.026}[point.pattern]
    return 4 + point.n * point.s * point.us / 25_000
