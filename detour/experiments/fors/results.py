# SPDX-License-Identifier: Apache-2.0
"""Points of the FORS paper's evaluation, their results and what is made of these, as they are kept and printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from msgspec import UNSET, UnsetType

from detour.control.fors.plan import PlanSeconds
from detour.experiments.columns import row, shown
from detour.fabric.traffic.outage import Detection
from detour.fabric.traffic.phased import ExchangeCounts

# -- an exchange --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """Statistics of the values of all phases."""

    mean: float
    min: float
    median: float
    max: float


@dataclass(frozen=True)
class Crowd:
    """Most flows that used a link at a time in a phase: mean over the phases, and the most of all."""

    mean: float
    max: int


@dataclass(frozen=True, kw_only=True)
class ExchangeResult:
    """The result of an exchange. Where only some of the phases were executed, the others count as long as these on
    average in `throughput_gbps` (a server's) and `ms`. `planning_seconds`: CPU time of this machine, which virtual time
    counts if `plan_time` is `measured`; a sweep keeps none and has the time `given`."""

    topology: str
    routing: str
    servers: int
    failed_links: int
    reduction: int
    rate_gbps: float
    message_bytes: int
    payload_bytes: int
    phases: int
    phases_executed: int
    messages: int
    throughput_gbps: float
    ms: float
    phase_us: Spread
    barrier_us: Spread
    most_flows_on_a_link: Crowd
    exchange: ExchangeCounts
    queue_drops: int
    link_drops: int
    packet_hops: int
    phase_lengths_us: list[float]
    moves: int
    unreachable_leaves: list[list[int]]
    detections: list[Detection]
    planning_seconds: list[float] | UnsetType = UNSET
    plan_time: Literal["measured", "given"] | UnsetType = UNSET
    bound_us: float | UnsetType = UNSET
    """with sizes: what their bytes take at least"""
    over_bound: float | UnsetType = UNSET
    """time of the exchange over that"""


# -- points -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ForsExchangePoint:
    """An exchange under a scenario's failures. `default`: OpenSM would choose this routing; `phases`: 0 is all."""

    scenario: str
    routing: str
    default: bool
    phases: int
    message: int
    seed: int
    kind: Literal["exchange"] = "exchange"
    experiment: str = "fors"


@dataclass(frozen=True, kw_only=True)
class ForsBreakPoint:
    """A link breaks in the midst of an exchange."""

    routing: str
    phases: int
    message: int
    seed: int
    kind: Literal["break"] = "break"
    experiment: str = "fors"


@dataclass(frozen=True, kw_only=True)
class ForsTimesPoint:
    """Times of computing."""

    scenario: str
    seed: int
    kind: Literal["times"] = "times"
    experiment: str = "fors"


@dataclass(frozen=True, kw_only=True)
class ForsPhasesPoint:
    """Phases over failed links of a leaf."""

    spines: int
    leaves: int
    kind: Literal["phases"] = "phases"
    experiment: str = "fors"


ForsPoint: TypeAlias = ForsExchangePoint | ForsBreakPoint | ForsTimesPoint | ForsPhasesPoint


# -- results ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ForsExchange(ExchangeResult):
    """The result of a `ForsExchangePoint`."""

    scenario: str
    default: bool
    kind: Literal["exchange"] = "exchange"


@dataclass(frozen=True, kw_only=True)
class ForsBreak(ExchangeResult):
    """The result of a `ForsBreakPoint`; `broke_us`: when."""

    broke_us: int
    kind: Literal["break"] = "break"


@row
class ForsTimes:
    """The result of a `ForsTimesPoint`: a plan, and how long it took."""

    scenario: str = shown("failed")
    phases: int = shown("phases")
    lower_bound: int = shown("bound", wide=True, means="phases that any plan needs")
    optimal: bool
    method: str = shown("method")
    verified: bool
    seconds: PlanSeconds
    kind: Literal["times"] = "times"


@dataclass(frozen=True, kw_only=True)
class ForsPhases:
    """The result of a `ForsPhasesPoint`: phases of our schedules for every f (`reduction`), and by the paper's formula;
    factors relative to f = 0."""

    topology: str
    reduction: list[int]
    phases: list[int]
    factor: list[float]
    paper_phases: list[int]
    paper_factor: list[float]
    kind: Literal["phases"] = "phases"


ForsResult: TypeAlias = ForsExchange | ForsBreak | ForsTimes | ForsPhases


# -- findings -----------------------------------------------------------------------------------------------


@row
class ForsRow:
    """A scenario in Fig. 3 and Fig. 6; Gb/s a server, None where it was not run or not printed. `relative`: to FORS
    without failures. `ranges_gbps`: least, median and most by routing, were every phase as long as the longest, the
    median and the shortest."""

    scenario: str = shown("failed")
    reduction: int
    failed_links: int
    phases: int | None = shown("phases")
    fors_gbps: float | None = shown("FORS", ".1f")
    fors_paper: float | None = shown("paper", ".1f")
    fors_relative: float | None = shown("to 0F", ".3f", wide=True, means="relative to FORS without failures")
    default: str | None = shown("OpenSM's", means="the routing that it would choose")
    default_gbps: float | None = shown("its", ".1f")
    default_paper: float | None = shown("paper", ".1f")
    default_relative: float | None = shown("to FORS 0F", ".3f", wide=True)
    ftree_ar_gbps: float | None = shown("Ftree-AR", ".1f")
    others_gbps: dict[str, float]
    ranges_gbps: dict[str, list[float]]


@dataclass(frozen=True)
class ForsFindings:
    """Fig. 3 and 6 (`throughput`), `times` and `phases` as computed, breaks; `runs` behind the first."""

    topology: str
    throughput: list[ForsRow]
    times: list[ForsTimes]
    phases: list[ForsPhases]
    paper_seconds: dict[str, float]
    breaks: list[ForsBreak]
    runs: list[ForsExchange]
