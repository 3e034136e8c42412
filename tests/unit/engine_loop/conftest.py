# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the event loop: networks with the scripted program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from script_program import ScriptProgram
from scripted_networks import Bench, IpPair

from detour.engine.clock import Clock, RealTime, Virtual
from detour.hosts.ip.addressing import IpHostConfig


@pytest.fixture(scope="session")
def program() -> ScriptProgram:
    """The scripted program; compiled once."""
    return ScriptProgram()


@pytest.fixture
def make(program: ScriptProgram) -> Iterator[Callable[..., Bench]]:
    """Makes networks (virtual time unless a clock is given) and stops them in the end."""
    made: list[Bench] = []

    def build(clock: Clock | None = None, program: ScriptProgram = program, **options: Any) -> Bench:
        made.append(Bench(program, clock or Virtual(), **options))
        return made[-1]

    yield build
    for bench in made:
        bench.net.stop()


@pytest.fixture
def one(make: Callable[..., Bench]) -> Bench:
    """Switch 1 in virtual time with sinks on ports 1 to 4."""
    return make().single(1, 2, 3, 4)


@pytest.fixture
def real(make: Callable[..., Bench]) -> Bench:
    """Switch 1 in real time."""
    bench = make(RealTime())
    bench.switch()
    return bench


@pytest.fixture
def ip_pair() -> Iterator[Callable[..., IpPair]]:
    """Makes pairs, with a cable (rate, delay, packets that wait) for each host, and stops them in the end."""
    pairs: list[IpPair] = []

    def build(
        hosts: list[IpHostConfig],
        cables: list[tuple[int, int, int]],
        *,
        clock: Clock | None = None,
        elide: bool = False,
        seed: int = 5,
    ) -> IpPair:
        pairs.append(IpPair(hosts, cables, clock or Virtual(), elide, seed))
        return pairs[-1]

    yield build
    for pair in pairs:
        pair.net.stop()
