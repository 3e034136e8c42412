# SPDX-License-Identifier: Apache-2.0
"""Every packet test gets a fresh switch, once as the engine and once as BMv2."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ptf import platforms
from tests.ptf.base_test import Switch

FOOTINGS = ["engine", pytest.param("bmv2", marks=pytest.mark.bmv2)]


def switch_with(footing: str, program: str) -> Iterator[Switch]:
    """A switch with a program: node 1 in group 0 of 9, no routes but those of the barrier."""
    reason = platforms.missing(footing)
    if reason is not None:
        pytest.skip(reason)
    platform = platforms.make(footing)
    try:
        under_test = Switch(platform, program)
        under_test.node()
        try:
            yield under_test
        finally:
            under_test.close()
    finally:
        platform.close()


@pytest.fixture(params=FOOTINGS)
def switch(request: pytest.FixtureRequest) -> Iterator[Switch]:
    """A switch with fabric.p4: node 1 in group 0 of 9, no routes but those of the barrier."""
    yield from switch_with(request.param, "fabric")


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


@pytest.fixture
def ugal_engine() -> Iterator[Switch]:
    """And on the engine only."""
    yield from switch_with("engine", "ugal")
