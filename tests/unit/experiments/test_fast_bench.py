# SPDX-License-Identifier: Apache-2.0
"""`detour bench fast` on small jobs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.cli import main
from detour.experiments.bench import fast
from detour.experiments.bench.fast import Case

KEYS = (
    "job topology scheme tuned step_error largest_error packets skipped seconds seconds_full again_step again_largest"
)
SMALL = "leaf-spine:leaves=2,spines=2,hosts=2"


def test_errors_and_what_was_skipped() -> None:
    report = fast.run(cases=[Case("ring:bytes=6e7", SMALL, "placed"), Case("all-to-all:bytes=1e8", SMALL)])
    numbers: Any = report.numbers
    assert [list(one) for one in numbers["jobs"]] == [KEYS.split()] * 2
    for one in numbers["jobs"]:
        assert 0 < one["skipped"] < one["packets"]
        assert 0 < one["step_error"] < 0.02
        assert 0 < one["largest_error"] < 0.02
        assert min(one["seconds"], one["seconds_full"]) > 0
    assert [goal.value for goal in report.goals[:2]] == [
        max(one[name] for one in numbers["jobs"]) for name in ("step_error", "largest_error")
    ]


def test_goals_are_judged_where_nothing_was_tuned(tmp_path: Path) -> None:
    """What happens to a link is part of a job's name; a link that comes back after 2 ms delays the ring by as much in
    both runs."""
    cases = [
        Case("ring:bytes=6e7", SMALL, tuned=True),
        Case("ring:bytes=1.2e8", SMALL, event=("3ms", "flap:s0-s2:2ms")),
    ]
    report = fast.run(cases=cases, plot=tmp_path / "errors.svg")
    numbers: Any = report.numbers
    assert "hold-out" in (tmp_path / "errors.svg").read_text()
    assert [one["job"] for one in numbers["jobs"]] == ["ring:bytes=6e7", "ring:bytes=1.2e8, flap:s0-s2:2ms at 3ms"]
    assert [one["tuned"] for one in numbers["jobs"]] == [True, False]
    assert [goal.value for goal in report.goals[:2]] == [
        numbers["jobs"][1][name] for name in ("step_error", "largest_error")
    ]


def test_without_full_runs_no_error_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fast, "run", partial(fast.run, cases=[Case("ring:bytes=3e7", SMALL)]))
    assert main(["bench", "fast", "--no-full", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["jobs"]
    assert [one[name] for name in ("step_error", "largest_error", "seconds_full")] == [None] * 3
    assert [goal.met for goal in fast.run(no_full=True).goals] == [None] * 4


def test_chaotic_jobs_are_run_in_full_again() -> None:
    """A jitter that is 2 ns shorter tells by how much full runs differ. Gains are of messages of 100 MB and more."""
    cases = [
        Case("all-to-all:bytes=2e7", SMALL, again=True),
        Case("ring:bytes=4e8", SMALL),
        Case("ring:bytes=4e8", SMALL, "SprayLERP"),
        Case("all-to-all:bytes=2e7", SMALL, "RoCEv2+PFC"),
    ]
    report = fast.run(cases=cases)
    numbers: Any = report.numbers
    assert [one["scheme"] for one in numbers["jobs"]] == ["ecmp", "ecmp", "SprayLERP", "RoCEv2+PFC"]
    assert 0 < numbers["jobs"][0]["again_step"] < 0.02
    assert [one["again_step"] for one in numbers["jobs"][1:]] == [None] * 3
    single, spraying = (goal.value for goal in report.goals[2:])
    assert single is not None
    assert spraying is not None
    assert min(single, spraying) > 3
    assert numbers["jobs"][1]["seconds_full"] / numbers["jobs"][1]["seconds"] == pytest.approx(single, abs=0.06)


def test_errors_without_full_runs_are_not_drawn() -> None:
    with pytest.raises(DetourError, match="leave out --no-full"):
        fast.run(no_full=True, plot=Path("errors.svg"))


def test_the_document_gives_what_is_stored() -> None:
    docs = Path(__file__).parents[3] / "docs"
    text = (docs / "fast-forward.md").read_text()
    for one in json.loads((docs / "fast.json").read_text())["jobs"]:
        errors = f"{one['step_error']:.2%} | {one['largest_error']:.2%}"
        gain = f"{one['skipped'] / one['packets']:.0%} | {one['seconds_full'] / one['seconds']:.1f}"
        tuned = ", tuned" if one["tuned"] else ""
        assert f"| {one['job']} | `{one['topology']}` | {one['scheme']}{tuned} | {errors} | {gain} |" in text
