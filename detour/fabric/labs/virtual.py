# SPDX-License-Identifier: Apache-2.0
"""A lab in virtual time: boots it, lets its hosts do what a workload says, and keeps what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from detour.base.cores import threads_for
from detour.base.times import MS, US
from detour.engine.bmv2api.commands.interpreter import carry_out, program_of, understand_all
from detour.engine.bmv2api.commands.registry import CommandScope
from detour.engine.clock import RealTime, Virtual
from detour.engine.jitter import AUTO
from detour.engine.network import Network
from detour.fabric.labs.boot import LinkDefaults, attach_hosts, fill, lay_cables, run_commands
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.host_jobs import HostJob, HostJobs
from detour.fabric.labs.model import Lab
from detour.fabric.labs.programs import SwitchContent, contents_of, programs_of
from detour.fabric.labs.reading import read_lab
from detour.fabric.labs.results import LabSampler, document_of
from detour.fabric.labs.workloads import SECOND_PS, Activity, activities_of
from detour.hosts.ip.hosts import IpHost

DEFAULTS = LinkDefaults(rate_bps=10**9, delay_ps=10 * US)
"""Links without a rate carry any amount in no time, which does not go together with senders that adapt."""
_STEP_PS = 10 * MS
_CIRCLING_PS, _CIRCLING_EVENTS = 10 * SECOND_PS, 8 * 256
"""Packets go in circles if nobody sends any more, nothing has arrived for so long, and each packet has caused more
events than a hop limit of 255 allows: a hop has fewer than 8, however slow its link is."""


class _Circling:
    """Detector of packets that go in circles, by what has happened since it was made."""

    def __init__(self, network: Network) -> None:
        self._network, self._since_ps = network, network.now_ps
        self._events = network.loop_stats()["events"]

    def certain(self) -> bool:
        stats = self._network.loop_stats()
        events = stats["events"] - self._events
        return self._network.now_ps - self._since_ps > _CIRCLING_PS and events > _CIRCLING_EVENTS * max(
            stats["used"], 1
        )


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
        jitter_ps: int | None = None,
    ) -> None:
        """`tick_ps`: unit of time in programs, BMv2's microsecond if nothing else is wanted. `jitter_ps`: of
        hosts (`Network.set_jitter`), None: not even a drawn order of simultaneous events."""
        self.lab, self._circling = lab, 0
        self.network = Network(Virtual(threads=threads_for(len(lab.switches))), tick_ps, seed)
        try:
            self.booted = fill(self.network, lab, contents)
            lay_cables(self.booted, defaults)
            self.stack = attach_hosts(self.booted, defaults, seed=seed)
            self._jobs = None if self.stack is None else HostJobs(self.network, lab.hosts, self.stack)
            run_commands(self.booted)
            if jitter_ps is not None:
                self.network.set_jitter(jitter_ps)
        except BaseException:
            self.network.stop()
            raise

    def do(self, what: str | Sequence[Activity]) -> list[HostJob]:
        """Let hosts begin, now, what a workload says; those that may be sent to listen. Raises DetourError: which part
        of the workload means nothing."""
        activities = activities_of(self.lab, what) if isinstance(what, str) else what
        return [] if self._jobs is None else self._jobs.begin(activities)

    def cli(self, switch: str, commands: str) -> list[str]:
        """Carry out lines of simple_switch_CLI's language on a switch, now; return what they say. Raises
        DetourError: the line that asks for nothing that could be done, or that the switch refuses."""
        self.lab.switch(switch)
        api = self.booted.switches[switch].api
        understood = understand_all(switch, commands, CommandScope(program_of(api)))
        return [line for _, lines in carry_out(switch, understood, api) for line in lines]

    def host(self, name: str) -> IpHost:
        """A host, with all that it can do (docs/hosts.md). Raises DetourError: there is none of that name."""
        self.lab.host(name)
        assert self.stack is not None
        return self.stack.host(name)

    @property
    def now_ps(self) -> int:
        return self.network.now_ps

    def run(self, duration_ps: int) -> int:
        """So much further; returns the time."""
        return self.network.run(self.network.now_ps + duration_ps)

    def run_until(self, time_ps: int) -> int:
        """Until a time, all of it; returns it. What is done before the next call happens at that time."""
        return self.network.run(time_ps)

    def run_to_event(self, until_ps: int) -> int:
        """Until a controller is told of a packet-in or a digest, at the latest until a time; returns when that was."""
        return self.network.run_to_event(until_ps)

    def results(self, jobs: Sequence[HostJob]) -> dict[str, Any]:
        """Return the results so far: the document of `detour sim --lab --json`."""
        return document_of(self.booted, self.stack, jobs, self.network.now_ps, self._circling)

    def run_until_over(
        self,
        jobs: Sequence[HostJob],
        duration_ps: int | None,
        progress: Callable[[float], None] = lambda done: None,
        sampler: LabSampler | None = None,
    ) -> int:
        """Until all that hosts do is over, or nothing can happen any more, or for a duration; returns the time.
        `sampler` looks on."""
        begun, self._circling = self.network.now_ps, 0
        if duration_ps is not None:
            until = begun + duration_ps
            while (now := self.network.now_ps) < until:
                self._advance(min(now + _STEP_PS * 10, until), sampler)
                progress((self.network.now_ps - begun) / duration_ps)
            return self.network.now_ps
        arrivals, circling = -1, _Circling(self.network)
        while not (self.network.idle or all(job.over() for job in jobs)):
            next_ps = max(self.network.now_ps, self.network.next_event_ps) - begun
            now = self._advance(begun + (next_ps // _STEP_PS + 1) * _STEP_PS, sampler)
            before, arrivals = arrivals, sum(part.delivered for job in jobs for part in job.parts())
            if arrivals != before or any(job.still_sends(now) for job in jobs):
                circling = _Circling(self.network)
            elif circling.certain():
                self._circling = self.network.loop_stats()["used"]
                break
            progress(sum(job.over() for job in jobs) / len(jobs))
        return self.network.now_ps

    def _advance(self, until_ps: int, sampler: LabSampler | None) -> int:
        """Run until a time, which is returned; the sampler looks in between."""
        while sampler is not None and (now := self.network.now_ps) < until_ps:
            sampler.look(self.network.run(min(now + sampler.step_ps, until_ps)))
        return self.network.run(until_ps)

    def close(self) -> None:
        self.network.stop()

    def __enter__(self) -> VirtualLab:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_lab(
    folder: str | Path,
    *,
    solution: bool = False,
    program: str | None = None,
    seed: int = 1,
    tick_ps: int = RealTime.tick_ps,
    jitter_ps: int = AUTO,
) -> VirtualLab:
    """A lab in virtual time, at time 0; to be used by `with`.

    Args:
        folder: where it lies, or its topology file.
        solution: files of its folder `solution` go first.
        program: `P4INFO,JSON` or `NAME.p4` for all switches, instead of what the lab names.
        seed: of all that is random.
        tick_ps: unit of time in programs, BMv2's microsecond if nothing else is wanted.
        jitter_ps: by how much hosts send a full frame late at most (default: twice its time on the slowest link).

    Raises DetourError with what is wrong with it, by file and line.
    """
    lab = read_lab(LabFolder.given(str(folder), solution))
    contents = contents_of(lab, programs_of(lab, program))
    return VirtualLab(lab, contents, seed=seed, tick_ps=tick_ps, jitter_ps=jitter_ps)
