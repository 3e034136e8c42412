# SPDX-License-Identifier: Apache-2.0
"""Documents obey the limit that code has, the site (`make docs`) has all of them, and CITATION.cff says what
pyproject.toml says."""

from __future__ import annotations

import importlib.util
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
LIMIT = SETTINGS["tool"]["ruff"]["line-length"]
AS_IT_COMES = {"results.md"}
"""written by `detour reproduce`"""
DOCUMENTS = [path for path in (ROOT / "docs").rglob("*.md") if path.name not in AS_IT_COMES]
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


def test_documents_are_short_enough_to_be_read() -> None:
    words = {path: len(path.read_text().split()) for path in (ROOT / "docs").rglob("*.md")}
    readme = len((ROOT / "README.md").read_text().split())
    assert readme <= 800
    assert readme + sum(words.values()) <= 60_000


def _listed(nav: Any) -> Iterator[str]:
    """Pages of a part of mkdocs.yml's `nav`, in their order."""
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from _listed(part)


def test_every_page_is_once_in_the_navigation_of_the_site() -> None:
    listed = list(_listed(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted([*pages, _hooks().ON_THE_SITE_ALONE])


def test_the_table_of_the_interface_names_the_modules_of_its_pages() -> None:
    api = ROOT / "docs" / "api"
    index = (api / "index.md").read_text()
    for page in api.glob("*.md"):
        modules = [line[4:] for line in page.read_text().splitlines() if line.startswith("::: ")]
        if page.name != "index.md":
            assert modules
            assert f"]({page.name}) | {', '.join(f'`{module}`' for module in modules)} |" in index


def _hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site_hooks.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _on_the_site(text: str, page: str = "glossary.md") -> str:
    return _hooks().on_page_markdown(text, SimpleNamespace(file=SimpleNamespace(src_uri=page)))


def test_on_the_site_a_link_to_sources_is_its_text() -> None:
    assert _on_the_site("[a](../p4src/fabric.p4) and [b](../CHANGELOG.md#added)") == "a and b"
    assert _on_the_site("[a](../../p4src)", "api/topo.md") == "a"


def test_on_the_site_other_links_stay_and_so_do_broken_ones() -> None:
    text = "[a](sim.md#x) [b](../p4src/nothing.p4) [c](https://example.org/a) ![d](../README.md) [e](#here)"
    assert _on_the_site(text) == text


def test_on_the_site_lists_nest() -> None:
    assert _on_the_site("1. a\n   - b\n```\n   c\n```") == "1. a\n    - b\n```\n   c\n```"


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = SETTINGS["project"]
    assert cited["cff-version"] == "1.2.0"
    assert (str(cited["version"]), cited["license"]) == (project["version"], project["license"]["text"])
    assert all(set(author) == {"name"} for author in cited["authors"])
