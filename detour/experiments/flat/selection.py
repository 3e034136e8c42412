# SPDX-License-Identifier: Apache-2.0
"""The runs that make up the comparison: networks at three equalities, matrices, failures, ways to choose paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.records import decoder
from detour.experiments.flat.points import (
    MOST_TOGETHER,
    NO_FAILURES,
    PLACED,
    SINGLE_PATH,
    UGAL,
    WAYS,
    ClaimsPoint,
    CollectivePoint,
    FlatPoint,
)
from detour.experiments.flat.settings import chosen, settings_points
from detour.experiments.steady import draws_of
from detour.experiments.store import points_in

RNG, POLARFLY, SLIM_FLY = "rng:n=133,d=12,hosts=8", "polarfly:q=11,hosts=8", "slimfly:n=162,s=13,hosts=7"
FCPLUS, XPANDER = "fcplus:n=135,s=12,hosts=8", "xpander:n=130,s=12,hosts=8"
CLOS, RATIO_CLOS = (f"equal-cost-clos:servers=1064,switches={switches},p=20" for switches in (133, 148))
FAT_TREE = "fat-tree:k=16"
SCALE_MODEL = "rng:n=512,d=32,hosts=32"
"""RNG's d / n and p d / n at a size that runs here (16,384 hosts)"""
EQUALITIES: dict[str, tuple[str, ...]] = {
    RNG: ("switches", "ratio", "cost"), POLARFLY: ("switches", "cost"), SLIM_FLY: ("switches",), FCPLUS: ("switches",),
    XPANDER: ("switches",), CLOS: ("switches", "cost"), RATIO_CLOS: ("ratio",), FAT_TREE: ("hosts",),
    SCALE_MODEL: ("scale",),
}  # fmt: skip
"""What a network has in common with others: `switches` with about as many ports each; the worst-case `ratio` of what
hosts send to what arrives; the `cost` of switches and optics (`topo.measures`); `hosts`, a tree that is not
oversubscribed; `scale`, larger than the others. All but the last have about 1,064 hosts and switches of 20 ports (the
fat-tree: 16)"""
MATRICES = (
    "uniform", "all-to-all", "clique:0.3", "hubs:0.3", "random-matching", "longest-matching", "neighbour-matching",
    "ring", "ring-random", "web-search", "moe:0.3",
)  # fmt: skip
FAILURES = tuple(
    f"{failed}{known}"
    for failed, known in product(("links:0.01", "links:0.02", "links:0.05", "switches:0.01"), ("", ",replanned"))
)
_SWITCHES_BEST, _SENDER_BEST = ("spraypoint", "REPS"), ("edge-disjoint", "PathSet")
_FEW_MATRICES = ("uniform", "random-matching", "longest-matching")
_POLARFLY_MATRICES = (*_FEW_MATRICES, "neighbour-matching")
_TREES = (CLOS, RATIO_CLOS, FAT_TREE)
_COLLECTIVE_RANKS = (("ring", (64, 256, 1024)), ("all-to-all", (64, 256, 512, 1024)), ("moe", (64, 256)))
_COLLECTIVE_DRAWS = 2
_AT_ONCE, _AT_ONCE_BYTES = ("permutation", "adversarial"), 4 << 20
"""of Spritz, on its Slim Fly"""
_CLAIMS = (
    ("disjoint", "paper", 1), ("ratios", "paper", 1), ("savings", "paper", 1), ("active", "small", 1),
    ("neighbours", "small", 1), ("older", "small", 1),
)  # fmt: skip
"""questions, the sizes at which they are asked, and draws"""
PARTS = ("paths", "networks", "failures", "collectives", "claims", "scale", "settings")


def _points(
    topologies: Iterable[str], ways: Iterable[tuple[str, str]], matrices: Iterable[str], failures: Iterable[str],
    seeds: int, **more: Any,
) -> Iterator[FlatPoint]:  # fmt: skip
    for topology, matrix, failed, seed, (routing, scheme) in product(
        topologies, matrices, failures, range(1, seeds + 1), ways
    ):
        yield FlatPoint(
            topology=topology, routing=routing, scheme=scheme, matrix=matrix, failures=failed, seed=seed,
            setting=chosen(routing, scheme), **more,
        )  # fmt: skip


def _part(part: str, seeds: int, full: bool) -> Iterator[FlatPoint | CollectivePoint | ClaimsPoint]:
    none = (NO_FAILURES,)
    if part == "paths":
        for topology, matrices in ((RNG, MATRICES), (POLARFLY, _POLARFLY_MATRICES)):
            ways, some = (WAYS, MATRICES) if full else (_COMPARED[topology], matrices)
            yield from _points((topology,), ways, some, none, seeds)
        yield from _points((RNG,), ((UGAL, SINGLE_PATH), ("wmp", "PathSet")), _FEW_MATRICES, none, seeds)
    elif part == "networks":
        both = _SWITCHES_BEST, _SENDER_BEST
        yield from _points((SLIM_FLY,), (*both, (UGAL, SINGLE_PATH)), _FEW_MATRICES, none, seeds)
        yield from _points((FCPLUS, XPANDER), both, _FEW_MATRICES, none, seeds)
        yield from _points(_TREES, (("ecmp", "SprayLERP"),), _FEW_MATRICES, none, seeds)
    elif part == "failures":
        yield from _points((RNG,), (_SWITCHES_BEST, _SENDER_BEST), ("random-matching",), FAILURES, seeds)
    elif part == "collectives":
        yield from _collectives(min(seeds, _COLLECTIVE_DRAWS))
    elif part == "claims":
        for question, scale, draws in _CLAIMS:
            yield ClaimsPoint(question=question, scale=scale, draws=draws)
    elif part == "scale":
        ways = (_SWITCHES_BEST, _SENDER_BEST)
        yield from _points((SCALE_MODEL,), ways, _FEW_MATRICES, none, seeds if full else 1, us=300)


def _collectives(draws: int) -> Iterator[CollectivePoint]:
    """Collectives placed by rack and at random, and with their paths placed; messages that all begin at once."""
    for topology in (RNG, POLARFLY, CLOS, FAT_TREE):
        ways = (("ecmp", "SprayLERP"),) if topology in _TREES else (_SWITCHES_BEST, _SENDER_BEST)
        placed = [(way, order) for way in ways for order in ("by-rack", "random")]
        for collective, ranks in _COLLECTIVE_RANKS:
            for count, ((routing, scheme), order), seed in product(
                ranks, [*placed, ((PLACED, SINGLE_PATH), "by-rack")], range(1, draws + 1)
            ):
                if routing == PLACED and collective == "all-to-all" and count > MOST_TOGETHER:
                    continue  # more paths than hosts have room for
                yield CollectivePoint(
                    topology=topology, routing=routing, scheme=scheme, collective=collective, ranks=count,
                    placed=order, seed=seed, setting=chosen(routing, scheme),
                )  # fmt: skip
    hosts, ways = 1134, (_SWITCHES_BEST, _SENDER_BEST, (UGAL, SINGLE_PATH))
    for collective, (routing, scheme), seed in product(_AT_ONCE, ways, range(1, draws + 1)):
        yield CollectivePoint(
            topology=SLIM_FLY, routing=routing, scheme=scheme, collective=collective, ranks=hosts, placed="random",
            size=_AT_ONCE_BYTES, seed=seed, setting=chosen(routing, scheme),
        )  # fmt: skip


_QUICK = ("rng:n=60,d=8,hosts=5", "polarfly:q=7,hosts=5")
"""small networks"""
_COMPARED = {
    RNG: (_SWITCHES_BEST, ("ksp", "SprayLERP"), _SENDER_BEST),
    POLARFLY: (_SWITCHES_BEST, ("wmp", "PathSet"), _SENDER_BEST),
}
"""of `WAYS`, what the usual extent has"""


def select_asked(
    extent: str = "normal",
    *,
    part: str | None = None,
    topologies: Sequence[str] | None = None,
    matrices: Sequence[str] | None = None,
    ways: Sequence[str] | None = None,
    failures: Sequence[str] | None = None,
    seeds: int | None = None,
    us: int | None = None,
    source: Path | None = None,
) -> list[FlatPoint | CollectivePoint | ClaimsPoint]:
    """The points that are asked for: of `source` all that it has, else of all parts or one, of this what is named, or a
    grid of what is named. `ways`: `ROUTING/SCHEME`. Raises `DetourError`: a way that is none, a part without what is
    named, or a file that cannot be read."""
    if source is not None:
        return points_in(source, decoder(FlatPoint, CollectivePoint, ClaimsPoint))
    if part == "settings":
        return [*settings_points()]
    draws = seeds or draws_of(extent)
    points = _asked(extent, part, draws, topologies, matrices, ways, failures)
    if us is not None:
        points = [replace(point, us=us) if isinstance(point, FlatPoint) else point for point in points]
    return list(dict.fromkeys(points))


def _asked(
    extent: str,
    part: str | None,
    draws: int,
    topologies: Sequence[str] | None,
    matrices: Sequence[str] | None,
    ways: Sequence[str] | None,
    failures: Sequence[str] | None,
) -> list[FlatPoint | CollectivePoint | ClaimsPoint]:
    if extent == "quick":
        return [*_points(_QUICK, (_SWITCHES_BEST, _SENDER_BEST), _FEW_MATRICES[:2], (NO_FAILURES,), draws)]
    pairs = [_way(text) for text in ways or ()]
    if part is None and (topologies or matrices or ways or failures):
        some = pairs or (_SWITCHES_BEST, _SENDER_BEST)
        return [*_points(topologies or (RNG,), some, matrices or MATRICES, failures or (NO_FAILURES,), draws)]
    parts = (part,) if part else PARTS[: -1 if extent == "full" else -2]
    points = [point for name in parts for point in _part(name, draws, extent == "full")]
    asked = {"topology": topologies, "matrix": matrices, "failures": failures}
    found = [
        point
        for point in points
        if all(getattr(point, name, None) in values for name, values in asked.items() if values)
        and (not pairs or (getattr(point, "routing", None), getattr(point, "scheme", None)) in pairs)
    ]
    if not found:
        raise DetourError(f"--part {part} has no such topology, matrix, way or failures")
    return found


def _way(text: str) -> tuple[str, str]:
    routing, slash, scheme = text.partition("/")
    if not slash:
        raise DetourError(f"{text!r}: expected ROUTING/SCHEME, such as ksp/SprayLERP")
    return routing, scheme
