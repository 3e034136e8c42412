# SPDX-License-Identifier: Apache-2.0
"""Files of a run: flows.csv, flows.parquet where pyarrow is installed, result.json and report.html."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from detour.base.errors import DetourError
from detour.base.extras import require
from detour.base.files import naming, new_file, new_text, write_file
from detour.base.html import html_page
from detour.base.plugins import unpinned
from detour.base.records import as_json
from detour.base.tables import Table
from detour.base.times import US
from detour.experiments.sim.figures import panels_svg
from detour.experiments.sim.results import by_size, flow_times, result_of
from detour.experiments.sim.run import SimRun
from detour.experiments.sim.settings import failure_text
from detour.experiments.sim.tables import sim_tables

_SUFFIXES = (".png", ".svg", ".pdf")


def check_folder(folder: Path | None) -> None:
    """Refuse a folder that cannot be written, before the run. Raises `DetourError`: it is not a folder, or neither
    it nor its parent exists."""
    if folder is None:
        return
    if folder.exists() and not folder.is_dir():
        raise DetourError(f"--out {folder}: that is a file, not a folder")
    place = folder if folder.exists() else folder.absolute().parent
    if not place.is_dir():
        raise DetourError(f"--out {folder}: there is no folder {place}")
    if not os.access(place, os.W_OK | os.X_OK):
        raise DetourError(f"--out {folder}: {place} cannot be written to")
    require("matplotlib", "matplotlib", "plot", "--out")


def check_plot(file: Path | None) -> None:
    """The same for a picture. Raises `DetourError`: its suffix is none of a plot, or its folder does not exist."""
    if file is None:
        return
    if file.suffix not in _SUFFIXES:
        raise DetourError(f"--plot {file}: plots are written as {', '.join(_SUFFIXES)}")
    if not file.absolute().parent.is_dir():
        raise DetourError(f"--plot {file}: there is no folder {file.absolute().parent}")
    require("matplotlib", "matplotlib", "plot", "--plot")


def write(folder: Path, run: SimRun) -> None:
    """Write all files. Raises `DetourError`: one cannot be written."""
    columns = flow_columns(run)
    with naming(folder):
        folder.mkdir(exist_ok=True)
    with new_text(folder / "flows.csv") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        texts = [[_cell(value) for value in column.tolist()] for column in columns.values()]
        writer.writerows(zip(*texts, strict=True))
    if importlib.util.find_spec("pyarrow") is not None:
        import pyarrow  # type: ignore[import-not-found]
        import pyarrow.parquet  # type: ignore[import-not-found]

        with new_file(folder / "flows.parquet") as out:
            pyarrow.parquet.write_table(pyarrow.table(columns), out)
    write_file(folder / "result.json", json.dumps(document(run), indent=1) + "\n")
    write_file(folder / "report.html", page(run, document(run)))


def flow_columns(run: SimRun) -> dict[str, np.ndarray]:
    """Columns of flows.csv, (messages,) each; what did not happen is not a number. Where messages share connections,
    what connections count is left out; hosts' names are there if a file has them."""
    complete, times, slowdowns = flow_times(run)
    message, graph = np.flatnonzero(run.graph.is_message), run.graph
    of_tasks = np.full((2, len(graph)), np.nan)
    of_tasks[:, complete] = times, slowdowns
    sent_ps = run.tasks.sent_ps[message]
    shown = {
        "source": graph.tasks["source"][message],
        "target": graph.tasks["destination"][message],
        "bytes": graph.tasks["bytes"][message],
        "start_us": np.where(sent_ps >= 0, sent_ps / US, np.nan),
        "fct_us": of_tasks[0, message],
        "ideal_us": run.ideal.task_ps[message] / US,
        "slowdown": of_tasks[1, message],
    }
    if run.topology.names:
        names = np.array([host.name for host in run.topology.hosts])
        shown |= {f"{end}_name": names[shown[end]] for end in ("source", "target")}
    if not run.workload.flows:
        names = np.array([*graph.steps, ""])
        return {"step": names[graph.tasks["step"][message]], **shown}
    lane, counts = run.tasks.lane[message], run.counts
    for name in ("delivered", "packets", "retransmitted", "duplicates", "marked", "held_peak"):
        shown[name] = np.where(lane >= 0, getattr(counts, name)[lane], 0)
    return shown | {"mean_queuing_us": np.where(lane >= 0, counts.delay_ps[lane] / US, np.nan)}


def _cell(value: float | str) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if value != value else f"{value:.6f}".rstrip("0").rstrip(".")


def document(run: SimRun) -> dict[str, Any]:
    """result.json: what `--json` prints, what was run, and slowdowns by size."""
    settings = run.settings
    return as_json(result_of(run)) | {
        "topology": run.topology.spec,
        "workload": run.workload.text,
        "scheme": settings.scheme.name,
        "congestion_control": settings.scheme.control,
        "seed": settings.seed,
        "rate_gbps": settings.links.rate_bps / 1e9,
        "loss": settings.loss,
        "failures": [failure_text(run.topology, one) for one in settings.failures],
        "deadlock": run.deadlock,
        **({"names": run.topology.names} if run.topology.names else {}),
        "by_size": as_json(by_size(run)),
    }


REPORT_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .9rem; border-bottom: 1px solid #ddd; text-align: left; }
th.r, td.r { text-align: right; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 1rem; }
.panels svg { width: 100%; }
dl { display: grid; grid-template-columns: auto 1fr; gap: .1rem 1.2rem; } dd { margin: 0; } dt { color: #666; }
"""
_HIDDEN = ("fct_us", "slowdown", "steps", "by_size")


def page(run: SimRun, document: dict[str, Any]) -> str:
    """The whole text. `document`: what result.json holds."""
    result = result_of(run)
    tables = "".join(map(html_table, sim_tables(result, by_size(run))))
    panels = "".join(f'<div id="{name}">{svg}</div>' for name, svg in panels_svg(run).items())
    facts = "".join(
        f"<dt>{escape(key.replace('_', ' '))}</dt><dd>{escape(_shown(value))}</dd>"
        for key, value in document.items()
        if key not in _HIDDEN
    )
    title = f"{document['workload']} on {unpinned(run.topology.spec)}"
    return html_page(
        title,
        f"<p>{escape(str(document['scheme']))}: {result.completed} of {result.flows} flows complete</p>"
        f'{tables}<div class="panels">{panels}</div><h2>The run</h2><dl>{facts}</dl>',
        REPORT_STYLE,
    )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, int):
        return f"{value:,}"
    return "none" if value is None else str(value)


def html_table(shown: Table[Any]) -> str:
    """A table with all its columns."""
    columns = shown.shown(True)
    kinds = [' class="r"' if column.right else "" for column in columns]
    head = "".join(f"<th{kind}>{escape(column.name)}</th>" for kind, column in zip(kinds, columns, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in shown.cells(True)
    )
    title = f"<h2>{escape(shown.title)}</h2>" if shown.title else ""
    return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
