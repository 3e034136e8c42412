# SPDX-License-Identifier: Apache-2.0
"""The text of docs/results.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.tables import Table, left, markdown, right
from detour.control.policy import Ecn, NoMarking, RedMarking
from detour.experiments.columns import table
from detour.experiments.nonshortest import deadlock, paper, pfc_gain, settings, tables
from detour.experiments.nonshortest.ablation import SettingFindings
from detour.experiments.nonshortest.claims import Claim, claims
from detour.experiments.nonshortest.deadlock import Figure2Findings, Figure2Point
from detour.experiments.nonshortest.experiment import (
    CompletionNonshortestRun,
    Gain,
    NonshortestFindings,
    NonshortestPoint,
    NonshortestRun,
)
from detour.experiments.nonshortest.pfc_gain import PfcGainFindings, PfcGainPoint
from detour.experiments.prose import prose
from detour.experiments.reproduce import Reproduction, describe
from detour.fabric.backends.virtual.scheme import (
    BENCHMARK,
    BENCHMARK_DCTCP,
    LERP_WITHOUT_PFC,
    ROCE_WITH_PFC,
    SCHEMES,
    LinkSettings,
    Scheme,
    SwitchMemory,
)

_TEXTS = prose(__file__)


def _text(name: str, **values: Any) -> str:
    return _TEXTS[name].format(**values)


class Evaluation(NamedTuple):
    """All that the document shows. `extras`: losses and completion times; `settings`: what additions are worth;
    `sensitivity`: runs with other constants."""

    curves: Reproduction[NonshortestPoint, NonshortestFindings]
    hold_outs: Reproduction[NonshortestPoint, NonshortestFindings]
    extras: Reproduction[NonshortestPoint, NonshortestFindings]
    settings: Reproduction[NonshortestPoint, SettingFindings]
    sensitivity: Reproduction[NonshortestPoint, Sequence[NonshortestRun | None]]
    table_1: Reproduction[PfcGainPoint, PfcGainFindings]
    figure_2: Reproduction[Figure2Point, Figure2Findings]

    @property
    def changed(self) -> list[NonshortestRun]:
        """Of `sensitivity`, those that were run."""
        return [run for run in self.sensitivity.collected if run is not None]

    @property
    def shown(self) -> int:
        """Runs that it shows."""
        several = (self.curves, self.hold_outs, self.extras, self.settings, self.table_1, self.figure_2)
        return sum(len(part.collected.points) for part in several) + len(self.changed)


def document(found: Evaluation, extent: str, drawn: dict[str, str], left_out: list[tuple[str, str]]) -> str:
    """The whole text. `drawn`: files of figures by name; `left_out`: (what the extent has not, command for it)."""
    curves, extras = found.curves.collected, found.extras.collected.points
    sections = [
        _TEXTS["head"],
        _claims(found),
        _table_3(curves),
        _differences(curves),
        _hold_outs(found.hold_outs.collected),
        _set_to(),
        _settings(found.settings.collected),
        _sensitivity(found.changed),
        _text("table_2", table=markdown(tables.table_2())),
        _curves(curves.points, drawn),
        _loss(extras),
        _completion(extras),
        _table_1(found.table_1.collected, drawn),
        _deadlock(found.figure_2.collected),
        _parameters(),
        _missing(found, extent, left_out),
    ]
    return "\n".join(section for section in sections if section)


def _claims(found: Evaluation) -> str:
    made = claims(
        found.curves.collected.points, found.changed, found.table_1.collected.points, found.figure_2.collected.points
    )
    return _text("claims", table=markdown(table(Claim, made))) if made else ""


def _table_3(curves: NonshortestFindings) -> str:
    parts = [_TEXTS["table_3"]]
    for rival, what in ((BENCHMARK, "with DCQCN, as in the paper"), (BENCHMARK_DCTCP, "with DCTCP in its place")):
        mine = [gain for gain in curves.gains if gain.load and gain.rival == rival.name]
        if mine:
            gains = markdown(tables.table_3(mine, rival.name))
            parts.append(f"Against Benchmark {what}:\n\n{gains}\n\n{_count(mine)}")
    return "\n".join(parts)


def _count(gains: Sequence[Gain]) -> str:
    """Who is ahead how often, by more than the standard deviation over draws."""
    ahead = sum(gain.gain > (gain.spread or 0.0) for gain in gains)
    behind = sum(-gain.gain > (gain.spread or 0.0) for gain in gains)
    steady = sum(gain.steady for gain in gains)
    neither = len(gains) - ahead - behind
    return _text("count", ahead=ahead, cells=len(gains), behind=behind, neither=neither, steady=steady)


def _differences(curves: NonshortestFindings) -> str:
    differences = tables.differences(curves.gains, curves.points)
    return _text("reasons", table=markdown(differences)) if differences.rows else ""


def _hold_outs(found: NonshortestFindings) -> str:
    if not found.gains:
        return ""
    counts = [
        f"Against {rival}: {_count([gain for gain in found.gains if gain.rival == rival])}"
        for rival in dict.fromkeys(gain.rival for gain in found.gains)
    ]
    cells = markdown(tables.hold_outs(found.gains, found.points))
    return _text("hold_outs", table=cells, counts="\n".join(counts))


def _set_to() -> str:
    known = settings.stored().topologies
    choices = markdown(tables.choices(list(known.values())))
    return _text("set_to", seed=settings.TUNING_SEED, table=choices) if known else ""


def _settings(found: SettingFindings) -> str:
    parts = [f"{each.title}:\n\n{markdown(each)}\n" for each in tables.settings(found)]
    return _text("settings", tables="\n".join(parts)) if found.settings else ""


def _sensitivity(runs: Sequence[NonshortestRun]) -> str:
    return _text("sensitivity", table=markdown(tables.sensitivity(runs))) if runs else ""


def _rates(points: Sequence[NonshortestRun]) -> Table[list[tables.SchemeRuns]]:
    """A row for each pattern and number of pairs, a column for each scheme."""
    rows: dict[tuple[str, int], list[tables.SchemeRuns]] = {}
    for runs in tables.by_scheme(points):
        rows.setdefault((runs.one.pattern, runs.one.pairs), []).append(runs)
    schemes = dict.fromkeys(runs.one.scheme for row in rows.values() for runs in row)
    columns = [
        left("pattern", lambda row: row[0].one.pattern.upper()),
        right("pairs", lambda row: f"{row[0].one.pairs:,}"),
        right("ceiling", lambda row: f"{row[0].mean(lambda run: run.ceiling_gbps):.0f}"),
        *(right(scheme, lambda row, scheme=scheme: _rate(row, scheme)) for scheme in schemes),
    ]
    return Table(columns, list(rows.values()))


def _rate(row: Sequence[tables.SchemeRuns], scheme: str) -> str | None:
    for runs in row:
        if runs.one.scheme == scheme:
            rate = f"{runs.mean(lambda run: run.wire_gbps):.0f}"
            return rate if runs.steady == "yes" else f"{rate} *"
    return None


def _curves(points: Sequence[NonshortestRun], drawn: dict[str, str]) -> str:
    parts = ["## Figs. 5 to 7: throughput over connections\n", _TEXTS["rates"]]
    for number, topology in ((5, "D1"), (6, "D2"), (7, "D3")):
        mine = [run for run in points if run.topology == topology]
        if not mine:
            continue
        parts.append(f"### Fig. {number}: {topology}\n")
        if topology in drawn:
            parts.append(f"![throughput of the four schemes on {topology}]({drawn[topology]})\n")
        stated = [f"- {mark.pattern.upper()}: {mark.text}" for mark in paper.LANDMARKS if mark.topology == topology]
        parts.append("The paper's text:\n\n" + "\n".join(stated) + "\n")
        parts.append(markdown(_rates(mine)) + "\n")
    if "time" in drawn:
        parts.append(f"### Over time\n\n![wire rate over time]({drawn['time']})\n")
    return "\n".join(parts)


def _loss(extras: Sequence[NonshortestRun]) -> str:
    runs = [run for run in extras if not isinstance(run, CompletionNonshortestRun)]
    if not runs:
        return ""
    topology, pattern, pairs = runs[0].traffic
    losses = markdown(tables.loss(runs))
    return _text("loss", topology=topology, pattern=pattern.upper(), pairs=pairs, table=losses)


def _completion(extras: Sequence[NonshortestRun]) -> str:
    found = "\n".join(f"{each.title}; us.\n\n{markdown(each)}\n" for each in tables.completion(extras))
    return f"## Completion times\n\n{found}" if found else ""


def _table_1(found: PfcGainFindings, drawn: dict[str, str]) -> str:
    picture = f"\n![Table I as curves]({drawn['table1']})\n" if "table1" in drawn else ""
    return _text("table_1", topology=found.topology, table=markdown(pfc_gain.tables(found)[0]), picture=picture)


def _deadlock(found: Figure2Findings) -> str:
    stuck = "\n".join(f"- {line}" for line in deadlock.stuck(found))
    listed = f"\n\nQueues that can never move again:\n\n{stuck}" if stuck else ""
    return _text("deadlock", topology=found.topology, table=markdown(deadlock.tables(found)[0]), stuck=listed)


def _parameters() -> str:
    links, memory = LinkSettings(), SwitchMemory()
    rows = [
        ("link", f"{links.rate_bps / 1e9:g} Gb/s, {links.host_delay_ps / 1e6:g} us"),
        ("packet", f"{PAYLOAD} bytes of payload in {PACKET_BYTES} bytes"),
        (
            "packet memory",
            f"{memory.port_bytes:,} bytes a port, shared by the switch; lossy queues: alpha {memory.alpha:g}",
        ),
        *((s.name, _describe(s)) for s in (*SCHEMES.values(), BENCHMARK_DCTCP, LERP_WITHOUT_PFC, ROCE_WITH_PFC)),
    ]
    columns = left("what", lambda row: row[0]), left("value", lambda row: row[1])
    return f"## Parameters\n\n{markdown(Table(columns, rows))}\n"


def _describe(chosen: Scheme) -> str:
    parts = [chosen.transport.upper(), chosen.control.upper(), f"paths: {chosen.paths}", f"routing: {chosen.routing}"]
    parts.append(f"ECN {_ecn(chosen.ecn)}")
    parts.append(f"PFC, {chosen.channels} virtual channels" if chosen.pfc else "no PFC")
    if chosen.reorder:
        parts.append("reordering receiver")
    return ", ".join([*parts, *(f"{name} = {value}" for name, value in chosen.hosts)])


def _ecn(ecn: Ecn) -> str:
    """A marking rule of the schemes here: all mark, and thresholds are bytes."""
    assert not isinstance(ecn, NoMarking)
    if isinstance(ecn, RedMarking):
        return f"{ecn.kmin.value / 1e3:g} to {ecn.kmax.value / 1e3:g} kB, {ecn.pmax:g}"
    return f"above {ecn.k.value / 1e3:g} kB"


def _missing(found: Evaluation, extent: str, left_out: list[tuple[str, str]]) -> str:
    lines = [f"- {what}: `{command}`" for what, command in left_out]
    beyond = sum(len(part.left_out) for part in found)
    if beyond:
        lines.append(f"- {beyond} points of this extent for which there was no time: `make results`")
    failures = [f"- failed: {describe(one.point)}: {one.reason}" for part in found for one in part.failures]
    text = "Everything was run." if not lines else "Left out, with the command that runs it:\n\n" + "\n".join(lines)
    return f"## What was left out (extent: {extent})\n\n{text}\n" + ("\n" + "\n".join(failures) if failures else "")
