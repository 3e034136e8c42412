# SPDX-License-Identifier: Apache-2.0
"""Whether a run goes as it went: what all connections have sent and received, as a digest, at times that every run of
any length has some of (20 us, 40 us, 80 us, ...)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from detour.base.errors import DetourError
from detour.base.quantities import time_text
from detour.base.times import US
from detour.experiments.sim.watching import Watcher

_FIRST_PS = 20 * US
_COLUMNS = ("st_packets", "st_retransmitted", "st_rx_bytes", "st_rx_packets", "st_rx_ecn_marked", "st_rx_delay_sum")

Checkpoint = tuple[int, str]
"""time in ps, digest"""


class Checkpoints(Watcher):
    """Takes them, or compares with those of an earlier run; none at the end, as a run that is traced ends earlier."""

    def __init__(self, expected: Sequence[Checkpoint] | None = None) -> None:
        """`expected`: what the run must come to; None: they are only taken."""
        self._expected = None if expected is None else dict(expected)
        self.taken: list[Checkpoint] = []
        self.due_ps = _FIRST_PS

    def look(self) -> None:
        """Takes one.

        Raises:
            DetourError: the run is another one than it was.
        """
        now = self._fabric.now_ps
        found = self._digest()
        self.taken.append((now, found))
        self.due_ps *= 2
        if self._expected is not None and self._expected.get(now, found) != found:
            raise DetourError(
                f"the run does not repeat: {time_text(now)} after its beginning it differs from what the run file says "
                "(the program, or a file that it reads, has changed since)"
            )

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for name in _COLUMNS:
            digest.update(self._fabric.column(name).tobytes())
        ports = self._fabric.network.port_stats()
        for name in ("rx_packets", "rx_bytes", "queue_drops", "link_drops"):
            digest.update(ports[name].tobytes())
        return digest.hexdigest()[:16]
