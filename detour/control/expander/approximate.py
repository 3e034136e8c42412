# SPDX-License-Identifier: Apache-2.0
"""Maximum concurrent flow over given paths, from both sides, without an LP solver.

Garg and Koenemann (FOCS 1998) and Fleischer (SIAM J. Discrete Math. 2000) give channels a price that grows
exponentially with their load and send every demand over its cheapest paths. The same idea as a game between flows
and prices, played with optimistic multiplicative weights (Rakhlin and Sridharan, NIPS 2013), comes within epsilon after
order 1/epsilon rounds instead of 1/epsilon^2. After every round both sides hold what they have shown: the mean of all
flows loads no channel more than 1/lower times, and under the mean of all prices the demands cost at least 1/upper.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from detour.base.arrays import FloatArray, Floats1, Int32Array, Int32s1, Int64Array, Int64s1
from detour.control.native import EXPANDER

MAX_ROUNDS = 5_000
_CHECK = 20  # rounds between two looks at the bounds
_PRICE_STEP, _FLOW_STEP = 1.0, 2.0
"""steps to begin with; both are halved when flows and prices begin to chase each other"""


class ThroughputBounds(NamedTuple):
    """`lower` <= the largest theta <= `upper`; `rounds` that were played."""

    lower: float
    upper: float
    rounds: int


class Played(NamedTuple):
    """`flows` (paths,) behind the lower bound, as fractions of their pair's demand; `prices` (channels,) of a flow of 1
    behind the upper one, 0 for channels that no path takes."""

    bounds: ThroughputBounds
    flows: FloatArray
    prices: FloatArray


@EXPANDER.entry
def _loads(
    first: Int64s1, begin: Int64s1, channels: Int32s1, demand: Floats1, fraction: Floats1, unit: Floats1, load: Floats1
) -> None:
    """Fill `load` with each channel's load as a share of its capacity if the demands are split as `fraction` says;
    `unit`: the share that a flow of 1 takes."""
    load[:] = 0.0
    for i in range(demand.size):
        for row in range(first[i], first[i + 1]):
            flow = demand[i] * fraction[row]
            for j in range(begin[row], begin[row + 1]):
                load[channels[j]] += flow * unit[channels[j]]


@EXPANDER.entry
def _cheapest(
    first: Int64s1, begin: Int64s1, channels: Int32s1, demand: Floats1, price: Floats1, unit: Floats1
) -> float:
    """Return the total cost of all demands if each takes its cheapest path."""
    total = 0.0
    for i in range(demand.size):
        least = np.inf
        for row in range(first[i], first[i + 1]):
            cost = 0.0
            for j in range(begin[row], begin[row + 1]):
                cost += price[channels[j]] * unit[channels[j]]
            least = min(least, cost)
        total += demand[i] * least
    return total


@EXPANDER.entry
def _move_flows(
    first: Int64s1, begin: Int64s1, channels: Int32s1, guess: Floats1, unit: Floats1, step: float, fraction: Floats1,
    mean: Floats1, weight: float,
) -> None:  # fmt: skip
    """Every demand shifts towards paths that are cheap under the guessed prices; `mean` takes part of it in."""
    for i in range(first.size - 1):
        low, high = first[i], first[i + 1]
        least = np.inf
        for row in range(low, high):
            cost = 0.0
            for j in range(begin[row], begin[row + 1]):
                cost += guess[channels[j]] * unit[channels[j]]
            fraction[row] = np.log(max(fraction[row], 1e-30)) - step * cost
            least = min(least, -fraction[row])
        total = 0.0
        for row in range(low, high):
            fraction[row] = np.exp(fraction[row] + least)
            total += fraction[row]
        for row in range(low, high):
            fraction[row] /= total
            mean[row] += weight * (fraction[row] - mean[row])


def shares_of(first: Int64Array, flows: FloatArray) -> FloatArray:
    """Flows (paths,) as fractions of what their pair sends; a pair without flow splits evenly.

    `first`: (pairs + 1,) paths of pair i are first[i] to first[i+1]-1. `flows`: of any scale; those below 0 count as
    0."""
    flows, count = np.maximum(flows, 0.0), np.diff(first)
    of_pair = np.repeat(np.add.reduceat(flows, first[:-1]), count)
    return np.where(of_pair > 0, flows / np.where(of_pair > 0, of_pair, 1.0), 1.0 / np.repeat(count, count))


def bounds_of(
    first: Int64Array, begin: Int64Array, channels: Int32Array, demand: FloatArray, flows: FloatArray,
    prices: FloatArray, capacity: FloatArray,
) -> ThroughputBounds:  # fmt: skip
    """Return the bounds that any flows and prices prove: scaled to the demand, the flows load some channel 1/lower
    times; in units of the price of all that the channels carry the demands cost 1/upper at least.

    `first`: (pairs + 1,) paths of pair i are first[i] to first[i+1]-1. `begin`: (paths + 1,) channels of path r are
    channels[begin[r]:begin[r+1]]. `channels`: numbers from 0, every one in use. `demand`: (pairs,). `flows`: (paths,)
    of any scale; a pair without flow is taken to split evenly. `prices`: (channels,) of a flow of 1, of any scale.
    `capacity`: (channels,) what each carries."""
    load, unit, whole = np.zeros(prices.size), 1.0 / capacity, prices * capacity
    _loads(first, begin, channels, demand, shares_of(first, flows), unit, load)
    cost = _cheapest(first, begin, channels, demand, np.ascontiguousarray(whole / whole.sum()), unit)
    return ThroughputBounds(float(1.0 / load.max()), float(1.0 / cost), 0)


def solve(
    first: Int64Array, begin: Int64Array, channels: Int32Array, demand: FloatArray, gap: float,
    capacity: FloatArray,
) -> Played:  # fmt: skip
    """Play until upper / lower - 1 <= gap or `MAX_ROUNDS` are over.

    `first`: (pairs + 1,) paths of pair i are first[i] to first[i+1]-1. `begin`: (paths + 1,) channels of path r are
    channels[begin[r]:begin[r+1]]. `channels`: channel numbers. `demand`: (pairs,). `gap`: how close the bounds are to
    come. `capacity`: what each channel carries, by its number."""
    used, renumbered = np.unique(channels, return_inverse=True)
    game = _Game(first, begin, renumbered.astype(np.int32), demand, 1.0 / capacity[used])
    best = even = game.bounds()
    flows, costs = game.flows.copy(), game.prices.copy()
    for k in range(1, MAX_ROUNDS + 1):
        game.play()
        if k % _CHECK == 0 or k == MAX_ROUNDS:
            now = game.bounds()
            if now.lower > best.lower:
                flows = game.flows.copy()
            if now.upper < best.upper:
                costs = game.prices.copy()
            best = ThroughputBounds(max(best.lower, now.lower), min(best.upper, now.upper), k)
            if best.upper <= best.lower * (1 + gap):
                break
            if now.lower < 0.7 * even.lower:
                game.begin(0.5)
    prices = np.zeros(capacity.size)
    prices[used] = costs / capacity[used]
    return Played(best, flows, prices)


class _Game:
    """Flows (fractions of every pair's paths) against prices of channels, and the means of both."""

    def __init__(self, first: Any, begin: Any, channels: Any, demand: Any, unit: Any) -> None:
        self.paths, self.demand, self.unit, self.count = (first, begin, channels), demand, unit, unit.size
        self.flow_step = _FLOW_STEP * self.count
        self.load = np.empty(self.count)
        self.price_step = _PRICE_STEP
        self.begin(1.0)
        self.price_step /= float(self.load.max())

    def begin(self, factor: float) -> None:
        """Begin (again, if flows and prices only chase each other) with steps that are so much smaller."""
        self.flow_step *= factor
        self.price_step *= factor
        first = self.paths[0]
        self.fraction = np.repeat(1.0 / np.diff(first), np.diff(first))
        self.flows = self.fraction.copy()
        self.price = np.full(self.count, 1.0 / self.count)
        self.prices, self.guess, self.log_price = self.price.copy(), self.price.copy(), np.log(self.price)
        self.played = 0
        _loads(*self.paths, self.demand, self.fraction, self.unit, self.load)

    def play(self) -> None:
        """One round: both sides move against what they expect the other one to do next."""
        self.played += 1
        weight = 1.0 / self.played
        _move_flows(*self.paths, self.guess, self.unit, self.flow_step, self.fraction, self.flows, weight)
        before = self.load.copy()
        _loads(*self.paths, self.demand, self.fraction, self.unit, self.load)
        old = self.price
        self.log_price += self.price_step * (2 * self.load - before)
        self.log_price -= self.log_price.max()
        self.price = np.exp(self.log_price)
        self.price /= self.price.sum()
        self.guess = 2 * self.price - old
        self.prices += weight * (self.price - self.prices)

    def bounds(self) -> ThroughputBounds:
        """Return the bounds that the means prove."""
        load = np.empty(self.count)
        _loads(*self.paths, self.demand, self.flows, self.unit, load)
        cost = float(_cheapest(*self.paths, self.demand, self.prices, self.unit))
        return ThroughputBounds(float(1.0 / load.max()), 1.0 / max(cost, 1e-12), self.played)
