# SPDX-License-Identifier: Apache-2.0
"""docs/notebooks: their code runs from top to bottom, and what it showed is stored with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(file: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]


def test_there_is_one() -> None:
    assert [file.name for file in NOTEBOOKS] == ["first-hour.ipynb"]


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
def test_the_code_runs(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells(file)):
        lines = [line for line in cell["source"] if not line.startswith("%")]
        exec(compile("".join(lines), f"{file.name}, cell {number}", "exec"), names)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
def test_plots_are_stored_and_no_errors(file: Path) -> None:
    outputs = [output for cell in cells(file) for output in cell["outputs"]]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 3
    assert not [output for output in outputs if output["output_type"] == "error"]
