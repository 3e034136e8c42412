# SPDX-License-Identifier: Apache-2.0
"""docs/results.md is what the repository's commands make of the runs that are kept beside it."""

from pathlib import Path

import pytest

from detour import cli

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_the_document_is_made_of_the_runs_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reproduce", "all", "--from", str(DOCS / "runs.jsonl.xz"), "--folder", str(tmp_path)]) == 0
    assert (tmp_path / "results.md").read_text() == (DOCS / "results.md").read_text(), capsys.readouterr().out
    drawn = sorted(file.name for file in (tmp_path / "figures").iterdir())
    assert [name for name in drawn if not (DOCS / "figures" / name).exists()] == []
