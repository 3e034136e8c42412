# SPDX-License-Identifier: Apache-2.0
"""Native code of a fabric, before it is started: where it is not in the cache it is built, on all cores."""

from __future__ import annotations

from detour.base import parts
from detour.base.progress import COMPILING, Progress, silent
from detour.engine.loop.entry import LOOP
from detour.hosts.rdma import RDMA


def ensure(progress: Progress) -> None:
    """Builds what is not in the cache, telling so if it takes more than a second."""
    if progress is not silent:
        COMPILING.progress = progress
    parts.ensure(LOOP, RDMA)
