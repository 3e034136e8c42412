# SPDX-License-Identifier: Apache-2.0
"""`reproduce nonshortest` and `reproduce all`, as a person or a script calls them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from detour import cli
from detour.cli.output import PRINTED_TO
from detour.experiments import results
from detour.experiments.nonshortest.experiment import NonshortestPoint
from detour.experiments.store import Store, source_version
from tests.unit.experiments.test_nonshortest import run


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where commands keep points, so that another one need not run them again."""
    return tmp_path_factory.mktemp("kept")


def answer(run_json: Callable[..., Any], out: Path, *arguments: str) -> dict[str, Any]:
    """The JSON of a command that succeeds."""
    keep = ("--out", str(out / "points"), "--processes", "1")
    return run_json("reproduce", "nonshortest", "--quick", *keep, *arguments)


def test_every_point_says_how_it_was_measured(tmp_path: Path, run_json: Callable[..., Any]) -> None:
    changes = ("--set", "own_share=no", "--set", "delta3=50")
    result = answer(run_json, tmp_path, "--pairs", "2", "--scheme", "TelemetryLERP", "--seeds", "2", *changes)
    assert len(result["points"]) == 2
    assert result["points"][0]["hosts"] == {"own_share": False, "delta3": 50}
    for point in result["points"]:
        assert isinstance(point["steady"], bool)
        assert point["converged"] is point["steady"]
        assert (point["virtual_ms"], point["draws"]) == (4.0, 2)
        assert point["spread"] >= 0
        assert len(point["series"]["wire_gbps"]) == 300
    assert result["gains"] == []


SETTINGS = ("--settings", "--scheme", "ShortestPath", "--pairs", "2", "--pattern", "adv1")


def test_settings_say_what_the_paper_says_and_what_additions_are_worth(
    kept: Path, run_json: Callable[..., Any]
) -> None:
    result = answer(run_json, kept, *SETTINGS)
    assert result["schemes"].keys() == {"ShortestPath"}
    rows = {row["name"]: row for row in result["settings"]}
    assert rows["timeouts"].keys() == {"scheme", "name", "paper", "ours", "chosen_on", "worth"}
    (worth,) = rows["timeouts"]["worth"]
    assert (worth["pattern"], worth["pairs"], worth["draws"]) == ("adv1", 2, 1)
    assert {point.get("without") for point in result["points"]} == {None, *rows}


def test_settings_are_printed_in_words(kept: Path) -> None:
    arguments = (*SETTINGS, "--out", str(kept / "points"))
    printed = io.StringIO()
    with PRINTED_TO.set_to(Console(file=printed, width=80)):
        assert cli.main(["reproduce", "nonshortest", "--quick", "--processes", "1", *arguments]) == 0
    text = printed.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    for words in ("the paper says", "ShortestPath: what was added", "ShortestPath: what it is worth", "D1 ADV1 2"):
        assert words in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tune", "x.json", "--topology", "dragonfly:p=2,a=8,h=4"), "--tune works on D1, D2, D3"),
        (("--scheme", "Benchmark", "--without", "own_share"), "Benchmark has no addition 'own_share'"),
        (("--settings", "--without", "own_share"), "--without"),
        (("--pattern", "adv3"), "allowed: unf, adv1, adv2, permutation, advc, bit-reverse, two-jobs"),
        (("--threshold", "some"), "neither `best` nor a number"),
    ],
)
def test_refusals(arguments: tuple[str, ...], message: str, refused: Callable[..., str]) -> None:
    assert message in refused("reproduce", "nonshortest", *arguments)


def test_the_document_comes_from_kept_runs_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store: Store[Any] = Store(tmp_path / "points", "v")
    points = results.points_of(results.selections("quick"))

    def is_kept(point: NonshortestPoint) -> bool:
        return (point.scheme, point.pairs) in (("TelemetryLERP", 64), ("Benchmark", 64))

    for point in filter(is_kept, points):
        store.add(point, run(point.scheme, 790.0 if point.scheme == "TelemetryLERP" else 700.0), 0.0)
    kept = tmp_path / "runs.jsonl.xz"
    assert store.archive(kept, points) == 2
    folder = tmp_path / "docs"
    arguments = ("--quick", "--json", "--from", str(kept), "--folder", str(folder))
    assert cli.main(["reproduce", "all", *arguments]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["points"] == 2
    assert len(result["left_out"]) > len(points) - 2
    alone = ("--pattern", "adv1", "--pairs", "64", "--quick", "--from", str(kept), "--json")
    assert cli.main(["reproduce", "nonshortest", *alone]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {run["wire_gbps"] for run in shown["points"]} == {790.0, 700.0}
    text = (folder / "results.md").read_text()
    assert "| ADV1 | heavy | +12.9 (64) | +3 |" in text
    assert "points of this extent for which there was no time" in (folder / "results-settings.md").read_text()
    assert (folder / "figures" / "fig5-d1.svg").exists()
    point = next(point for point in points if is_kept(point) and point.scheme == "Benchmark")
    Store[Any](tmp_path / "later", source_version()).add(point, run(point.scheme, 790.0), 0.0)
    arguments = (*arguments, "--keep", str(kept), "--out", str(tmp_path / "later"))
    assert cli.main(["reproduce", "all", *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["points"] == 2
    assert "| ADV1 | heavy | +0.0 (64) | +3 |" in (folder / "results.md").read_text()


def test_an_archive_that_is_none(tmp_path: Path, refused: Callable[..., str]) -> None:
    assert "No such file" in refused("reproduce", "all", "--from", str(tmp_path / "none"), "--folder", str(tmp_path))


DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_the_document_is_made_of_the_runs_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reproduce", "all", "--from", str(DOCS / "runs.jsonl.xz"), "--folder", str(tmp_path)]) == 0
    for name in ("results.md", "results-settings.md"):
        assert (tmp_path / name).read_text() == (DOCS / name).read_text(), capsys.readouterr().out
    drawn = sorted(file.name for file in (tmp_path / "figures").iterdir())
    assert [name for name in drawn if not (DOCS / "figures" / name).exists()] == []
