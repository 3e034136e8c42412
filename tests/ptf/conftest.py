# SPDX-License-Identifier: Apache-2.0
"""Every packet test gets a fresh switch, once as the engine and once as BMv2."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ptf import platforms
from tests.ptf.base_test import Switch


@pytest.fixture(params=["engine", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def switch(request: pytest.FixtureRequest) -> Iterator[Switch]:
    """A switch with fabric.p4: node 1 in group 0 of 9, no routes but those of the barrier."""
    reason = platforms.missing(request.param)
    if reason is not None:
        pytest.skip(reason)
    platform = platforms.make(request.param)
    try:
        under_test = Switch(platform)
        under_test.node()
        try:
            yield under_test
        finally:
            under_test.close()
    finally:
        platform.close()
