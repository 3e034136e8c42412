# SPDX-License-Identifier: Apache-2.0
"""Runs of the comparison of flat fabrics: what arrives where hosts offer what the optimum carries, and how long
messages take at a part of that."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from detour.base.arrays import FloatArray
from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.times import US
from detour.control.expander.carried import carried_by_shares, carried_over_paths
from detour.control.expander.splits import ecmp, spraypoint
from detour.control.routes.spraypoint import SpraypointParameters
from detour.experiments.columns import taken
from detour.experiments.flat import claims_lp, collectives
from detour.experiments.flat.cases import Case, case_of, network_of
from detour.experiments.flat.points import (
    FAMILIES,
    SINGLE_PATH,
    SWITCH_ROUTINGS,
    UGAL,
    ClaimsPoint,
    ClaimsRun,
    CollectivePoint,
    CollectiveRun,
    FlatPoint,
    FlatRun,
)
from detour.experiments.flat.schemes import LINKS, FlatFabric, check, family_paths
from detour.experiments.messages import MessageArrivals, draw, measure
from detour.experiments.running import received
from detour.experiments.steady import judge
from detour.fabric.backends.virtual.fabric import VirtualFabric

LOAD = 0.6
"""of the optimum, at which messages arrive"""
_MESSAGE_BYTES = 16_000
"""that a connection posts at a time at least, while rates are measured"""
_LEAST_PERIOD_PS = 20 * US
_TICK_PS = 2 * US
_QUEUED = 8
"""messages that a connection may have posted and not received; a connection behind by more posts nothing"""
_INTERVALS = 150
"""in which what arrives is counted"""
_DRAIN_TIMES = 20
"""times the time in which messages arrive, after which those that still run are given up"""
_POLL_PS = 100 * US


def run(point: FlatPoint | CollectivePoint | ClaimsPoint) -> FlatRun | CollectiveRun | ClaimsRun:
    """A point of any kind. Raises `DetourError`: there is no such topology, matrix, routing, scheme or collective."""
    if isinstance(point, ClaimsPoint):
        return claims_lp.run(point)
    return collectives.run(point) if isinstance(point, CollectivePoint) else run_matrix(point)


def run_matrix(point: FlatPoint) -> FlatRun:
    """Both parts of a point, one after the other on one fabric. Raises `DetourError`: there is no such topology,
    matrix, routing or scheme."""
    check(point.routing, point.scheme)
    case = case_of(point.topology, point.matrix, point.failures, point.seed)
    messages = draw(
        case.network, case.demand, LOAD * case.lp, LINKS.rate_bps, point.us * US // 2, case.sizes, point.seed
    )
    pairs = [*case.pairs, *messages.pairs]
    with FlatFabric(case.network, point, len(pairs), case.failures, case.replanned) as fabric:
        fabric.connect(pairs)
        found = _rates(fabric, case, point)
        _drain(fabric, point)
        found |= _times(fabric, messages, slice(len(case.pairs), None), point)
    return taken(
        FlatRun,
        point,
        hosts=int(case.network.hosts.sum()),
        lp=round(case.lp, 5),
        lp_gap=round(case.lp_gap, 5),
        routing_lp=_routing_lp(case, point),
        **found,
    )


_HASHED = {"ecmp": "shortest", "spraypoint": "spraypoint"}
"""families of the paths among which a sender chooses by its source port"""


def _routing_lp(case: Case, point: FlatPoint) -> float | None:
    """The share of the matrix that the paths of a routing carry in all, if no pair gets more than `lp`: with the best
    split among them, or where no sender chooses with the one that switches make. None where switches choose by their
    queues, or failures are not known."""
    network, demand = case.broken, case.demand
    if point.routing == UGAL or (case.failures and not case.replanned):
        return None
    if point.routing in SWITCH_ROUTINGS and point.scheme == SINGLE_PATH:
        parameters = SpraypointParameters(p=point.setting.waypoints)
        split = ecmp if point.routing == "ecmp" else partial(spraypoint, settings=parameters)
        return round(carried_by_shares(network, demand, split, case.lp), 5)
    family = _HASHED.get(point.routing) or FAMILIES[point.routing]
    return round(carried_over_paths(family_paths(point, family, network, demand.pairs).routes, demand, case.lp), 5)


_CLAIMS_SECONDS = {"paper": 600.0, "model": 60.0, "small": 10.0}


def seconds(point: FlatPoint | CollectivePoint | ClaimsPoint) -> float:
    """A rough cost on one core."""
    if isinstance(point, ClaimsPoint):
        return _CLAIMS_SECONDS[point.scale]
    if isinstance(point, CollectivePoint):
        return collectives.seconds(point)
    network = network_of(point.topology, point.seed)
    return 3.0 + float(network.hosts.sum()) * point.us / 60_000


def _rates(fabric: VirtualFabric, case: Case, point: FlatPoint) -> dict[str, Any]:
    """Rates while every connection posts messages evenly, in all the share of the demand that the optimum carries."""
    arrived = _offer(fabric, case.share * case.lp, point.us * US, point.seed)
    asked = float(case.share.sum()) * LINKS.rate_bps / 8e12 * point.us * US / _INTERVALS * PAYLOAD / PACKET_BYTES
    judged = judge((np.diff(arrived) / asked).tolist())
    return {"measured": round(judged.mean, 4), "steady": judged.steady}


def _offer(fabric: VirtualFabric, share: FloatArray, duration_ps: int, seed: int) -> list[int]:
    """Let connections send these shares of a host's rate; the bytes that had arrived when each interval was over."""
    rate = share * LINKS.rate_bps / 8e12 * PAYLOAD / PACKET_BYTES  # payload bytes a ps
    period = np.maximum(_LEAST_PERIOD_PS, _MESSAGE_BYTES / rate)
    size = np.round(rate * period).astype(np.int64)
    due = np.random.default_rng([seed, 0xD0E]).random(len(share)) * period
    posted = np.zeros(len(share), np.int64)
    ends = [duration_ps * (i + 1) // _INTERVALS for i in range(_INTERVALS)]
    arrived = [0]
    for tick in sorted({*range(0, duration_ps, _TICK_PS), *ends}):
        fabric.run(tick)
        if tick in ends:
            arrived.append(received(fabric))
        now = due <= tick
        due[now] += period[now]
        some = np.flatnonzero(now & (posted - fabric.column("st_rx_delivered")[: len(share)] < _QUEUED * size))
        if some.size:
            fabric.send(size[some], some)
            posted[some] += size[some]
    return arrived


def _drain(fabric: VirtualFabric, point: FlatPoint) -> None:
    """Let what has been posted arrive, for `_DRAIN_TIMES` the time of the point at most."""
    until = fabric.now_ps + _DRAIN_TIMES * point.us * US
    while (fabric.column("sq_una") != fabric.column("sq_end")).any() and fabric.now_ps < until:
        fabric.run(fabric.now_ps + _POLL_PS)


def _times(fabric: VirtualFabric, messages: MessageArrivals, which: slice, point: FlatPoint) -> dict[str, Any]:
    """Times of messages that arrive at random, each over a connection of its own: those of numbers `which`."""
    later = messages._replace(at_ps=fabric.now_ps + messages.at_ps)
    for tick, some in later.by_time():
        fabric.run(tick)
        fabric.send(messages.size[some], which.start + some)
    _drain(fabric, point)
    found = measure(fabric, later, which)[1]
    return {name: found[name] for name in ("messages", "slowdown", "unfinished", "retransmitted", "drops")}
