# SPDX-License-Identifier: Apache-2.0
"""The tables of the path placement paper's section IV: what the runs delivered, and what the switches saw of it."""

from __future__ import annotations

from detour.base.tables import Table, left, percent, right, yes_no
from detour.experiments.placement.experiment import ComparedRun, PathFindings
from detour.experiments.placement.scenario import SwitchOnPath


def tables(found: PathFindings) -> list[Table[ComparedRun] | Table[tuple[str, SwitchOnPath]]]:
    """Ours beside the paper's, and the second one if switches watched the flow."""
    seen = [(run.mode, switch) for run in found.runs for switch in run.switches]
    return [_runs(found), *([_switches(seen)] if seen else [])]


def _runs(found: PathFindings) -> Table[ComparedRun]:
    paper = found.paper
    volumes = paper.delivered_gb
    columns = [
        left("rerouting", lambda run: run.mode),
        right("Gb", lambda run: f"{run.delivered_gb:.4g}", means="delivered in the time of the run"),
        right("share", lambda run: percent(run.delivered_fraction, 2), means="of what the uncongested run delivered"),
        right("paper", lambda run: percent(paper.delivered_fraction.get(run.mode), 2), means="the share in the paper"),
        right("rerouted after", lambda run: _time(run.reroute_s)),
        right("RTTs", lambda run: None if run.reroute_rtts is None else f"{run.reroute_rtts:.1f}", wide=True),
        right("recovered after", lambda run: _time(run.recovery_s)),
        right("moves", lambda run: run.reroutes, wide=True),
        right("bytes lost", lambda run: run.lost_bytes, wide=True),
        right("repeated", lambda run: run.duplicate_bytes, wide=True),
        left("whole", lambda run: yes_no(run.in_order), means="all messages have arrived as they were, in order"),
    ]
    note = (
        f"in the paper {volumes['none']} Gb without and {volumes['controller']} Gb with rerouting in "
        f"{paper.seconds:g} s, rerouted about {paper.reroute_s * 1e3:g} ms after the onset"
    )
    return Table(columns, found.runs, f"{found.throttled} at {found.throttle:.0%} of its rate", [note])


def _switches(seen: list[tuple[str, SwitchOnPath]]) -> Table[tuple[str, SwitchOnPath]]:
    columns = [
        left("rerouting", lambda row: row[0]),
        left("switch", lambda row: row[1].switch),
        right("packets", lambda row: row[1].packets),
        right("marked", lambda row: row[1].ecn_packets),
        right("mean delay", lambda row: f"{row[1].delay_s * 1e6:.2f} us"),
        right("in the worst window", lambda row: f"{row[1].worst_window_delay_s * 1e6:.2f} us"),
    ]
    return Table(columns, seen, "the flow as the switches saw it")


def _time(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value * 1e3:.1f} ms" if value >= 1e-3 else f"{value * 1e6:.1f} us"
