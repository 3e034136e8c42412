# SPDX-License-Identifier: Apache-2.0
"""Points of the comparison of flat fabrics, and their results.

A point is a network, a matrix of traffic, failures, and a way to choose paths. `routing` says which paths there are,
`scheme` who takes which: `LERP` keeps a connection on one path, `SprayLERP`, `PathSet` and `REPS` choose one for every
packet. Routings of switches are `ecmp`, `spraypoint`, `spraypoint-flowlet`, `spraypoint-packet` and `ugal-l`; there
senders choose among source ports, which switches hash. All others are families of paths (`control.expander.families`)
that senders name in uSID lists, `source-spraypoint` what Spraypoint's switches do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from detour.experiments.columns import row, shown
from detour.experiments.messages import Percentiles

UGAL = "ugal-l"
SWITCH_ROUTINGS = ("ecmp", "spraypoint", "spraypoint-flowlet", "spraypoint-packet", UGAL)
FAMILIES = {
    "wmp": "wmp", "ksp": "ksp", "shortest-union": "shortest-union", "edge-disjoint": "edge-disjoint",
    "source-spraypoint": "spraypoint",
}  # fmt: skip
"""of paths, by routing"""
SPRAYING = {"SprayLERP": "spray", "PathSet": "pathset", "REPS": "reps"}
"""schemes that choose a path for every packet, and their path schemes (`hosts.paths`)"""
SINGLE_PATH = "LERP"
WAYS = (
    ("ecmp", SINGLE_PATH), ("ecmp", "SprayLERP"), ("spraypoint", SINGLE_PATH), ("spraypoint", "REPS"),
    ("spraypoint", "SprayLERP"), ("spraypoint-flowlet", SINGLE_PATH), ("spraypoint-packet", SINGLE_PATH),
    (UGAL, SINGLE_PATH), ("ksp", "SprayLERP"), ("ksp", "REPS"), ("ksp", "PathSet"), ("edge-disjoint", "SprayLERP"),
    ("edge-disjoint", "PathSet"), ("shortest-union", "SprayLERP"), ("wmp", "SprayLERP"), ("wmp", "PathSet"),
    ("source-spraypoint", "SprayLERP"), ("source-spraypoint", "REPS"), ("source-spraypoint", "PathSet"),
)  # fmt: skip
"""routings and schemes that are compared"""
PLACED = "placed"
"""the routing of a collective whose paths `detour place` has chosen"""
NO_FAILURES = "none"
MOST_TOGETHER = 512
"""ranks of an all-to-all whose messages all begin at once"""


@dataclass(frozen=True, kw_only=True)
class FlatSetting:
    """Parameters that a routing and a scheme leave open. `ecn_kb`: K of marking, kB; `waypoints`: p of Spraypoint;
    `shortest_first`: SprayLERP knows which of its paths are shortest ones (else all are alike); `bias`: packets that
    UGAL adds to the queue of a detour; `exponent`: PathSet's weights of paths fall as their links to this power."""

    ecn_kb: int = 40
    waypoints: int = 4
    shortest_first: bool = False
    bias: int = 0
    exponent: int = 0


@dataclass(frozen=True, kw_only=True)
class FlatWay:
    """A way of choosing paths on a network. `topology`: without its seed, which is `seed`, as is that of all that
    is drawn."""

    topology: str
    routing: str
    scheme: str
    seed: int = 1
    setting: FlatSetting = FlatSetting()


@dataclass(frozen=True, kw_only=True)
class FlatPoint(FlatWay):
    """Traffic by a matrix. `failures`: `none`, `links:0.01` (that share of the links between switches) or
    `switches:0.01`, with `,replanned` behind it if switches and senders know. `us`: virtual time in which rates are
    measured; messages arrive for half of it."""

    matrix: str
    failures: str = NO_FAILURES
    us: int = 800
    kind: Literal["matrix"] = "matrix"


@dataclass(frozen=True, kw_only=True)
class CollectivePoint(FlatWay):
    """A collective of `ranks` hosts, `size` bytes each: `ring` (all-reduce), `all-to-all` (of more than 512 ranks each
    has eight messages under way), `moe` (skewed all-to-all, there and back), or messages that all begin at once, of
    every host to another one (`permutation`) or by few links (`adversarial`). `placed`: ranks in the order of the
    switches (`by-rack`) or at `random`; routing `placed` is that order, over paths that `detour place` has chosen."""

    collective: str
    ranks: int
    size: int = 1_000_000
    placed: str = "by-rack"
    kind: Literal["collective"] = "collective"


@dataclass(frozen=True, kw_only=True)
class ClaimsPoint:
    """Claims that need no packet: a question of `claims_lp.QUESTIONS`, at one of its `SCALES`, `draws` wirings and
    matrices."""

    question: str
    scale: str
    draws: int
    kind: Literal["claims"] = "claims"


@row
class Claim:
    """A claim, its source, the value that is stated and the one that is found, and the verdict: yes, partly, no."""

    claim: str = shown("claim")
    source: str = shown("source")
    stated: str = shown("stated")
    measured: str = shown("measured")
    verdict: str = shown("verdict")


def claim(claim: str, source: str, stated: str, measured: str, verdict: str) -> Claim:
    """A claim by the order of its fields."""
    return Claim(claim=claim, source=source, stated=stated, measured=measured, verdict=verdict)


@dataclass(frozen=True, kw_only=True)
class ClaimsRun(ClaimsPoint):
    """The claims of a point, judged."""

    claims: tuple[Claim, ...]


@dataclass(frozen=True, kw_only=True)
class FlatRun(FlatPoint):
    """The result of a point.

    `lp`: the share of the matrix, of which 1 lets the busiest host send at its rate, that any routing can carry (the
    optimum of the multicommodity flow, at most 1; `lp_gap`: how much more it may be). `routing_lp`: the share in all
    that this routing's paths carry if no pair gets more than `lp`; None: that depends on load. `measured`: the share
    that arrived while hosts offered `lp`, behind the warm-up; `steady`: it was level by then (`experiments.steady`).
    `slowdown`: of messages that arrive at random at `LOAD` of `lp`, over the time on an idle path; `unfinished` of them
    never arrived in whole."""

    hosts: int
    lp: float
    lp_gap: float
    routing_lp: float | None
    measured: float
    steady: bool
    messages: int
    slowdown: Percentiles
    unfinished: int
    retransmitted: int
    drops: int


@dataclass(frozen=True, kw_only=True)
class CollectiveRun(CollectivePoint):
    """The result: how long it took and would take where nothing but hosts' links and delays limited it, in us. None: it
    was not over after `MOST_TIMES` as long."""

    time_us: float | None
    ideal_us: float
