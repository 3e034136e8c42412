# SPDX-License-Identifier: Apache-2.0
"""Flow files and size distributions: what their generators write, and one line for what they do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.fabric.workloads.flow_files import read_flow_file
from detour.fabric.workloads.flow_table import check_flows, flow_table
from detour.fabric.workloads.sizes import SYNTHETIC, poisson_starts, read_sizes

CONWEAVE = "3\n0 1 3 1000000 2.000000000\n1 2 3 64 2.000010000\n3 0 3 5000 2.000000500\n"
HPCC = "3\n0 1 3 100 1000000 2.000000000\n1 2 3 100 64 2.000010000\n3 0 3 100 5000 2.000000500\n"
WEB = "0 0\n10000 15\n20000 20\n30000 30\n50000 40\n80000 53\n200000 60\n"
WEB += "1e+06 70\n2e+06 80\n5e+06 90\n10e6 97\n30e6 100\n"


def written(folder: Path, text: str) -> Path:
    file = folder / "input.txt"
    file.write_text(text)
    return file


@pytest.mark.parametrize("text", [CONWEAVE, HPCC, CONWEAVE + "\n\n"])
def test_both_forms_of_flow_files_say_the_same(tmp_path: Path, text: str) -> None:
    flows = read_flow_file(written(tmp_path, text), 4)
    assert [tuple(row) for row in flows.tolist()] == [
        (0, 1, 1_000_000, 0),
        (3, 0, 5000, 500_000),
        (1, 2, 64, 10_000_000),
    ]


WRONG_FLOWS = {
    "": "it is empty",
    "x\n": "line 1: 'x' is not the number of flows",
    "0\n": "line 1: 0 flows; expected 1 to",
    "2\n0 1 3 10 2.0\n": "line 1: it declares 2 flows and 1 follow",
    "1\n0 1 3 10 2.0\n1 0 3 10 2.0\n": "line 1: it declares 1 flows and 2 follow",
    "1\n0 1 10 2.0\n": "line 2: 4 columns; expected 5",
    "2\n0 1 3 10 2.0\n0 1 3 100 10 2.0\n": "line 3: 6 columns; the first flow has 5",
    "1\n0 4 3 10 2.0\n": "line 2: there is no destination host 4; the topology has 0 to 3",
    "1\n9 1 3 10 2.0\n": "line 2: there is no source host 9",
    "1\n-1 1 3 10 2.0\n": "line 2: source is '-1'",
    "1\n2 2 3 10 2.0\n": "line 2: host 2 would send to itself",
    "1\n0 1 8 10 2.0\n": "line 2: priority is '8'; it must be a whole number from 0 to 7",
    "1\n0 1 3 0 2.0\n": "line 2: bytes is '0'; it must be a whole number from 1",
    "1\n0 1 3 1.5 2.0\n": "line 2: bytes is '1.5'",
    "1\n0 1 3 10 soon\n": "line 2: start is 'soon'",
    "1\n0 1 3 10 nan\n": "line 2: start is 'nan'",
    "1\n0 1 3 10 -1\n": "line 2: start is '-1'",
    "\n\n1\n0 1 3 70000 10 2.0\n": "line 4: destination port is '70000'",
}


@pytest.mark.parametrize("text", WRONG_FLOWS)
def test_a_malformed_flow_file_is_refused_by_line(tmp_path: Path, text: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(DetourError) as error:
        read_flow_file(file, 4)
    assert WRONG_FLOWS[text] in str(error.value)
    assert str(error.value).startswith(str(file))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("rows", [[], [(0, 0, 1, 0)], [(0, 4, 1, 0)], [(-1, 1, 1, 0)], [(0, 1, 0, 0)], [(0, 1, 1, -1)]])
def test_flows_that_no_fabric_can_carry_are_refused(rows: list[tuple[int, int, int, int]]) -> None:
    with pytest.raises(DetourError, match="mine"):
        check_flows(flow_table(rows), 4, "mine")


def test_a_published_distribution_has_its_mean(tmp_path: Path) -> None:
    sizes = read_sizes(written(tmp_path, WEB))
    assert sizes.mean == pytest.approx(1_711_250)  # what HPCC's getAvg says of its WebSearch file
    drawn = sizes.draw(200_000, np.random.default_rng(1))
    assert drawn.mean() == pytest.approx(sizes.mean, rel=0.02)
    assert (drawn <= 10_000).mean() == pytest.approx(0.15, abs=0.005)
    assert drawn.min() >= 1


@pytest.mark.parametrize("name", SYNTHETIC)
def test_synthetic_sizes_have_the_mean_that_is_asked_for(name: str) -> None:
    sizes = SYNTHETIC[name](50_000.0)
    assert sizes.mean == pytest.approx(50_000)
    assert sizes.draw(400_000, np.random.default_rng(2)).mean() == pytest.approx(50_000, rel=0.05)


WRONG_SIZES = {
    "0 0\n10 50\n": "line 2: the last percentage is 50; it must be 100",
    "0 0\n10 0.5\n20 1\n": "it seems to count from 0 to 1",
    "0 0\n": "1 points of a distribution",
    "0 0\n10 20 30\n20 100\n": "line 2: 3 columns",
    "0 0\nten 20\n20 100\n": "line 2: 'ten 20' is not two numbers",
    "0 0\n10 50\n5 100\n": "line 3: sizes and percentages must increase",
    "0 0\n10 50\n20 40\n30 100\n": "line 3: sizes and percentages must increase",
    "0 0\n10 150\n": "line 2: 150 percent",
    "0 0\nnan 100\n": "line 2: 'nan 100' is not two numbers",
    "0 0\n-4 100\n": "line 2: -4 bytes",
}


@pytest.mark.parametrize("text", WRONG_SIZES)
def test_a_malformed_distribution_is_refused_by_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(DetourError) as error:
        read_sizes(written(tmp_path, text))
    assert WRONG_SIZES[text] in str(error.value)


@given(rate=st.floats(1e3, 1e7), duration=st.floats(1e-5, 1e-2), seed=st.integers(0, 1000))
def test_arrivals_rise_and_end_in_time(rate: float, duration: float, seed: int) -> None:
    starts = poisson_starts(rate, duration, np.random.default_rng(seed), 200_000)
    assert (np.diff(starts) >= 0).all()
    assert not len(starts) or 0 <= starts[0] <= starts[-1] < duration
    expected = rate * duration
    assert abs(len(starts) - expected) <= 6 * expected**0.5 + 6


def test_arrivals_beyond_what_is_possible_are_refused() -> None:
    with pytest.raises(DetourError, match="1e\\+06 flows are expected; at most 1000"):
        poisson_starts(1e6, 1.0, np.random.default_rng(1), 1000)
