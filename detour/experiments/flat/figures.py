# SPDX-License-Identifier: Apache-2.0
"""The three figures of the comparison of flat fabrics: ways to choose paths on RNG, networks, failures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from detour.experiments import drawing
from detour.experiments.columns import grouped
from detour.experiments.flat.cells import FlatFindings
from detour.experiments.flat.points import NO_FAILURES
from detour.experiments.flat.rows import FlatCell
from detour.experiments.flat.selection import EQUALITIES, MATRICES, RNG

_COLOURS = (
    drawing.GRAY, drawing.ORANGE, drawing.VERMILION, drawing.YELLOW, drawing.BLUE, drawing.SKY, drawing.GREEN,
    drawing.PURPLE,
)  # fmt: skip


def draw_all(findings: FlatFindings, folder: Path) -> None:
    """Write flat-paths.svg, flat-networks.svg and flat-failures.svg into a folder, each if there are cells for it.
    Raises `DetourError`: a file cannot be written."""
    cells = [cell for cell in findings.cells if cell.equality == EQUALITIES.get(cell.topology, ("",))[0]]
    intact = [cell for cell in cells if cell.failures == NO_FAILURES]
    paths(intact, folder / "flat-paths.svg")
    networks(intact, folder / "flat-networks.svg")
    failures([cell for cell in cells if cell.topology == RNG], folder / "flat-failures.svg")


def _chart(groups: dict[str, list[FlatCell]], matrices: Sequence[str], title: str, file: Path) -> None:
    """Bars of what was measured, a group for a matrix; marks at LP."""
    plt, figure, (axis,) = drawing.row(1, 9.5)
    width = 0.8 / max(len(groups), 1)
    for index, (label, cells) in enumerate(groups.items()):
        some = [cell for cell in cells if cell.matrix in matrices]
        at = np.array([matrices.index(cell.matrix) for cell in some]) + (index - (len(groups) - 1) / 2) * width
        measured, spread = [cell.measured for cell in some], [cell.measured_spread or 0 for cell in some]
        looks = {"color": _COLOURS[index % len(_COLOURS)], "label": label, "error_kw": {"linewidth": 0.8}}
        axis.bar(at, measured, width, yerr=spread, **looks)
        axis.hlines([cell.lp for cell in some], at - width / 2, at + width / 2, color="black", linewidth=1.2)
    axis.hlines([], 0, 0, color="black", linewidth=1.2, label="LP")
    axis.set_xticks(range(len(matrices)), matrices, rotation=20, ha="right")
    axis.set(title=title, ylabel="share of the hosts' rate")
    drawing.legend(figure, [axis], 4)
    drawing.save(plt, figure, file)


def _matrices(cells: Sequence[FlatCell]) -> list[str]:
    found = {cell.matrix for cell in cells}
    return [matrix for matrix in MATRICES if matrix in found]


def paths(cells: Sequence[FlatCell], file: Path) -> None:
    """Ways to choose paths on RNG."""
    mine = [cell for cell in cells if cell.topology == RNG]
    if mine:
        groups = grouped(mine, lambda cell: f"{cell.routing}/{cell.scheme}")
        _chart(groups, _matrices(mine), "RNG, 133 switches, 1,064 hosts: measured, and LP", file)


def networks(cells: Sequence[FlatCell], file: Path) -> None:
    """The best way of each network, by the mean over the matrices that all have."""
    mine = [cell for cell in cells if EQUALITIES.get(cell.topology, ("",))[0] not in ("scale", "")]
    by_network = grouped(mine, lambda cell: cell.topology)
    if len(by_network) < 2:
        return
    shared = set.intersection(*({cell.matrix for cell in some} for some in by_network.values()))
    groups = {}
    for topology, some in by_network.items():
        ways = grouped([cell for cell in some if cell.matrix in shared], lambda cell: (cell.routing, cell.scheme))
        full = [each for each in ways.values() if len(each) == len(shared)]
        groups[topology] = max(full, key=lambda each: float(np.mean([cell.measured for cell in each])))
    _chart(groups, [matrix for matrix in MATRICES if matrix in shared], "Networks, each at its best", file)


def failures(cells: Sequence[FlatCell], file: Path) -> None:
    """Draw what arrives under failures, before and after replanning."""
    mine = [cell for cell in cells if cell.matrix == "random-matching"]
    kinds = [NO_FAILURES, *sorted({cell.failures.partition(",")[0] for cell in mine} - {NO_FAILURES})]
    ways = grouped(mine, lambda cell: f"{cell.routing}/{cell.scheme}")
    ways = {way: some for way, some in ways.items() if len(some) > 1}
    if not ways:
        return
    plt, figure, (axis,) = drawing.row(1, 7)
    for index, (way, some) in enumerate(ways.items()):
        found = {cell.failures: cell.measured for cell in some}
        colour = _COLOURS[(4, 2)[index % 2]]
        for known, marker, line in (("", "o", "--"), (",replanned", "s", "-")):
            names = [kind if kind == NO_FAILURES else kind + known for kind in kinds]
            at = [place for place, name in enumerate(names) if name in found]
            label = f"{way}{known.replace(',', ' ')}"
            drawing.curve(axis, at, [found[names[place]] for place in at], (colour, marker, line), label)
    axis.set_xticks(range(len(kinds)), kinds)
    axis.set(title="RNG, random matching", ylabel="share of the hosts' rate")
    axis.set_ylim(bottom=0)
    drawing.legend(figure, [axis], 2)
    drawing.save(plt, figure, file)
