# SPDX-License-Identifier: Apache-2.0
"""A world whose processes end with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    result = World(tmp_path)
    yield result
    for process in result.processes():
        process.kill()
