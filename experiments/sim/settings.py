# SPDX-License-Identifier: Apache-2.0
"""What a run of `detour sim` consists of, whoever says it: options of the command, or a scenario file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.quantities import bytes_of, fraction_of, rate_bps_of, time_ps_of
from detour.base.times import MS, US
from detour.control.policy import Amount, NoMarking, RedMarking, StepMarking
from detour.experiments.running import window
from detour.fabric.footings.virtual.scheme import LinkSettings, RunSettings, Scheme, SwitchMemory
from detour.topo import Topology, parse_failure
from detour.topo.failures import Failure, failure_name

T = TypeVar("T")

LONGEST_PS = 1_000 * MS
"""a run without `duration` is given up then"""
_LEAST_BUFFER = 2 * PACKET_BYTES
_LONGEST_DELAY_PS = 100 * MS
_REFLEX_PS = US
"""a controller that reroutes needs this at least"""


@dataclass(frozen=True, order=True)
class TimedFailure:
    """A link or switch that goes down at a time."""

    at_ps: int
    failure: Failure


@dataclass(frozen=True, kw_only=True)
class SimOptions:
    """What can be said about a run, in text as people write it; None: as it is by default."""

    rate: str | None = None
    delay: str | None = None
    buffer: str | None = None
    loss: str | None = None
    ecn: str | None = None
    fail: Sequence[str] = ()
    reroute_after: str | None = None
    duration: str | None = None
    seed: int = 1
    cc: str | None = None


@dataclass(frozen=True, kw_only=True)
class SimSettings:
    """A run but for topology and flows. `duration_ps` None: until every flow is complete. `reroute_after_ps`: the
    controller writes routes around a failure so long after it; None: nobody but senders does."""

    scheme: Scheme
    links: LinkSettings = field(default_factory=LinkSettings)
    memory: SwitchMemory = field(default_factory=SwitchMemory)
    loss: float = 0.0
    seed: int = 1
    failures: tuple[TimedFailure, ...] = ()
    reroute_after_ps: int | None = None
    duration_ps: int | None = None

    def of_run(self, connections: int) -> RunSettings:
        """For the fabric."""
        return RunSettings(self.links, self.memory, window=window(connections), loss=self.loss, seed=self.seed)

    @property
    def until_ps(self) -> int:
        """When the run ends at the latest."""
        return LONGEST_PS if self.duration_ps is None else self.duration_ps


def settings_of(topology: Topology, scheme: Scheme, said: SimOptions) -> SimSettings:
    """A run as options say it.

    Raises:
        DetourError: which of them is wrong, and what it may be.
    """
    duration = None if said.duration is None else _said("duration", said.duration, time_ps_of)
    if duration == 0:
        raise DetourError(f"duration: {said.duration!r} is no time above 0")
    if said.seed < 0:
        raise DetourError(f"seed: {said.seed} is less than 0")
    return SimSettings(
        scheme=_with_ecn(_with_control(scheme, said.cc), said.ecn),
        links=_links(said),
        memory=SwitchMemory() if said.buffer is None else SwitchMemory(port_bytes=_buffer(said.buffer)),
        loss=0.0 if said.loss is None else _loss(said.loss),
        seed=said.seed,
        failures=tuple(sorted(_failure(topology, text) for text in said.fail)),
        reroute_after_ps=None if said.reroute_after is None else _reflex(said.reroute_after),
        duration_ps=duration,
    )


def _said(name: str, text: str, read: Callable[[str], T]) -> T:
    """What a value says; errors name the option."""
    try:
        return read(text)
    except DetourError as error:
        raise DetourError(f"{name}: {error}") from None


def _links(said: SimOptions) -> LinkSettings:
    links = LinkSettings()
    if said.rate is not None:
        links = replace(links, rate_bps=_said("rate", said.rate, rate_bps_of))
    if said.delay is not None:
        delay = _said("delay", said.delay, time_ps_of)
        if not 1_000 <= delay <= _LONGEST_DELAY_PS:
            raise DetourError(f"delay: {said.delay!r}; 1ns to 100ms are possible")
        links = replace(links, host_delay_ps=delay, local_delay_ps=delay, global_delay_ps=delay)
    return links


def _buffer(text: str) -> int:
    size = _said("buffer", text, bytes_of)
    if size < _LEAST_BUFFER:
        raise DetourError(f"buffer: {text!r}; a port needs {_LEAST_BUFFER} bytes, two packets")
    return size


def _loss(text: str) -> float:
    loss = _said("loss", text, fraction_of)
    if loss >= 1:
        raise DetourError(f"loss: {text!r}; links that lose all carry nothing")
    return loss


def _reflex(text: str) -> int:
    return max(_REFLEX_PS, _said("reroute-after", text, time_ps_of))


def _failure(topology: Topology, text: str) -> TimedFailure:
    """`s0-s4@50us`."""
    name, at, when = text.rpartition("@")
    if not at:
        raise DetourError(f"fail: {text!r} has no time; wanted is LINK@TIME, like s0-s4@50us")
    return TimedFailure(_said("fail", when, time_ps_of), parse_failure(topology, name))


def failure_text(topology: Topology, one: TimedFailure) -> str:
    """What `_failure` understands."""
    return f"{failure_name(topology, one.failure)}@{one.at_ps / US:g}us"


def _with_control(scheme: Scheme, name: str | None) -> Scheme:
    if name is None:
        return scheme
    known = {"dctcp": "dctcp", "dcqcn": "dcqcn", "fixed": "fixed"}
    if name.lower() not in known:
        raise DetourError(f"cc: there is no congestion control {name!r}; allowed: {', '.join(known)}")
    return replace(scheme, control=known[name.lower()])  # type: ignore[arg-type]


def _with_ecn(scheme: Scheme, text: str | None) -> Scheme:
    """`80k`: a step at so many bytes; `40k,200k,0.2`: from Kmin on with a probability that is Pmax at Kmax; `off`."""
    if text is None:
        return scheme
    if text.strip().lower() == "off":
        return replace(scheme, ecn=NoMarking())
    parts = text.split(",")
    if len(parts) not in (1, 3):
        raise DetourError(f"ecn: {text!r} is neither off, nor K like 80k, nor Kmin,Kmax,Pmax like 40k,200k,0.2")
    amounts = [Amount(_said("ecn", part, bytes_of), "bytes") for part in parts[:2]]
    if len(parts) == 1:
        return replace(scheme, ecn=StepMarking(amounts[0]))
    return replace(scheme, ecn=RedMarking(amounts[0], amounts[1], _said("ecn", parts[2], fraction_of)))
