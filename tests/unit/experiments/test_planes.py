# SPDX-License-Identifier: Apache-2.0
"""`reproduce planes`: what is run, what is made of it, and that a dying switch costs a set of paths next to nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detour.base.errors import DetourError
from detour.experiments.planes import experiment as planes
from detour.experiments.planes.experiment import StepPoint, StepRun

SMALL = "clos:planes=4,leaves=2,spines=2,hosts=2"


def test_all_schemes_have_the_same_cells() -> None:
    points = planes.select("normal", seeds=2)
    cells = {
        name: {(p.topology, p.pattern, p.event, p.seed, p.plane_bytes) for p in points if p.scheme == name}
        for name in planes.STEP_SCHEMES
    }
    assert len({frozenset(some) for some in cells.values()}) == 1
    with pytest.raises(DetourError, match="there is no scheme 'Nobody'"):
        planes.select(schemes=("Nobody",))


def test_the_ideal_is_what_ports_need() -> None:
    topology = planes.parse_topology(SMALL)
    assert planes.ideal_us(topology, 4_000_000, "none") == pytest.approx(4000 * (1102 + 102) * 8 / 400e3)
    assert planes.ideal_us(topology, 4_000_000, "leaf") == pytest.approx(4000 * (1102 + 102) * 8 / 300e3)


def test_draws_of_a_cell_make_a_row() -> None:
    one = StepRun(
        topology=SMALL, pattern="ring", event="leaf", scheme="REPS", plane_bytes=1, step_us=10.0, ideal_us=8.0,
        of_ideal=1.25, retransmitted=1, retired=2, timeouts=0, drops=0,
    )  # fmt: skip
    (row,) = planes.collect([one, replace(one, seed=2, step_us=12.0, of_ideal=1.5, timeouts=1)]).rows
    assert (row.step_us, row.of_ideal, row.worst_of_ideal, row.timeouts, row.draws) == (11.0, 1.375, 1.5, 1, 2)


@pytest.mark.parametrize("event", planes.STEP_EVENTS)
def test_a_dying_switch_costs_a_set_of_paths_next_to_nothing(event: planes.StepEvent) -> None:
    ran = {
        name: planes.run(StepPoint(topology=SMALL, pattern="ring", event=event, scheme=name, plane_bytes=5_000_000))
        for name in ("PathSet", "MRC-like-32")
    }
    least = {"leaf": 5 / 6, "flap": 3.25 / 4}.get(event, 1.0)  # the ideal has a plane less, from the beginning
    assert least < ran["PathSet"].of_ideal < 1.1 * least, "delays are not in the ideal"
    assert ran["PathSet"].step_us < ran["MRC-like-32"].step_us + 0.1, "beyond the time of a packet"
    assert (ran["PathSet"].retired > 0) is (event != "none")
