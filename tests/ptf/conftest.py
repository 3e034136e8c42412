# SPDX-License-Identifier: Apache-2.0
"""Every packet test gets a switch without any state, once as the engine and once as BMv2."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from detour.engine.compiler.covering import COLLECTOR, Collector
from tests.conftest import COLLECTED
from tests.ptf import platforms
from tests.ptf.base_test import Switch

OTHER_PROGRAMS = ("adaptive", "qcn", "spraypoint", "trim", "ugal", "ugal_graph")
ENGINE = ["engine"]
BACKENDS = [*ENGINE, pytest.param("bmv2", marks=pytest.mark.bmv2)]


@pytest.fixture(autouse=True, scope="package")
def _coverage(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--coverage` packet tests count what they reach of the programs; no other tests do."""
    if request.config.getoption("--coverage") is None:
        yield
        return
    with COLLECTOR.set_to(request.config.stash.setdefault(COLLECTED, Collector())):
        yield


_IDLE: dict[tuple[str, str], Switch] = {}
"""switches that tests are done with, reset, by backend and program"""


@pytest.fixture(autouse=True, scope="module")
def _idle_switches() -> Iterator[None]:
    """The tests of a module share switches, one after the other."""
    yield
    while _IDLE:
        _close(_IDLE.popitem()[1])


def _close(switch: Switch) -> None:
    switch.close()
    switch.platform.close()


def _start(backend: str, program: str, of_fabric: bool) -> Switch:
    reason = platforms.missing(backend)
    if reason is not None:
        pytest.skip(reason)
    platform = platforms.make(backend)
    try:
        return Switch(platform, program, of_fabric)
    except BaseException:
        platform.close()
        raise


def switch_with(backend: str, program: str, of_fabric: bool = True) -> Iterator[Switch]:
    """A switch with a program, as good as new (see `Switch`). One whose queues have had another rate is not used
    again, nor is one that cannot be reset, which is an error of the test that had it."""
    key = backend, program
    under_test = _IDLE.pop(key, None) if of_fabric else None
    under_test = under_test or _start(backend, program, of_fabric)
    try:
        yield under_test
        if of_fabric and not under_test.platform.slowed:
            under_test.reset()
            _IDLE[key] = under_test
    finally:
        if _IDLE.get(key) is not under_test:
            _close(under_test)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """On which switches the tests of `switch` run."""
    own = hasattr(metafunc.module, "switch")  # a fixture of the module, with parameters of its own
    if "switch" in metafunc.fixturenames and not own:
        params: list[Any] = list(BACKENDS)
        if shared := metafunc.definition.get_closest_marker("shared_p4"):
            programs = shared.args or OTHER_PROGRAMS
            params += [pytest.param(f"engine {each}", id=f"engine-{each}") for each in programs]
        metafunc.parametrize("switch", params, indirect=True)


@pytest.fixture
def switch(request: pytest.FixtureRequest) -> Iterator[Switch]:
    """A switch with fabric.p4: node 1 in group 0 of 9, no routes but those of the barrier. For tests marked `shared_p4`
    also one with each of the other programs that include the same files, or of those that are named, on the engine."""
    backend, _, program = request.param.partition(" ")
    yield from switch_with(backend, program or "fabric")


def _switches_with(program: str, backends: Sequence[Any]) -> Callable[..., Iterator[Switch]]:
    """A fixture: the same with another program."""

    @pytest.fixture(params=backends)
    def under_test(request: pytest.FixtureRequest) -> Iterator[Switch]:
        yield from switch_with(request.param, program)

    return under_test


adaptive = _switches_with("adaptive", BACKENDS)
spraypoint = _switches_with("spraypoint", BACKENDS)
trim = _switches_with("trim", BACKENDS)
ugal = _switches_with("ugal", BACKENDS)
graph = _switches_with("ugal_graph", BACKENDS)
# BMv2's traffic manager does not trim.
trim_engine = _switches_with("trim", ENGINE)
# BMv2 has no registers over P4Runtime, so all links are idle there: where loads matter, the engine only.
loaded = _switches_with("adaptive", ENGINE)
ugal_engine = _switches_with("ugal", ENGINE)
graph_engine = _switches_with("ugal_graph", ENGINE)
