# SPDX-License-Identifier: Apache-2.0
"""Operations that take links and switches down, and bring them back."""

from __future__ import annotations

import time

from msgspec import UNSET

from detour.base.errors import DetourError
from detour.base.records import extended
from detour.fabric.footings.base import Fabric
from detour.fabric.operations.control_plane import ControlPlane, since
from detour.fabric.operations.live_flows import WatchedFlows
from detour.fabric.operations.relisting import Relisting
from detour.fabric.operations.results import Failed, FailureChange, Healed, RelistedSenders, RepairedPlacement
from detour.fabric.operations.steering import Steering
from detour.topo import Failure, failure_name, parse_failure
from detour.topo.failures import Failures


class Failing:
    """See the module. Methods may be called from several threads."""

    def __init__(
        self, fabric: Fabric, control: ControlPlane, steering: Steering, relisting: Relisting, watched: WatchedFlows
    ) -> None:
        self._fabric, self._control, self._watched = fabric, control, watched
        self._steering, self._relisting = steering, relisting
        self._topology = fabric.topology

    def fail(self, name: str) -> Failed:
        """Takes a link or a switch down and withdraws it from all tables."""
        with self._control.changing:
            failure = parse_failure(self._topology, name)
            found = failure_name(self._topology, failure)
            if failure in self._control.failures:
                raise DetourError(f"{found} is down already")
            return extended(Failed, self._change(self._control.failures | {failure}), failed=found)

    def heal(self, name: str | None = None) -> Healed:
        """Brings a link or switch, or all of them, back."""
        with self._control.changing:
            if name is None:
                names = ", ".join(self._control.failure_names())
                return extended(Healed, self._change(frozenset()), healed=names)
            failure = parse_failure(self._topology, name)
            found = failure_name(self._topology, failure)
            if failure not in self._control.failures:
                raise DetourError(f"{found} is not down")
            return extended(Healed, self._change(self._control.failures - {failure}), healed=found)

    def _change(self, failures: frozenset[Failure]) -> FailureChange:
        begin, control = time.monotonic(), self._control
        healing = failures < control.failures
        control.failures = failures
        # What is dead goes down first, as in life; what comes back is up before anybody sends there.
        self._fabric.apply_failures(failures)
        # Senders that choose their path by themselves can leave dead links before the tables know of them.
        repaired, relisted = (None, None) if healing else self._repair(failures)
        written = control.reconcile()
        repaired, relisted = self._repair(failures) if healing else (repaired, relisted)
        self._watched.follow(self._watched.live.all())
        return FailureChange(
            failures=control.failure_names(),
            placement=repaired or UNSET,
            senders=relisted or UNSET,
            seconds=since(begin),
            entries=written.entries,
            **written.as_dict(),
        )

    def _repair(self, failures: Failures) -> tuple[RepairedPlacement | None, RelistedSenders | None]:
        return self._steering.repair(failures), self._relisting.repair(failures)
