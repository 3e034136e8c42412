# SPDX-License-Identifier: Apache-2.0
"""`detour reproduce hardware`: operations of NCCL as machines were measured, and as the simulator predicts them.

Two numbers are fitted, on the all-reduce of one GPU a machine of ten: the rate of a NIC and `HostCosts.step_ps` (least
squares of relative errors; Gauss and Newton's method with halved steps). The rest is NCCL's own rules and constants
(`control.placement.nccl.rules`). Every other row is a prediction: what is fitted, and what machines are taken for, was
settled before any other row was looked at; faults of the model were mended later (page.md). Machines have a NIC for
each GPU; all NICs are on one switch that blocks nothing, since the sets do not say what the networks are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.base.errors import DetourError
from detour.base.tables import Table
from detour.base.times import US
from detour.control.placement.nccl.machines import Cluster, HostCosts, Machine
from detour.experiments.columns import grouped, row, shown, table
from detour.experiments.hardware.logs import Operation, Series, astra_sim, kept
from detour.experiments.hardware.nccl_tests import MTU, NcclTest
from detour.experiments.sim.settings import SimOptions, settings_of
from detour.topo import Topology, parse_topology

FIT_OP = "all_reduce"
_LIMIT = {"quick": 200_000_000, "normal": 1_000_000_000, "full": 8_000_000_000}
_BYTES_A_SECOND, _LEAST_BYTES = 2.5e9, 6e7
_STEPS = {"nic_gbps": 4.0, "step_us": 2.0}
"""by which a number is changed to see what that does"""
_LEAST = {"nic_gbps": 1.0, "step_us": 0.0}
_NEAR = 0.3
_ROUNDS, _HALVINGS = 5, 3
_ENOUGH = 1e-3
"""less of a better mean square is the end"""


@dataclass(frozen=True)
class Fitted:
    """The numbers that are fitted."""

    nic_gbps: float
    step_us: float


STORED = Fitted(nic_gbps=411.033, step_us=19.048)
"""what came out, for --quick and --from"""
_START = Fitted(nic_gbps=400.0, step_us=20.0)


@dataclass(frozen=True, kw_only=True)
class HardwarePoint:
    """One series of one set, with the numbers that it is simulated with."""

    set: str
    op: str
    gpus: int
    nodes: int
    bytes: tuple[int, ...]
    measured_us: tuple[float, ...]
    fitted: Fitted
    limit: int
    experiment: str = "hardware"


@row
class HardwareRow:
    """An operation that was measured. `error`: of the predicted time, relative to the measured one. `fitted`: numbers
    were fitted on it, so it is no prediction. `simulated`: the share of it that was simulated. `astra_sim_us`,
    `astra_sim_error`: what ASTRA-sim predicts (None: nothing)."""

    set: str = shown("set")
    op: str = shown("operation")
    gpus: int = shown("GPUs")
    nodes: int = shown("nodes")
    bytes: int = shown("bytes")
    measured_us: float = shown("measured us", ",.1f")
    predicted_us: float = shown("predicted us", ",.1f")
    error: float = shown("error", "+.1%")
    algorithm: str = shown("algorithm")
    protocol: str = shown("protocol")
    simulated: float = shown("simulated", ".0%")
    astra_sim_us: float | None = shown("ASTRA-sim us", ",.1f", default=None)
    astra_sim_error: float | None = shown("its error", "+.1%", default=None)
    fitted: bool = shown("fitted")


@dataclass(frozen=True)
class HardwareRun:
    """Rows of a series, and what they were simulated with."""

    rows: Sequence[HardwareRow]
    fitted: Fitted


@row
class HardwareGroup:
    """Predictions of one operation, or of several, on machines of one kind."""

    set: str = shown("set")
    op: str = shown("operation")
    gpus: int = shown("GPUs")
    nodes: int = shown("nodes")
    rows: int = shown("sizes")
    geomean_error: float = shown("mean error", ".1%", means="geometric: of how far times are apart")
    largest_error: float = shown("largest", "+.1%")
    within_30: float = shown("within 30 %", ".0%")
    astra_sim_geomean_error: float | None = shown("ASTRA-sim", ".1%", means="its mean error")
    astra_sim_largest_error: float | None = shown("largest", "+.1%")
    fitted: bool = shown("fitted")


@dataclass(frozen=True)
class HardwareSummary:
    """Predictions without the rows that were fitted. `geomean_error`: e to the mean of |log(predicted / measured)|,
    less 1; `largest_error`: |predicted / measured - 1|; `within_30`: share of rows below 30 %. `both`: rows that
    ASTRA-sim predicts too, `both_geomean_error`: ours on these."""

    predictions: int
    geomean_error: float
    largest_error: float
    within_30: float
    both: int
    both_geomean_error: float
    astra_sim_geomean_error: float
    astra_sim_largest_error: float


@dataclass(frozen=True)
class HardwareFindings:
    """All rows. `groups`: by operation; `machines`: predictions by machines."""

    fitted: Fitted | None
    rows: Sequence[HardwareRow]
    groups: Sequence[HardwareGroup]
    machines: Sequence[HardwareGroup]
    summary: HardwareSummary


def select(
    extent: str = "normal", figures: Sequence[Series] | None = None, fitted: Fitted = STORED
) -> list[HardwarePoint]:
    """A point for each series. `figures`: those that were measured (None: those that are kept here)."""
    return [_point(one, fitted, _LIMIT[extent]) for one in (kept() if figures is None else figures)]


def _point(one: Series, fitted: Fitted, limit: int) -> HardwarePoint:
    return HardwarePoint(
        set=one.set, op=one.op, gpus=one.gpus, nodes=one.nodes, bytes=one.bytes, measured_us=one.us,
        fitted=fitted, limit=limit,
    )  # fmt: skip


def seconds(point: HardwarePoint) -> float:
    return 2.0 + len(point.bytes) * (0.2 + max(point.limit, _LEAST_BYTES * point.gpus) / _BYTES_A_SECOND)


def is_fitted(one: Series | HardwarePoint | HardwareRow) -> bool:
    """Return whether numbers are fitted on a series: the all-reduce of one GPU a machine."""
    return one.op == FIT_OP and one.gpus == one.nodes


def run(point: HardwarePoint) -> HardwareRun:
    """Simulate one series."""
    gpus = point.gpus // point.nodes
    topology = _switch(point.gpus)
    settings = settings_of(topology, SimOptions(rate=f"{point.fitted.nic_gbps:.3f}G", jitter="0", mtu=MTU))
    cluster = Cluster(
        point.gpus, Machine(gpus, gpus), settings.links.rate_bps, HostCosts(round(point.fitted.step_us * US))
    )
    test = NcclTest(point.op, cluster, topology, settings, limit=point.limit)
    rows = [
        HardwareRow(
            set=point.set, op=point.op, gpus=point.gpus, nodes=point.nodes, bytes=one.bytes, measured_us=us,
            predicted_us=one.us, error=round(one.us / us - 1, 4), algorithm=one.algorithm, protocol=one.protocol,
            simulated=one.simulated, fitted=is_fitted(point),
        )
        for one, us in zip(test.rows(point.bytes), point.measured_us, strict=True)
    ]  # fmt: skip
    return HardwareRun(rows, point.fitted)


def _switch(hosts: int) -> Topology:
    return parse_topology(f"leaf-spine:leaves=1,spines=1,hosts={hosts}")


def collect(results: Sequence[HardwareRun]) -> HardwareFindings:
    """All rows, and how far predictions are off; beside them those of ASTRA-sim."""
    others = astra_sim()
    rows = [_beside(each, others) for result in results for each in result.rows]
    predicted = [each for each in rows if not each.fitted]
    errors = [each.error for each in predicted]
    both = [(each.error, each.astra_sim_error) for each in predicted if each.astra_sim_error is not None]
    ours, theirs = [one for one, _ in both], [other for _, other in both]
    summary = HardwareSummary(
        len(predicted), _geomean(errors), abs(_largest(errors)), _within(errors), len(both), _geomean(ours),
        _geomean(theirs), abs(_largest(theirs)),
    )  # fmt: skip
    machines = [
        _group(some, ", ".join(dict.fromkeys(one.op for one in some)))
        for some in grouped(predicted, lambda one: (one.set, one.gpus, one.nodes, one.astra_sim_us is None)).values()
    ]
    series = grouped(rows, lambda one: (one.set, one.op, one.gpus, one.nodes)).values()
    groups = [_group(some, some[0].op) for some in series]
    return HardwareFindings(results[0].fitted if results else None, rows, groups, machines, summary)


def _beside(one: HardwareRow, others: Mapping[Operation, float]) -> HardwareRow:
    us = others.get((one.set, one.op, one.gpus, one.nodes, one.bytes))
    return one if us is None else replace(one, astra_sim_us=us, astra_sim_error=round(us / one.measured_us - 1, 4))


def _group(rows: Sequence[HardwareRow], op: str) -> HardwareGroup:
    errors = [one.error for one in rows]
    theirs = [one.astra_sim_error for one in rows if one.astra_sim_error is not None]
    return HardwareGroup(
        set=rows[0].set, op=op, gpus=rows[0].gpus, nodes=rows[0].nodes, rows=len(rows), geomean_error=_geomean(errors),
        largest_error=_largest(errors), within_30=_within(errors), fitted=rows[0].fitted,
        astra_sim_geomean_error=_geomean(theirs) if theirs else None,
        astra_sim_largest_error=_largest(theirs) if theirs else None,
    )  # fmt: skip


def _within(errors: Sequence[float]) -> float:
    return round(sum(abs(each) <= _NEAR for each in errors) / max(len(errors), 1), 4)


def _largest(errors: Sequence[float]) -> float:
    return max(errors, key=abs, default=0.0)


def _geomean(errors: Sequence[float]) -> float:
    return round(math.expm1(sum(abs(math.log1p(each)) for each in errors) / max(len(errors), 1)), 4)


def tables(findings: HardwareFindings) -> list[Table[Any]]:
    """Tables of what was fitted, of operations, and of all rows."""
    total, fitted = findings.summary, findings.fitted
    text = f"{total.predictions} predictions: mean error {total.geomean_error:.1%}, largest {total.largest_error:.1%}"
    if fitted:
        text += f"; NICs of {fitted.nic_gbps:.1f} Gb/s, {fitted.step_us:.1f} us a step"
    return [
        table(HardwareRow, findings.rows, "rows"),
        table(HardwareGroup, findings.groups, "operations"),
        table(HardwareGroup, findings.machines, text),
    ]


# -- fitting ------------------------------------------------------------------------------------------------

Evaluate = Callable[[Sequence[HardwarePoint]], Sequence[HardwareRun]]
"""runs points; a result for each, in order"""


def fit(figures: Sequence[Series], evaluate: Evaluate, extent: str = "normal") -> Fitted:
    """Numbers with which the all-reduce of one GPU a machine is predicted best. Raises `DetourError`: none was
    measured, or not on enough sizes."""
    measured = next((one for one in figures if is_fitted(one)), None)
    if measured is None or len(measured.bytes) < len(_STEPS):
        raise DetourError(f"no {FIT_OP} of one GPU a node with {len(_STEPS)} sizes, which the numbers are fitted on")
    series = measured

    def logs(some: Sequence[Fitted]) -> NDArray[np.float64]:
        results = evaluate([_point(series, each, _LIMIT[extent]) for each in some])
        return np.array([[math.log1p(one.error) for one in result.rows] for result in results])

    at, (errors,) = _START, logs([_START])
    for _ in range(_ROUNDS):
        beside = [replace(at, **{name: getattr(at, name) + step}) for name, step in _STEPS.items()]
        slopes = (logs(beside) - errors).T / np.array(list(_STEPS.values()))
        change, *_ = np.linalg.lstsq(slopes, -errors, rcond=None)
        tried = [_changed(at, change / 2**halving) for halving in range(_HALVINGS)]
        found = logs(tried)
        best = int((found**2).sum(axis=1).argmin())
        gain = float((errors**2).mean() - (found[best] ** 2).mean())
        if gain <= 0:
            break
        at, errors = tried[best], found[best]
        if gain < _ENOUGH**2:
            break
    return at


def _changed(at: Fitted, change: NDArray[np.float64]) -> Fitted:
    """The numbers after a change, none below its least value."""
    values = zip(_STEPS, change.tolist(), strict=True)
    return replace(at, **{name: round(max(_LEAST[name], getattr(at, name) + by), 3) for name, by in values})
