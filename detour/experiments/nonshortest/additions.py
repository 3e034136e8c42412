# SPDX-License-Identifier: Apache-2.0
"""Additions of the schemes here to the letter of the paper: the paper's text, the addition, and the scheme without it.

What each is worth is measured by leaving it out (an ablation): `detour reproduce nonshortest --settings`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from detour.base.errors import DetourError
from detour.fabric.backends.virtual.scheme import (
    BENCHMARK,
    BENCHMARK_DCTCP,
    RED_MARKING,
    SHORTEST_PATH,
    STEP_MARKING,
    TELEMETRY_GBN,
    TELEMETRY_GBN_DCTCP,
    TELEMETRY_LERP,
    Scheme,
)

_TELEMETRY = (TELEMETRY_LERP.name, TELEMETRY_GBN.name, TELEMETRY_GBN_DCTCP.name)
_TELEMETRY_DCTCP = (TELEMETRY_LERP.name, TELEMETRY_GBN_DCTCP.name)
_ADAPTIVE = (BENCHMARK.name, BENCHMARK_DCTCP.name)
_PFC = (*_ADAPTIVE, SHORTEST_PATH.name)
_PFC_DCQCN = (BENCHMARK.name, SHORTEST_PATH.name)


@dataclass(frozen=True)
class Addition:
    """`schemes`: the names of those that have it; `paper`: what the paper says of it; `ours`: what is there instead;
    `chosen_on`: traffic that it was found on; `undone`: a scheme without it."""

    name: str
    schemes: tuple[str, ...]
    paper: str
    ours: str
    chosen_on: str
    undone: Callable[[Scheme], Scheme]


def _hosts(name: str) -> Callable[[Scheme], Scheme]:
    return lambda scheme: replace(scheme, hosts=tuple((key, value) for key, value in scheme.hosts if key != name))


def _patience(scheme: Scheme) -> Scheme:
    return replace(scheme, hosts=())


_FIRST = "D1 UNF 288, ADV1 64, ADV2 32; D2 ADV1 144"
_SECOND = "ADV1 and ADV2 with a connection a host of the group, D1 to D3"
_SWEEP = "the sweep of --tune"

ADDITIONS: tuple[Addition, ...] = (
    Addition(
        "own_share", _TELEMETRY, "whole delays are compared",
        "the part of a path's delay that the sender's own packets cause does not count", _FIRST, _hosts("own_share"),
    ),
    Addition(
        "standing_delay", _TELEMETRY, "the delay of the last packet counts",
        "the least delay of the last one to two windows counts", _FIRST, _hosts("standing_delay"),
    ),
    Addition(
        "confirmations", _TELEMETRY, "one probe decides", "four in a row must say the same", _FIRST,
        _hosts("confirmations"),
    ),
    Addition(
        "reroute_cwnd", _TELEMETRY, "slow start on the new path", "it begins with 64 packets, not 10", _FIRST,
        _hosts("reroute_cwnd"),
    ),
    Addition(
        "delta2_empty", _TELEMETRY, "delta2 = 75 for every path", "40 for a path that nine probes find empty", _SECOND,
        _hosts("delta2_empty"),
    ),
    Addition(
        "empty_gain", _TELEMETRY_DCTCP, "similar to DCTCP: a packet a round trip",
        "a quarter of the window while the path is empty", _SECOND, _hosts("empty_gain"),
    ),
    Addition(
        "crowded_probes", _TELEMETRY, "a PTM every max(cwnd, delta3) packets",
        "two while the path is worse than an empty one", _SECOND, _hosts("crowded_probes"),
    ),
    Addition(
        "ecn", _TELEMETRY_DCTCP, "no K", "the best K of the sweep, not 80 kB", _SWEEP,
        lambda scheme: replace(scheme, ecn=STEP_MARKING),
    ),
    Addition(
        "ecn", _PFC_DCQCN, "similar to DCQCN, without thresholds",
        "marks come before PFC's pauses, not at 400 to 1600 kB", _SWEEP,
        lambda scheme: replace(scheme, ecn=RED_MARKING),
    ),
    Addition(
        "threshold", _ADAPTIVE, "T, \"a constant\"", "the best T of the sweep, not 0", _SWEEP,
        lambda scheme: scheme.with_threshold(0),
    ),
    Addition(
        "timeouts", _PFC, "nothing", "10 ms at least: a pause is not a loss", "D1 UNF 288", _patience,
    ),
)  # fmt: skip


def additions_of(scheme: Scheme) -> list[Addition]:
    """Return the additions that change a scheme."""
    return [one for one in ADDITIONS if scheme.name in one.schemes and one.undone(scheme) != scheme]


def undo(scheme: Scheme, name: str) -> Scheme:
    """The scheme without an addition. Raises `DetourError`: it has none of this name."""
    for one in ADDITIONS:
        if one.name == name and scheme.name in one.schemes:
            return one.undone(scheme)
    names = [one.name for one in ADDITIONS if scheme.name in one.schemes]
    raise DetourError(f"{scheme.name} has no addition {name!r}; it has: {', '.join(names) or 'none'}")
