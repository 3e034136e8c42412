# SPDX-License-Identifier: Apache-2.0
"""A lab in virtual time: boots it, lets its hosts do what a workload says, and keeps what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from detour.base.times import MS, US
from detour.engine.clock import RealTime, Virtual
from detour.engine.network import Network
from detour.fabric.labs.boot import LinkDefaults, fill, lay_cables, run_commands
from detour.fabric.labs.contents import SwitchContent
from detour.fabric.labs.doing import Doing, Ports, SourcePorts, begin, listen
from detour.fabric.labs.hosts import attach_hosts
from detour.fabric.labs.model import Lab
from detour.fabric.labs.sampling import LabSampler
from detour.fabric.labs.workloads import SECOND_PS, Activity

DEFAULTS = LinkDefaults(rate_bps=10**9, delay_ps=10 * US)
"""Links without a rate carry any amount in no time, which does not go together with senders that adapt."""
_LONGEST_PS = 60 * SECOND_PS
"""a run without a duration is given up then"""
_STEP_PS = 10 * MS
_IDLE_PS = 100 * MS
"""nothing is under way for so long: what has not come will not come"""


class VirtualLab:
    """A lab in virtual time; a context manager. `run` may be called again and again, and in between anything can be
    changed: tables, links, what hosts do."""

    def __init__(
        self,
        lab: Lab,
        contents: Sequence[SwitchContent],
        defaults: LinkDefaults = DEFAULTS,
        seed: int = 1,
        tick_ps: int = RealTime.tick_ps,
    ) -> None:
        """`tick_ps`: unit of time in programs, BMv2's microsecond if nothing else is wanted."""
        self.lab = lab
        self.network = Network(Virtual(), tick_ps, seed)
        self._ports: Ports | None = None
        self._source_ports = SourcePorts()
        try:
            self.booted = fill(self.network, lab, contents)
            lay_cables(self.booted, defaults)
            self.stack = attach_hosts(self.booted, defaults, seed=seed)
            run_commands(self.booted)
        except BaseException:
            self.network.stop()
            raise

    def do(self, activities: Sequence[Activity]) -> tuple[Doing, ...]:
        """Lets hosts begin; those that may be sent to listen."""
        if self.stack is None:
            return ()
        numbered = [self._source_ports.given(each) for each in activities]
        ports = self._ports = listen(self.lab.hosts, self.stack, numbered, self._ports)
        now = self.network.now_ps
        return tuple(begin(self.stack, each, ports, now) for each in numbered)

    def run(self, duration_ps: int) -> int:
        """So much further; returns the time."""
        return self.network.run(self.network.now_ps + duration_ps)

    def run_until_over(
        self,
        doings: Sequence[Doing],
        duration_ps: int | None,
        progress: Callable[[float], None] = lambda done: None,
        sampler: LabSampler | None = None,
    ) -> int:
        """Until all that hosts do is over, or for a duration; returns the time. `sampler` looks on."""
        begun = self.network.now_ps
        until = begun + (_LONGEST_PS if duration_ps is None else duration_ps)
        if duration_ps is not None:
            while (now := self.network.now_ps) < until:
                self._advance(min(now + _STEP_PS * 10, until), sampler)
                progress((self.network.now_ps - begun) / duration_ps)
            return self.network.now_ps
        idle, seen = 0, -1
        while self.network.now_ps < until:
            now = self._advance(self.network.now_ps + _STEP_PS, sampler)
            if all(doing.over() for doing in doings):
                break
            moved = self.network.loop_stats()["events"]
            pending = any(doing.still_sends(now) for doing in doings)
            idle = 0 if moved != seen or pending else idle + _STEP_PS
            seen = moved
            if idle >= _IDLE_PS:
                break
            progress(sum(doing.over() for doing in doings) / len(doings))
        return self.network.now_ps

    def _advance(self, until_ps: int, sampler: LabSampler | None) -> int:
        """Runs until a time, which is returned; the sampler looks in between."""
        while sampler is not None and (now := self.network.now_ps) < until_ps:
            sampler.look(self.network.run(min(now + sampler.step_ps, until_ps)))
        return self.network.run(until_ps)

    def close(self) -> None:
        """Ends it."""
        self.network.stop()

    def __enter__(self) -> VirtualLab:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
