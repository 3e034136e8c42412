# SPDX-License-Identifier: Apache-2.0
"""Execution of a run: here everything is executed; `skipping` leaves out what is steady."""

from __future__ import annotations

from detour.fabric.backends.virtual.fabric import VirtualFabric


class Execution:
    """Runs a fabric, all of it."""

    def __init__(self, fabric: VirtualFabric) -> None:
        self._fabric = fabric

    @property
    def skipped(self) -> int:
        """Packets that were not simulated."""
        return 0

    @property
    def skips(self) -> bool:
        """Return whether something is suspended."""
        return False

    @property
    def uncounted_bytes(self) -> int:
        """Payload that suspended connections had sent when links last counted it, and that no host has counted yet."""
        return 0

    def run(self, until_ps: int) -> None:
        """Execute everything until then, but for what is skipped."""
        self._fabric.run(until_ps)

    def wake_all(self) -> None:
        """Everything goes on: something is about to change, or the run is over."""

    def change(self) -> None:
        """Routes or rates are others now; nothing is suspended."""

    def count(self) -> None:
        """Links count what they have carried by now."""
