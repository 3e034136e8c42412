# SPDX-License-Identifier: Apache-2.0
"""docs/python.md: each of its examples, by itself, and the names that it promises."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

import detour

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
EXAMPLES = re.findall(r"^## (\d+\. .*?)\n.*?^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def only_computing() -> detour.TaskGraph:
    tasks = detour.TaskList(72)
    tasks.compute(0, 5_000)
    return tasks.graph()


def test_there_are_ten() -> None:
    assert [title.split(".")[0] for title, _ in EXAMPLES] == [str(number) for number in range(1, 11)]


@pytest.mark.parametrize(("title", "code"), EXAMPLES, ids=[title for title, _ in EXAMPLES])
def test_examples_run(title: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, title, "exec"), {})


def test_every_name_is_there_and_on_the_page() -> None:
    text = PAGE.read_text()
    for name in detour.__all__:
        assert getattr(detour, name) is not None
        assert name == "__version__" or f"`{name}" in text
    with pytest.raises(AttributeError, match="it has DetourError"):
        detour.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_importing_loads_nothing() -> None:
    code = "import sys, detour; assert not {'numpy', 'numba', 'networkx'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: detour.simulate("d1", "permutation:bytes=1e3", speed=3), "simulate has no speed; allowed: "),
        (lambda: detour.simulate("d1", [(0, 99, 5)]), "99"),
        (lambda: detour.simulate("d1", [(0, 1)]), "row 0 is"),
        (lambda: detour.simulate("d1", only_computing()), "none of its 1 tasks sends a message"),
        (lambda: detour.boot("d1", bandwidth=3), "boot has no bandwidth; allowed: "),
        (lambda: detour.topology("d9"), "d9"),
    ],
)
def test_what_is_wrong_is_said(call: object, says: str) -> None:
    with pytest.raises(detour.DetourError, match=says):
        call()  # type: ignore[operator]


def test_what_a_run_is_saved_as(tmp_path: Path) -> None:
    run = detour.simulate("leaf-spine:leaves=2,spines=1,hosts=1", [(0, 1, 5_000)])
    run.save(tmp_path / "run")
    run.plot(tmp_path / "run.svg")
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {"flows.csv", "result.json", "report.html"}
    assert run.by_size[0]["flows"] == 1
    with pytest.raises(detour.DetourError):
        run.save(tmp_path / "no" / "where")


def test_placing_from_python(tmp_path: Path) -> None:
    jobs = Path(__file__).parents[2] / "docs" / "jobs" / "alltoall.yaml"
    placement = detour.place("leaf-spine:leaves=8,spines=8,hosts=8", jobs, seeds=3)
    assert placement.busiest == placement.bound
    assert (placement.seeds, placement.flows > 0) == (3, True)


# -- docs/notebooks ------------------------------------------------------------------------------------------


FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(file: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]


def test_there_is_one_notebook() -> None:
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


def test_what_is_shown_of_topologies_and_runs_is_short():
    topology = detour.topology("leaf-spine:leaves=2,spines=2,hosts=2")
    assert repr(topology) == "<Topology leaf-spine:leaves=2,spines=2,hosts=2: 4 switches, 4 hosts, 8 links>"
    assert topology._repr_html_().startswith("<p>leaf-spine:leaves=2,spines=2,hosts=2</p><table>")
    assert "<tr><th>host links</th><td>4</td></tr>" in topology._repr_html_()
    run = detour.simulate(topology, "permutation:bytes=2e3", reroute_after="never")
    text = "permutation:bytes=2e3 on leaf-spine:leaves=2,spines=2,hosts=2, SprayLERP: 4 of 4 flows complete in "
    assert repr(run).startswith(f"<Simulation {text}")
    assert len(repr(run)) < 200
    assert text in run._repr_html_()
    assert run._repr_html_().count("<td>slowdown</td>") == 1
    assert repr(run.run.graph) == "<TaskGraph: 4 messages, 0 computations, 4 hosts>"
