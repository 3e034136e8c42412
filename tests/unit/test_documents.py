# SPDX-License-Identifier: Apache-2.0
"""Documents obey the limit that code has, the site (`make docs`) has all of them, and CITATION.cff says what
pyproject.toml says."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from detour.base.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
LIMIT = SETTINGS["tool"]["ruff"]["line-length"]
AS_IT_COMES = {"results.md", "results-settings.md"}
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
    """Tables are there to look things up in."""
    words = [len(line.split()) for path in DOCUMENTS for _, line in _prose(path.read_text())]
    readme = len((ROOT / "README.md").read_text().split())
    assert readme <= 800
    assert sum(words) <= 39_960


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
    assert sorted(listed) == sorted([*pages, *_hooks().ON_THE_SITE_ALONE])


def test_the_glossary_names_modules_that_exist() -> None:
    rows = [line for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if line.startswith("| ")]
    named = [re.findall(r"`([^`]+)`", row.split("|")[-2]) for row in rows if not row.startswith("| term")]
    assert len(named) >= 25
    assert all(named)
    assert not [path for paths in named for path in paths if not (ROOT / path).exists()]


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
    assert (str(cited["version"]), cited["license"]) == (VERSION, project["license"])
    assert all(set(author) == {"name"} for author in cited["authors"])


# -- what is cited -------------------------------------------------------------------------------------------


SUFFIXES = {".py", ".p4", ".md", ".toml", ".yml", ".yaml"}
FACTS = ROOT / "docs" / "facts.md"
CITED = re.compile(r'docs/facts\.md, "([^"]+)"')
LINKED = re.compile(r"\]\((?:docs/)?facts\.md#([^)]+)\)")
UNREADABLE = {
    "the notes that docs/facts.md took the place of": re.compile(r"\bFACTS\b"),
    "the number of an issue": re.compile(r"\bissues? (?:no\. )?#?\d", re.IGNORECASE),
}
BREAK = re.compile(r"\n\s*(?:#|//|\*)?\s*")


@cache
def texts() -> dict[Path, str]:
    """Every file that people write, with comments that go on in the next line joined."""
    top = [path for path in ROOT.glob("*") if path.is_file()]
    below = [path for folder in ("detour", "tests", "docs") for path in (ROOT / folder).rglob("*")]
    files = [path for path in (*top, *below) if path.suffix in SUFFIXES or path.name == "Makefile"]
    return {path: BREAK.sub(" ", path.read_text()) for path in files if path != Path(__file__).resolve()}


def _headings() -> set[str]:
    return set(re.findall(r"^#{2,} (.+)$", FACTS.read_text(), re.MULTILINE))


def _anchor(heading: str) -> str:
    """What a heading is called in a link, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_everything_is_looked_at() -> None:
    assert {path.suffix for path in texts()} >= {".py", ".p4", ".md", ".toml"}
    assert len(texts()) > 700


@pytest.mark.parametrize("what", UNREADABLE)
def test_nothing_unreadable_is_cited(what: str) -> None:
    citations = {str(path.relative_to(ROOT)): UNREADABLE[what].findall(text) for path, text in texts().items()}
    assert not {path: hits for path, hits in citations.items() if hits}


@pytest.mark.parametrize(
    "text", ["(FACTS 5)", "FACTS.md, section 4", "FACTS of the paper", "As issue 4 asks", "Issue #12", "issues 3 and 4"]
)
def test_what_was_once_cited_would_be_found(text: str) -> None:
    assert any(pattern.search(text) for pattern in UNREADABLE.values())


def test_headings_that_are_cited_exist_and_the_other_way_round() -> None:
    cited = {heading for text in texts().values() for heading in CITED.findall(text)}
    assert cited - {"Heading"} == _headings()


def test_who_names_the_page_names_a_heading() -> None:
    """In code; documents may link to all of it."""
    code = {path: text for path, text in texts().items() if path.suffix in {".py", ".p4"}}
    loose = [str(path) for path, text in code.items() if text.count("facts.md") != len(CITED.findall(text))]
    assert not loose


def test_links_to_headings_lead_somewhere() -> None:
    anchors = {_anchor(heading) for heading in _headings()}
    linked = {anchor for path, text in texts().items() if path.suffix == ".md" for anchor in LINKED.findall(text)}
    assert linked
    assert linked <= anchors
