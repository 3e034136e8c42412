# SPDX-License-Identifier: Apache-2.0
"""`detour bench transport --gray`: what it prints, and which schemes it runs."""

from __future__ import annotations

import json

import pytest

from detour.cli import main
from detour.experiments.bench import gray
from detour.hosts.verbs import PathChoice


def test_all_schemes_with_a_choice_of_paths_are_run() -> None:
    result = gray.contenders()
    assert {choice for _, choice in result.values()} == set(PathChoice) - {PathChoice.FIXED}
    assert "TelemetryGBN" in result
    assert "UGAL-L" not in result, "switches choose"


def test_only_these_rows_are_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    both = {name: pair for name, pair in gray.contenders().items() if name in ("SprayLERP", "PLB")}
    monkeypatch.setattr(gray, "contenders", lambda: both)
    monkeypatch.setattr(gray, "SIZES", (100_000,))
    monkeypatch.setattr(gray, "GRAY_SEEDS", (1,))
    main(["bench", "transport", "--gray", "--json"])
    numbers = json.loads(capsys.readouterr().out)
    assert set(numbers) == {"gray"}
    assert [(row["scheme"], row["kind"]) for row in numbers["gray"]] == [(s, k) for s in both for k in gray.LOSS_KINDS]
    for row in numbers["gray"]:
        assert set(row) == {"scheme", "kind", "failed", "runs", "worst_gap_rtt"}
        assert (row["failed"], row["runs"]) == (0, 4)
