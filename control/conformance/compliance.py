# SPDX-License-Identifier: Apache-2.0
"""Stored runs of the suite as tables: what each server makes of the specification, by section or check by check."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.tables import Table, left, right
from detour.control.conformance.model import ConformanceVerdict

Run = dict[str, dict[str, str]]
"""checks by their ids, as `detour conformance --json` writes them"""


@dataclass(frozen=True)
class ComplianceRow:
    """Of one section: what its checks are about, most of them first, how many they are, and how many have which verdict
    in each run."""

    section: str
    about: list[str]
    checks: int
    verdicts: dict[str, dict[str, int]]


def read_runs(paths: list[Path]) -> dict[str, Run]:
    """Runs by the names of their files (`BMv2.json.xz`: BMv2). Raises `DetourError`: a file is no run, or they are not
    of the same checks."""
    runs = {path.name.partition(".json")[0]: _read(path) for path in paths}
    if len({frozenset(run) for run in runs.values()}) > 1:
        raise DetourError(f"{', '.join(map(str, paths))} are not of the same checks; run each anew")
    return runs


def _read(path: Path) -> Run:
    try:
        text = path.read_bytes() if path.suffix != ".xz" else lzma.decompress(path.read_bytes())
        return {check["id"]: check for check in json.loads(text)["checks"]}
    except OSError as error:
        raise DetourError(f"{path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, lzma.LZMAError):
        raise DetourError(f"{path} is not what `detour conformance --json` writes") from None


def by_section(runs: dict[str, Run]) -> list[ComplianceRow]:
    rows = []
    for section, checks in groupby(next(iter(runs.values())).values(), _section):
        ids = [check["id"] for check in checks]
        about = [name for name, _ in Counter(id_.split(".")[0] for id_ in ids).most_common()]
        verdicts = {name: dict(Counter(run[id_]["verdict"] for id_ in ids)) for name, run in runs.items()}
        rows.append(ComplianceRow(section, about, len(ids), verdicts))
    return rows


def _section(check: dict[str, str]) -> str:
    """Of the specification, without its subsections' subsections."""
    return ".".join(check["section"].split(".")[:2])


def section_table(runs: dict[str, Run]) -> Table[ComplianceRow]:
    """For people: a verdict of all checks alone is its word."""
    columns = [left(name, lambda row, name=name: _cell(row.verdicts[name])) for name in runs]
    about = left("about", lambda row: ", ".join([*row.about[:3], *(["..."] if row.about[3:] else [])]))
    section, checks = left("section", lambda row: row.section), right("checks", lambda row: row.checks)
    return Table((section, about, checks, *columns), by_section(runs))


def _cell(verdicts: dict[str, int]) -> str:
    parts = [f"{verdicts[v]} {v}".replace("_", " ") for v in ConformanceVerdict if v in verdicts]
    return parts[0].partition(" ")[2] if len(parts) == 1 else ", ".join(parts)


def check_table(runs: dict[str, Run], reports: dict[str, str]) -> Table[dict[str, str]]:
    """Every check. `reports`: public ones that name a failure, by id."""
    columns: list[Any] = [left(name, lambda check, name=name: check[name]) for name in ("section", "id", "requirement")]
    columns += [left(name, lambda check, run=run: run[check["id"]]["verdict"]) for name, run in runs.items()]
    columns.append(left("report", lambda check: reports.get(check["id"])))
    return Table(columns, list(next(iter(runs.values())).values()))


def read_reports(path: Path) -> dict[str, str]:
    """Public reports that name what a server fails, by the check's id: lines of the id and the reports."""
    lines = [line.split(maxsplit=1) for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {words[0]: words[1] if len(words) > 1 else "" for words in lines}
