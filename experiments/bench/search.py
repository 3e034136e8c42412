# SPDX-License-Identifier: Apache-2.0
"""Finding the best rate of a switch: the offered load rises until packets are lost and more load brings no more."""

from __future__ import annotations

from collections.abc import Callable

from detour.experiments.bench.traffic import Rate

GROWTH = 1.25
"""From one offered load to the next."""
LOSS = 0.05
"""Share of lost packets from which on a switch counts as overloaded."""
_PATIENCE = 3
_AGAIN = 3


def best_rate(offer: Callable[[float], Rate], first: float, most: float = 20e6) -> list[Rate]:
    """All loads that were offered, rising from `first`.

    The end: some loads in a row lost packets and none of them delivered more than the best one before, or the
    generator cannot offer more, however often it tries. A switch's best rate is the highest *delivered* one, lost
    packets or not: the reading that favours the switch.
    """
    rates: list[Rate] = []
    top, idle, short = 0.0, 0, 0
    rate = first
    while rate <= most and idle < _PATIENCE and short < _PATIENCE:
        found = offer(rate)
        rates.append(found)
        if found.offered < rate / GROWTH:
            short += 1
            top = max(top, found.delivered)
            continue
        short = 0
        idle = idle + 1 if found.lost > LOSS and found.delivered <= top else 0
        top = max(top, found.delivered)
        rate *= GROWTH
    # The best load again, for whatever else the machine did meanwhile.
    favourite = max(rates, key=lambda found: found.delivered).offered
    return rates + [offer(favourite) for _ in range(_AGAIN)]


def best(rates: list[Rate]) -> float:
    """The highest delivered rate in packets a second."""
    return max(rate.delivered for rate in rates)
