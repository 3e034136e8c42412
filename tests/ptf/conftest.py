# SPDX-License-Identifier: Apache-2.0
"""Every packet test gets a fresh switch, once as the engine and once as BMv2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from detour.engine.coverage.collector import COLLECTOR, Collector
from tests.conftest import COLLECTED
from tests.ptf import platforms
from tests.ptf.base_test import Switch

OTHER_PROGRAMS = ("adaptive", "qcn", "ugal", "ugal_graph")
FOOTINGS = ["engine", pytest.param("bmv2", marks=pytest.mark.bmv2)]


@pytest.fixture(autouse=True, scope="package")
def _coverage(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--coverage` packet tests count what they reach of the programs; no other tests do."""
    if request.config.getoption("--coverage") is None:
        yield
        return
    with COLLECTOR.set_to(request.config.stash.setdefault(COLLECTED, Collector())):
        yield


def switch_with(footing: str, program: str, of_fabric: bool = True) -> Iterator[Switch]:
    """A switch with a program: node 1 in group 0 of 9, no routes but those of the barrier; not `of_fabric`: nothing."""
    reason = platforms.missing(footing)
    if reason is not None:
        pytest.skip(reason)
    platform = platforms.make(footing)
    try:
        under_test = Switch(platform, program, routes=of_fabric)
        if of_fabric:
            under_test.node()
        try:
            yield under_test
        finally:
            under_test.close()
    finally:
        platform.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """On which switches the tests of `switch` run."""
    own = hasattr(metafunc.module, "switch")  # a fixture of the module, with parameters of its own
    if "switch" in metafunc.fixturenames and not own:
        params: list[Any] = list(FOOTINGS)
        if metafunc.definition.get_closest_marker("shared_p4"):
            params += [pytest.param(f"engine {each}", id=f"engine-{each}") for each in OTHER_PROGRAMS]
        metafunc.parametrize("switch", params, indirect=True)


@pytest.fixture
def switch(request: pytest.FixtureRequest) -> Iterator[Switch]:
    """A switch with fabric.p4: node 1 in group 0 of 9, no routes but those of the barrier. For tests marked `shared_p4`
    also one with each of the other programs that include the same files, on the engine."""
    footing, _, program = request.param.partition(" ")
    yield from switch_with(footing, program or "fabric")


@pytest.fixture(params=FOOTINGS)
def adaptive(request: pytest.FixtureRequest) -> Iterator[Switch]:
    """The same with adaptive.p4."""
    yield from switch_with(request.param, "adaptive")


@pytest.fixture
def loaded() -> Iterator[Switch]:
    """The same on the engine only: BMv2 has no registers over P4Runtime, so all links are idle there."""
    yield from switch_with("engine", "adaptive")


@pytest.fixture(params=FOOTINGS)
def ugal(request: pytest.FixtureRequest) -> Iterator[Switch]:
    """The same with ugal.p4."""
    yield from switch_with(request.param, "ugal")


@pytest.fixture(params=FOOTINGS)
def graph(request: pytest.FixtureRequest) -> Iterator[Switch]:
    """The same with ugal_graph.p4."""
    yield from switch_with(request.param, "ugal_graph")


@pytest.fixture
def graph_engine() -> Iterator[Switch]:
    """And on the engine only."""
    yield from switch_with("engine", "ugal_graph")


@pytest.fixture
def ugal_engine() -> Iterator[Switch]:
    """And on the engine only."""
    yield from switch_with("engine", "ugal")
