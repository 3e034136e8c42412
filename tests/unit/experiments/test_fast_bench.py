# SPDX-License-Identifier: Apache-2.0
"""`detour bench fast` on small jobs."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from detour.cli import main
from detour.experiments.bench import fast

KEYS = "job topology scheme step_error largest_error packets skipped seconds seconds_full"
SMALL = "leaf-spine:leaves=2,spines=2,hosts=2"


def test_errors_and_what_was_skipped() -> None:
    report = fast.run(jobs=[("ring:bytes=6e7", SMALL, "placed"), ("all-to-all:bytes=1e8", SMALL, "ecmp")])
    numbers: Any = report.numbers
    assert [list(one) for one in numbers["jobs"]] == [KEYS.split()] * 2
    for one in numbers["jobs"]:
        assert 0 < one["skipped"] < one["packets"]
        assert 0 < one["step_error"] < 0.02
        assert 0 < one["largest_error"] < 0.02
        assert min(one["seconds"], one["seconds_full"]) > 0
    assert [goal.value for goal in report.goals] == [
        max(one[name] for one in numbers["jobs"]) for name in ("step_error", "largest_error")
    ]


def test_without_full_runs_no_error_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fast, "run", partial(fast.run, jobs=[("ring:bytes=3e7", SMALL, "ecmp")]))
    assert main(["bench", "fast", "--no-full", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["jobs"]
    assert [one[name] for name in ("step_error", "largest_error", "seconds_full")] == [None] * 3
    assert [goal.met for goal in fast.run(no_full=True).goals] == [None, None]
