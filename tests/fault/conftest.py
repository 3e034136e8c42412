# SPDX-License-Identifier: Apache-2.0
"""A world whose processes end with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.world import World
from tests.unit.p4runtime.conftest import connect, names, network, server  # noqa: F401  fixtures


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    result = World(tmp_path)
    yield result
    for process in result.processes():
        process.kill()
