# SPDX-License-Identifier: Apache-2.0
"""The setting of every routing and scheme, and how it was chosen.

Each gets the best of its `candidates`, in one sweep on equal terms: small networks, two matrices and a seed that no
result uses. The score is the 99th percentile of slowdowns over the share of the optimum that arrived, the geometric
mean over these cases; the lowest is chosen.
`chosen.json` has all that was tried; `detour reproduce flat --part settings --json` computes it again, as `settings`.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.records import from_json
from detour.experiments.columns import grouped, row, shown
from detour.experiments.flat.points import FAMILIES, UGAL, WAYS, FlatPoint, FlatRun, FlatSetting

FLAT_SETTINGS_FILE = Path(__file__).parent / "chosen.json"
TRAINING_SEED = 101
_SMALL_RNG = "rng:n=60,d=8,hosts=5"
TRAINING_CASES = (
    (_SMALL_RNG, "uniform"), (_SMALL_RNG, "random-matching"), ("polarfly:q=7,hosts=5", "random-matching")
)  # fmt: skip
_ECN_KB = (40, 80, 160)


def candidates(routing: str, scheme: str) -> list[FlatSetting]:
    """The settings that are tried for a routing and a scheme."""
    waypoints = (4, 8) if "spraypoint" in routing else (4,)
    biases = (0, 10) if routing == UGAL else (0,)
    orders = (False, True) if scheme == "SprayLERP" and routing in FAMILIES else (False,)
    exponents = (0, 1, 2) if scheme == "PathSet" and routing != "wmp" else (0,)
    return [
        FlatSetting(ecn_kb=k, waypoints=p, shortest_first=first, bias=bias, exponent=exponent)
        for k, p, first, bias, exponent in product(_ECN_KB, waypoints, orders, biases, exponents)
    ]


def settings_points() -> list[FlatPoint]:
    """All that is tried."""
    return [
        FlatPoint(
            topology=topology,
            routing=routing,
            scheme=scheme,
            matrix=matrix,
            seed=TRAINING_SEED,
            us=400,
            setting=setting,
        )
        for routing, scheme in WAYS
        for setting in candidates(routing, scheme)
        for topology, matrix in TRAINING_CASES
    ]


@row
class TriedSetting:
    """A setting, and what came of it: share of the optimum that arrived (geometric mean), and `score`."""

    routing: str = shown("routing")
    scheme: str = shown("scheme")
    setting: FlatSetting
    ecn_kb: int = shown("K kB")
    waypoints: int = shown("p", means="waypoints of Spraypoint")
    shortest_first: bool = shown("shortest first")
    bias: int = shown("bias")
    exponent: int = shown("exponent", means="by which weights of paths fall with their links")
    share: float = shown("share", ".3f", means="of the optimum that arrived; geometric mean")
    p99: float = shown("p99", ".2f", means="slowdown of messages; geometric mean")
    score: float = shown("score", ".2f", means="p99 over share; the lowest is chosen")


def ranked(runs: Sequence[FlatRun]) -> list[TriedSetting]:
    """The settings of every routing and scheme, best first."""
    found: list[TriedSetting] = []
    for mine in grouped(runs, lambda run: (run.routing, run.scheme)).values():
        tried = [_tried(setting, some) for setting, some in grouped(mine, lambda run: run.setting).items()]
        found += sorted(tried, key=lambda row: row.score)
    return found


def _tried(setting: FlatSetting, runs: Sequence[FlatRun]) -> TriedSetting:
    share = statistics.geometric_mean(run.measured / run.lp for run in runs)
    p99 = statistics.geometric_mean(run.slowdown.p99 for run in runs)
    return TriedSetting(
        routing=runs[0].routing,
        scheme=runs[0].scheme,
        setting=setting,
        ecn_kb=setting.ecn_kb,
        waypoints=setting.waypoints,
        shortest_first=setting.shortest_first,
        bias=setting.bias,
        exponent=setting.exponent,
        share=round(share, 4),
        p99=round(p99, 3),
        score=round(p99 / share, 3),
    )


@cache
def _stored() -> dict[tuple[str, str], FlatSetting]:
    try:
        rows = from_json(list[TriedSetting], json.loads(FLAT_SETTINGS_FILE.read_bytes()))
    except (OSError, ValueError) as error:
        raise DetourError(f"{FLAT_SETTINGS_FILE}: {error}") from None
    return {(row.routing, row.scheme): row.setting for row in reversed(rows)}


def chosen(routing: str, scheme: str) -> FlatSetting:
    """The best setting that was found; the usual one of a pair that was not tried. Raises `DetourError`: the file of
    settings cannot be read."""
    return _stored().get((routing, scheme), FlatSetting())
