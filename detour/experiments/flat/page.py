# SPDX-License-Identifier: Apache-2.0
"""docs/flat-fabrics.md: the comparison of flat fabrics in one page, with three figures."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

from detour.base.files import write_file
from detour.base.tables import Table, fixed, left, markdown, right
from detour.experiments.columns import grouped, table
from detour.experiments.flat import figures
from detour.experiments.flat.cases import network_of
from detour.experiments.flat.cells import FlatFindings
from detour.experiments.flat.points import NO_FAILURES, Claim
from detour.experiments.flat.rows import CollectiveCell, FlatCell, FlatGoal
from detour.experiments.flat.selection import EQUALITIES, MATRICES, POLARFLY, RNG, SCALE_MODEL
from detour.experiments.prose import prose
from detour.topo.measures import OPTICS_SHARE

_TEXTS = prose(__file__)


def write(file: Path, findings: FlatFindings, command: str) -> None:
    """Write the page, and its figures beside it. `command`: how to write it again."""
    cells = [cell for cell in findings.cells if cell.equality == EQUALITIES.get(cell.topology, (cell.equality,))[0]]
    text = _TEXTS["page"].format(
        command=command,
        networks=markdown(_networks()),
        draws=min((cell.graphs for cell in cells), default=0),
        goals=markdown(table(FlatGoal, findings.goals)),
        verdict=textwrap.fill(_verdict(findings.goals), 120),
        paths=_by_way(cells, RNG, "RNG"),
        polarfly=_by_way(cells, POLARFLY, "PolarFly"),
        equal=_equal_tables(findings.cells),
        failures=markdown(_failures_table(cells)),
        scale=_by_way(cells, SCALE_MODEL, "512 switches"),
        collectives=markdown(_collectives_table(findings.collectives)),
        claims=markdown(table(Claim, findings.claims)),
        optics=OPTICS_SHARE,
        steady=sum(cell.steady == cell.graphs for cell in cells),
        cells=len(cells),
    )
    write_file(file, text)
    figures.draw_all(findings, file.parent / "figures")


def _networks() -> Table[str]:
    """Table of the networks and what is bought for them."""

    def of(value: Callable[[int, int, int], str]) -> Callable[[str], str]:
        def cell(spec: str) -> str:
            network = network_of(spec, 1)
            return value(network.size, len(network.links), int(network.hosts.sum()))

        return cell

    return Table(
        [
            left("network", lambda spec: f"`{spec}`"),
            right("switches", of(lambda switches, links, hosts: str(switches))),
            right("links", of(lambda switches, links, hosts: str(links))),
            right("hosts", of(lambda switches, links, hosts: str(hosts))),
            right("cost", of(lambda switches, links, hosts: f"{switches + 2 * links * OPTICS_SHARE:.0f}")),
            left("equal", lambda spec: ", ".join(EQUALITIES[spec])),
        ],
        list(EQUALITIES),
    )


def _verdict(goals: Sequence[FlatGoal]) -> str:
    """The goal in words: as good in 9 of 10 cells, a lower p99 in 6 of 10."""
    reached = [
        f"{goal.routing}/{goal.scheme} on {goal.topology.partition(':')[0]}"
        for goal in goals
        if goal.throughput >= 0.9 * goal.cells and goal.p99 >= 0.6 * goal.cells
    ]
    what = "as much as the best of Spraypoint's variants in 9 of 10 cells, and a lower p99 in 6 of 10"
    return f"The goal was {what}. It is reached by {', '.join(reached)}." if reached else f"No sender has {what}."


def _by_way(cells: Sequence[FlatCell], topology: str, name: str) -> str:
    """LP, paths, measured and p99 of a network, a row for a matrix and two columns for a way."""
    mine = [cell for cell in cells if cell.topology == topology and cell.failures == NO_FAILURES]
    ways = list(grouped(mine, _way))
    found = {(cell.matrix, _way(cell)): cell for cell in mine}
    order = {matrix: place for place, matrix in enumerate(MATRICES)}
    matrices = sorted({cell.matrix for cell in mine}, key=lambda matrix: order.get(matrix, len(order)))
    first = {matrix: next(cell for cell in mine if cell.matrix == matrix) for matrix in matrices}
    columns = [left("matrix", lambda matrix: matrix), right("LP", lambda matrix: f"{first[matrix].lp:.3f}")]
    columns += [right(way, lambda matrix, way=way: _three(found.get((matrix, way)))) for way in ways]
    notes = f"{name}: paths, measured, p99; - where paths depend on load."
    return f"{notes}\n\n{markdown(Table(columns, matrices))}"


def _way(cell: FlatCell) -> str:
    return f"{cell.routing}/{cell.scheme}"


def _three(cell: FlatCell | None) -> str | None:
    if cell is None:
        return None
    return f"{fixed(cell.routing_lp, 3) or '-'}, {cell.measured:.3f}, {cell.p99_slowdown:.1f}"


_EQUAL = {
    "switches": "Equal switches and ports",
    "ratio": "Equal worst-case ratio",
    "cost": "Equal cost of switches and optics",
    "hosts": "Equal hosts",
}


def _equal_tables(cells: Sequence[FlatCell]) -> str:
    """A table an equality: a row for a network and a way; measured by matrix."""
    intact = [cell for cell in cells if cell.failures == NO_FAILURES and _is_compared(cell.topology, _way(cell))]
    shown = {cell.matrix for cell in intact if cell.topology not in (RNG, POLARFLY, SCALE_MODEL)}
    texts = []
    for equality, title in _EQUAL.items():
        some = grouped([c for c in intact if c.equality == equality], lambda cell: (cell.topology, _way(cell)))
        columns = [left("network", lambda key: f"`{key[0]}`"), left("paths", lambda key: key[1])]
        for matrix in (matrix for matrix in MATRICES if matrix in shown):
            columns.append(right(matrix, lambda key, matrix=matrix, some=some: _measured(some[key], matrix)))
        texts.append(f"{title}:\n\n{markdown(Table(columns, list(some)))}")
    return "\n\n".join(texts)


def _is_compared(topology: str, way: str) -> bool:
    return topology not in (RNG, POLARFLY) or way in ("spraypoint/REPS", "ksp/SprayLERP", "edge-disjoint/PathSet")


def _measured(cells: Sequence[FlatCell], matrix: str) -> str | None:
    found = next((cell for cell in cells if cell.matrix == matrix), None)
    return None if found is None else f"{found.measured:.3f}"


def _failures_table(cells: Sequence[FlatCell]) -> Table[str]:
    mine = [cell for cell in cells if cell.topology == RNG and cell.matrix == "random-matching"]
    found = {(cell.failures, _way(cell)): cell for cell in mine}
    ways = [way for way in grouped(mine, _way) if sum(key[1] == way for key in found) > 1]
    columns = [left("failures", lambda failures: failures)]
    for way in ways:
        columns.append(right(f"{way}", lambda failures, way=way: _three(found.get((failures, way)))))
    return Table(columns, [NO_FAILURES, *sorted({cell.failures for cell in mine} - {NO_FAILURES})])


def _collectives_table(cells: Sequence[CollectiveCell]) -> Table[tuple[str, str, int]]:
    """Times over the ideal: a row for a network, collective and ranks, a column for placing and way."""
    found = {(c.topology, c.collective, c.ranks, f"{c.placed}, {c.routing}/{c.scheme}"): c for c in cells}
    networks = list(dict.fromkeys(key[0] for key in found))
    rows = sorted({key[:3] for key in found}, key=lambda row: (networks.index(row[0]), *row[1:]))
    columns = [
        left("network", lambda row: f"`{row[0]}`"),
        left("collective", lambda row: row[1]),
        right("ranks", lambda row: str(row[2])),
    ]
    for way in dict.fromkeys(key[3] for key in found):
        columns.append(right(way, lambda row, way=way: fixed(_slowdown(found.get((*row, way))), 2)))
    return Table(columns, rows)


def _slowdown(cell: CollectiveCell | None) -> float | None:
    return None if cell is None else cell.slowdown
