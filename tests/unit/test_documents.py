# SPDX-License-Identifier: Apache-2.0
"""Documents obey the limit that code has, and CITATION.cff says what pyproject.toml says."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
LIMIT = SETTINGS["tool"]["ruff"]["line-length"]
AS_IT_COMES = {"results.md"}
"""written by `detour reproduce`"""
DOCUMENTS = [path for path in (ROOT / "docs").glob("*.md") if path.name not in AS_IT_COMES]
DOCUMENTS += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without tables and what stands between fences."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("|"):
            yield number, line


def test_lines_of_documents_have_the_length_of_lines_of_code() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{number}: {len(line)}"
        for path in DOCUMENTS
        for number, line in _prose(path.read_text())
        if len(line) > LIMIT
    ]
    assert len(DOCUMENTS) > 10
    assert not long


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = SETTINGS["project"]
    assert cited["cff-version"] == "1.2.0"
    assert (str(cited["version"]), cited["license"]) == (project["version"], project["license"]["text"])
    assert all(set(author) == {"name"} for author in cited["authors"])
