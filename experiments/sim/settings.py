# SPDX-License-Identifier: Apache-2.0
"""What a run of `detour sim` consists of, whoever says it: options of the command, or a scenario file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.quantities import bytes_of, fraction_of, rate_bps_of, time_ps_of
from detour.base.times import MAX_TIME, MS, US
from detour.control.policy import Amount, NoMarking, RedMarking, StepMarking
from detour.engine.jitter import AUTO, LONGEST_PS
from detour.experiments.running import window
from detour.fabric.backends.virtual.own_program import OwnProgram, read_program
from detour.fabric.backends.virtual.scheme import LinkSettings, RunSettings, Scheme, SwitchMemory, scheme
from detour.topo import Topology, parse_failure
from detour.topo.failures import Failure, failure_name

T = TypeVar("T")

_LEAST_BUFFER = 2 * PACKET_BYTES
_LONGEST_DELAY_PS = 100 * MS
_MOST_CONNECTIONS = 64
DEFAULT_SCHEME = "SprayLERP"


@dataclass(frozen=True, order=True)
class TimedFailure:
    """A link or switch that goes down at a time."""

    at_ps: int
    failure: Failure


@dataclass(frozen=True, kw_only=True)
class SimOptions:
    """What can be said about a run, in text as people write it; None: as it is by default. A scenario file has the same
    names, with `-` for `_`."""

    topo: str | None = None
    workload: str | None = None
    scheme: str | None = None
    program: str | None = None
    rate: str | None = None
    delay: str | None = None
    buffer: str | None = None
    loss: str | None = None
    ecn: str | None = None
    fail: Sequence[str] = ()
    reroute_after: str | None = None
    duration: str | None = None
    connections: str | None = None
    seed: str | None = None
    cc: str | None = None
    jitter: str | None = None


class OptionError(DetourError):
    """An option is wrong: `option` says which, by its name in `SimOptions`."""

    def __init__(self, option: str, text: str) -> None:
        super().__init__(text)
        self.option = option


@dataclass(frozen=True, kw_only=True)
class SimSettings:
    """A run but for topology and workload.

    `duration_ps` None: until all is over. `reroute_after_ps`: the controller writes routes around a failure so long
    after it; None: nobody but senders does anything about it. `connections`: of two hosts at most, where messages of
    jobs share them; flows have one each. `jitter_ps`: of senders (`RunSettings`)."""

    scheme: Scheme
    program: OwnProgram | None = None
    links: LinkSettings = field(default_factory=LinkSettings)
    memory: SwitchMemory = field(default_factory=SwitchMemory)
    loss: float = 0.0
    seed: int = 1
    failures: tuple[TimedFailure, ...] = ()
    reroute_after_ps: int | None = None
    duration_ps: int | None = None
    connections: int = 1
    jitter_ps: int = AUTO

    def of_run(self, connections: int) -> RunSettings:
        """For the fabric."""
        sized = window(connections)
        return RunSettings(self.links, self.memory, sized, loss=self.loss, seed=self.seed, jitter_ps=self.jitter_ps)

    @property
    def until_ps(self) -> int:
        """When the run ends at the latest."""
        return MAX_TIME if self.duration_ps is None else self.duration_ps


def settings_of(topology: Topology, options: SimOptions) -> SimSettings:
    """A run as options say it. Raises `OptionError`: which of them is wrong, and what it may be."""
    chosen = read_option("scheme", options.scheme or DEFAULT_SCHEME, scheme)
    if options.cc is not None:
        chosen = read_option("cc", options.cc, chosen.with_control)
    if options.ecn is not None:
        chosen = read_option("ecn", options.ecn, partial(_with_ecn, chosen))
    port_bytes = SwitchMemory().port_bytes if options.buffer is None else read_option("buffer", options.buffer, _buffer)
    return SimSettings(
        scheme=chosen,
        program=None if options.program is None else read_option("program", options.program, read_program),
        links=links_of(options).of(topology),
        memory=SwitchMemory(port_bytes=port_bytes),
        loss=0.0 if options.loss is None else read_option("loss", options.loss, _loss),
        seed=1 if options.seed is None else read_option("seed", options.seed, _seed),
        failures=tuple(sorted(read_option("fail", text, partial(_failure, topology)) for text in options.fail)),
        reroute_after_ps=_time("reroute_after", options.reroute_after),
        duration_ps=_time("duration", options.duration),
        connections=1 if options.connections is None else read_option("connections", options.connections, _connections),
        jitter_ps=AUTO if options.jitter is None else read_option("jitter", options.jitter, jitter_of),
    )


def read_option(option: str, text: str, read: Callable[[str], T]) -> T:
    """What a value says. Raises `OptionError`: it says nothing, named by its option."""
    try:
        return read(text)
    except DetourError as error:
        raise OptionError(option, f"{option.replace('_', '-')}: {error}") from None


def links_of(options: SimOptions) -> LinkSettings:
    """Rates and delays of links that say nothing themselves. Raises `OptionError`: they are none."""
    links = LinkSettings()
    if options.rate is not None:
        links = replace(links, rate_bps=read_option("rate", options.rate, rate_bps_of))
    if options.delay is not None:
        delay = read_option("delay", options.delay, _delay)
        links = replace(links, host_delay_ps=delay, local_delay_ps=delay, global_delay_ps=delay)
    return links


def _delay(text: str) -> int:
    delay = time_ps_of(text)
    if not 1_000 <= delay <= _LONGEST_DELAY_PS:
        raise DetourError(f"{text!r}; 1ns to 100ms are possible")
    return delay


def jitter_of(text: str) -> int:
    """A time by which senders are late at most, in ps. Raises `DetourError`: it is none."""
    jitter = time_ps_of(text)
    if jitter > LONGEST_PS:
        raise DetourError(f"{text!r}; 0 to 100ms are possible")
    return jitter


def _time(option: str, text: str | None) -> int | None:
    """A time above 0; None stays none."""
    if text is None:
        return None
    time = read_option(option, text, time_ps_of)
    if not time:
        raise OptionError(option, f"{option.replace('_', '-')}: {text!r} is no time above 0")
    return time


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise DetourError(f"{text!r} is not a whole number from 0 to 999999999")
    return int(text)


def _connections(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:5]) <= _MOST_CONNECTIONS):
        raise DetourError(f"{text!r} is not a whole number from 1 to {_MOST_CONNECTIONS}")
    return int(text)


def _buffer(text: str) -> int:
    size = bytes_of(text)
    if size < _LEAST_BUFFER:
        raise DetourError(f"{text!r}; a port needs {_LEAST_BUFFER} bytes, two packets")
    return size


def _loss(text: str) -> float:
    loss = fraction_of(text)
    if loss >= 1:
        raise DetourError(f"{text!r}; links that lose all carry nothing")
    return loss


def _failure(topology: Topology, text: str) -> TimedFailure:
    """`s0-s3@50us`."""
    name, at, when = text.rpartition("@")
    if not at:
        raise DetourError(f"{text!r} has no time; wanted is LINK@TIME, like s0-s3@50us")
    return TimedFailure(time_ps_of(when), parse_failure(topology, name))


def failure_text(topology: Topology, one: TimedFailure) -> str:
    """What `_failure` understands."""
    return f"{failure_name(topology, one.failure)}@{one.at_ps / US:g}us"


def _with_ecn(scheme: Scheme, text: str) -> Scheme:
    """`80k`: a step at so many bytes; `40k,200k,0.2`: from Kmin on with a probability that is Pmax at Kmax; `off`."""
    if text.strip().lower() == "off":
        return replace(scheme, ecn=NoMarking())
    parts = text.split(",")
    if len(parts) not in (1, 3):
        raise DetourError(f"{text!r} is neither off, nor K like 80k, nor Kmin,Kmax,Pmax like 40k,200k,0.2")
    amounts = [Amount(bytes_of(part), "bytes") for part in parts[:2]]
    if len(parts) == 1:
        return replace(scheme, ecn=StepMarking(amounts[0]))
    if amounts[0].value >= amounts[1].value:
        raise DetourError(f"{text!r}: Kmin is not below Kmax")
    return replace(scheme, ecn=RedMarking(amounts[0], amounts[1], fraction_of(parts[2])))
