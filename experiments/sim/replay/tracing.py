# SPDX-License-Identifier: Apache-2.0
"""Tracing a part of a run: a watcher that lets packets be traced from a moment on and asks a judge about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from detour.base.errors import DetourError
from detour.base.times import US
from detour.engine.trace.filters import EVERYTHING, Filter
from detour.engine.trace.recorder import Recorder
from detour.engine.trace.tree import Visit
from detour.experiments.sim.watching import Watcher
from detour.fabric.tracing.live import by_packet

T = TypeVar("T")

Chain = list[Visit]
"""the visits of one packet, in the order in which it came to switches"""
Judge = Callable[[Sequence[Chain], int], T | None]
"""of (packets that were traced so far, time in ps): what was sought, None: not yet"""

FOREVER_PS = 1 << 62
"""the time at which a judge is asked when the run is over"""
_RING_BYTES = 64 << 20
_LEAST_STEP_PS, _FIRST_STEP_PS, _MOST_STEP_PS = US // 64, US, 128 * US
_FULL, _EMPTY = 0.2, 0.02


class Steps:
    """How far a run may go until records are taken: so that their memory, half of which packets may fill, never is."""

    def __init__(self) -> None:
        self.step_ps = _FIRST_STEP_PS

    def after(self, recorder: Recorder) -> int:
        """The next step, by how full the memory is, where nothing may be missed.

        Raises:
            DetourError: it was too small for a step.
        """
        if recorder.missed or recorder.lost:
            raise DetourError("more packets came at one moment than there is memory for traces")
        return self.limited(recorder)

    def limited(self, recorder: Recorder) -> int:
        """The same, where what is missed is counted."""
        used = recorder.used
        if used > _FULL:
            self.step_ps = max(_LEAST_STEP_PS, self.step_ps // 4)
        elif used < _EMPTY:
            self.step_ps = min(_MOST_STEP_PS, self.step_ps * 2)
        return self.step_ps


class TracedPart(Watcher, Generic[T]):
    """Ends the run when its judge has found something. `found`: that."""

    def __init__(
        self,
        from_ps: int,
        judge: Judge[T],
        *,
        wanted: Filter = EVERYTHING,
        switches: Sequence[int] | None = None,
        until_ps: int | None = None,
        forget: Callable[[Chain], bool] = lambda chain: False,
    ) -> None:
        """`switches`: device ids (all). `until_ps`: then the search ends. `forget`: packets that no judge wants
        any more."""
        self.found: T | None = None
        self.due_ps = from_ps
        self._judge, self._wanted, self._switches, self._forget = judge, wanted, switches, forget
        self._until_ps = until_ps
        self._recorder: Recorder | None = None
        self._steps = Steps()
        self._over = False

    @property
    def enough(self) -> bool:
        """Whether it was found, or cannot be any more."""
        return self._over or self.found is not None

    def look(self) -> None:
        """Asks the judge."""
        now = self._fabric.now_ps
        if self._recorder is None:
            self._recorder = Recorder(
                self._fabric.network, self._wanted, switches=self._switches, ring_bytes=_RING_BYTES
            )
            self._recorder.start()
            self.due_ps = now + self._steps.step_ps
            return
        step = self._steps.after(self._recorder)
        chains = by_packet(self._recorder.collect())
        self.found = self._judge(chains, now)
        self._recorder.forget_traces({chain[0].trace for chain in chains if self._forget(chain)})
        self._over = self._until_ps is not None and now >= self._until_ps
        self.due_ps = now + step

    def end(self) -> None:
        """Tracing ends with the run; what is under way has no outcome."""
        if self._recorder is None:
            return
        if self.found is None:
            self.found = self._judge(by_packet(self._recorder.collect()), FOREVER_PS)
        self._recorder.stop()
