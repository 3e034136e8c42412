# SPDX-License-Identifier: Apache-2.0
"""report.html: a run on one page, with nothing to load from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any

from detour.base.plugins import unpinned
from detour.base.tables import Table
from detour.experiments.sim.figures import panels_svg
from detour.experiments.sim.results import by_size, result_of
from detour.experiments.sim.run import SimRun
from detour.experiments.sim.tables import sim_tables

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .9rem; border-bottom: 1px solid #ddd; text-align: left; }
th.r, td.r { text-align: right; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); gap: 1rem; margin: 1.5rem 0; }
.panels svg { width: 100%; height: auto; }
dl { display: grid; grid-template-columns: max-content auto; gap: .1rem 1.2rem; } dd { margin: 0; } dt { color: #666; }
"""
_HIDDEN = ("fct_us", "slowdown", "steps", "by_size")


def page(run: SimRun, document: dict[str, Any]) -> str:
    """The whole text. `document`: what result.json holds."""
    result = result_of(run)
    tables = "".join(map(_table, sim_tables(result, by_size(run))))
    panels = "".join(f'<div id="{name}">{svg}</div>' for name, svg in panels_svg(run).items())
    facts = "".join(
        f"<dt>{escape(key.replace('_', ' '))}</dt><dd>{escape(_shown(value))}</dd>"
        for key, value in document.items()
        if key not in _HIDDEN
    )
    title = f"{document['workload']} on {unpinned(run.topology.spec)}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"<p>{escape(str(document['scheme']))}: {result.completed} of {result.flows} flows complete</p>"
        f'{tables}<div class="panels">{panels}</div><h2>The run</h2><dl>{facts}</dl></body></html>\n'
    )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, int):
        return f"{value:,}"
    return "none" if value is None else str(value)


def _table(shown: Table[Any]) -> str:
    columns = shown.shown(True)
    kinds = [' class="r"' if column.right else "" for column in columns]
    head = "".join(f"<th{kind}>{escape(column.name)}</th>" for kind, column in zip(kinds, columns, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in shown.cells(True)
    )
    title = f"<h2>{escape(shown.title)}</h2>" if shown.title else ""
    return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
