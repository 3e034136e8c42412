# SPDX-License-Identifier: Apache-2.0
"""Settings of a run of `detour sim`, from options of the command or a scenario file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeVar

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.quantities import bytes_of, fraction_of, rate_bps_of, time_or_never_of, time_ps_of, whole_number_of
from detour.base.times import MAX_TIME, MS, US
from detour.control.policy import Amount, NoMarking, RedMarking, StepMarking
from detour.engine.jitter import AUTO, LONGEST_PS
from detour.experiments.running import window
from detour.fabric.backends.virtual.own_program import OwnProgram, read_program
from detour.fabric.backends.virtual.scheme import LinkSettings, RunSettings, Scheme, SwitchMemory, scheme
from detour.hosts.config import MAX_PAYLOAD
from detour.topo import Topology, parse_failure
from detour.topo.failures import NONE, Failure, Failures, failure_name

T = TypeVar("T")

_LEAST_BUFFER = 2 * PACKET_BYTES
_LONGEST_DELAY_PS = 100 * MS
_MOST_CONNECTIONS = 64
DEFAULT_SCHEME = "SprayLERP"


@dataclass(frozen=True, order=True)
class TimedFailure:
    """A link or switch that changes at a time: it goes down, comes back, or from then on carries `fraction` of its rate
    (a link: 1 is all of it)."""

    at_ps: int
    failure: Failure
    change: Literal["down", "up", "rate"] = "down"
    fraction: float = 1.0


@dataclass(frozen=True, kw_only=True)
class SimOptions:
    """Options of a run, in text as people write it; None: the default. A scenario file has the same names, with `-` for
    `_`."""

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
    routing: str | None = None
    jitter: str | None = None
    mtu: str | None = None
    fast: str | None = None


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
    jobs share them; flows have one each. `jitter_ps`: of senders (`RunSettings`). `down`: is so from the beginning, and
    routes lead around it. `fast`: bound on the rates of what is skipped while it is steady (docs/fast-forward.md); 0:
    nothing is."""

    scheme: Scheme
    program: OwnProgram | None = None
    links: LinkSettings = field(default_factory=LinkSettings)
    memory: SwitchMemory = field(default_factory=SwitchMemory)
    loss: float = 0.0
    seed: int = 1
    failures: tuple[TimedFailure, ...] = ()
    down: Failures = NONE
    reroute_after_ps: int | None = None
    duration_ps: int | None = None
    connections: int = 1
    jitter_ps: int = AUTO
    fast: float = 0.0

    def of_run(self, connections: int) -> RunSettings:
        """For the fabric."""
        sized = window(connections)
        return RunSettings(self.links, self.memory, sized, loss=self.loss, seed=self.seed, jitter_ps=self.jitter_ps)

    @property
    def until_ps(self) -> int:
        """The latest end of the run."""
        return MAX_TIME if self.duration_ps is None else self.duration_ps


def settings_of(topology: Topology, options: SimOptions) -> SimSettings:
    """A run as options say it. Raises `OptionError`: which of them is wrong, and what it may be."""

    def read(option: str, reader: Callable[[str], T], default: T) -> T:
        text = getattr(options, option)
        return default if text is None else read_option(option, text, reader)

    chosen = read_option("scheme", options.scheme or DEFAULT_SCHEME, scheme)
    chosen = read("cc", chosen.with_control, chosen)
    chosen = read("routing", chosen.with_routing, chosen)
    chosen = read("mtu", lambda text: chosen.with_mtu(_mtu(text)), chosen)
    chosen = read("ecn", partial(_with_ecn, chosen), chosen)
    return SimSettings(
        scheme=chosen,
        program=read("program", read_program, None),
        links=links_of(options).of(topology),
        memory=SwitchMemory(port_bytes=read("buffer", _buffer, SwitchMemory().port_bytes)),
        loss=read("loss", _loss, 0.0),
        seed=read("seed", seed_of, 1),
        failures=tuple(sorted(read_option("fail", text, partial(_failure, topology)) for text in options.fail)),
        reroute_after_ps=read("reroute_after", time_or_never_of, None),
        duration_ps=read("duration", _time, None),
        connections=read("connections", _connections, 1),
        jitter_ps=read("jitter", jitter_of, AUTO),
        fast=read("fast", partial(_fast, options, topology, chosen), 0.0),
    )


def read_option(option: str, text: str, read: Callable[[str], T]) -> T:
    """Parse a value. Raises `OptionError`: it is wrong, named by its option."""
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


def _checked(read: Callable[[str], T], allowed: Callable[[T], bool], rule: str) -> Callable[[str], T]:
    """Read a value and refuse, by a rule, what is not allowed."""

    def checked(text: str) -> T:
        value = read(text)
        if not allowed(value):
            raise DetourError(f"{text!r}{rule}")
        return value

    return checked


_delay = _checked(time_ps_of, lambda delay: 1_000 <= delay <= _LONGEST_DELAY_PS, "; expected 1ns to 100ms")
_time = _checked(time_ps_of, bool, " is not a time above 0")
seed_of = partial(whole_number_of, most=10**9 - 1, least=0)
_connections = partial(whole_number_of, most=_MOST_CONNECTIONS)
_mtu = _checked(
    bytes_of,
    lambda size: size % 4 == 0 and 256 <= size <= MAX_PAYLOAD,
    f"; expected 256 to {MAX_PAYLOAD}, a multiple of 4",
)
_buffer = _checked(bytes_of, lambda size: size >= _LEAST_BUFFER, f"; a port needs {_LEAST_BUFFER} bytes, two packets")
_loss = _checked(fraction_of, lambda loss: loss < 1, "; links that lose all carry nothing")
jitter_of = _checked(time_ps_of, lambda jitter: jitter <= LONGEST_PS, "; expected 0 to 100ms")
"""a time by which senders are late at most, in ps"""


def _fast(options: SimOptions, topology: Topology, chosen: Scheme, text: str) -> float:
    error = fraction_of(text)
    if error and options.program is not None:
        raise DetourError("the paths that a program of one's own gives packets are not known: leave out --program")
    if error and options.loss is not None and _loss(options.loss):
        raise DetourError("where links lose frames at random nothing is steady: leave out --loss")
    if error:
        from detour.fabric.fast.skipping import check_skippable  # a run in full needs none of it

        check_skippable(topology, chosen)
    return error


def _failure(topology: Topology, text: str) -> TimedFailure:
    """`s0-s3@50us`."""
    name, at, when = text.rpartition("@")
    if not at:
        raise DetourError(f"{text!r} has no time; expected LINK@TIME, like s0-s3@50us")
    return TimedFailure(time_ps_of(when), parse_failure(topology, name))


def failure_text(topology: Topology, one: TimedFailure) -> str:
    """Return the text that `_failure` parses."""
    return f"{failure_name(topology, one.failure)}@{one.at_ps / US:g}us"


_EVENT = "expected fail:LINK, heal:LINK, slow:LINK:FRACTION or flap:LINK:TIME, like flap:s0-s4:50us"


def events_of(topology: Topology, when: str, event: str) -> list[TimedFailure]:
    """Parse `--at 1ms fail:s0-s4`. `fail` takes a link or switch down and `heal` brings it back; `slow` leaves a link
    that fraction of its rate; what `flap`s is down for that long. Raises `DetourError`: it is wrong."""
    at_ps = time_ps_of(when)
    kind, _, rest = event.partition(":")
    name, _, value = rest.rpartition(":") if kind in ("slow", "flap") else (rest, "", "")
    if kind not in ("fail", "heal", "slow", "flap") or not name:
        raise DetourError(f"{event!r}: {_EVENT}")
    failure = parse_failure(topology, name)
    if kind == "slow":
        fraction = fraction_of(value)
        if not fraction or failure.kind != "link":
            raise DetourError(f"{event!r}: slow needs a link and a fraction above 0 of its rate")
        return [TimedFailure(at_ps, failure, "rate", fraction)]
    first = TimedFailure(at_ps, failure, "up" if kind == "heal" else "down")
    return [first, TimedFailure(at_ps + _time(value), failure, "up")] if kind == "flap" else [first]


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
