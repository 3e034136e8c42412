# SPDX-License-Identifier: Apache-2.0
"""What code cites can be read: headings of docs/facts.md, papers and standards; never notes that no reader has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from detour.base import places

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = {".py", ".p4", ".md", ".toml", ".yml", ".yaml"}
FACTS = ROOT / "docs" / "facts.md"
CITED = re.compile(r'docs/facts\.md, "([^"]+)"')
LINKED = re.compile(r"\]\((?:docs/)?facts\.md#([^)]+)\)")
UNREADABLE = {
    "the notes that docs/facts.md took the place of": re.compile(r"\bFACTS\b"),
    "the number of an issue": re.compile(r"\bissues? (?:no\. )?#?\d", re.IGNORECASE),
}
BREAK = re.compile(r"\n\s*(?:#|//|\*)?\s*")


def _texts() -> dict[Path, str]:
    """Every file that people write, with comments that go on in the next line joined."""
    top = [path for path in ROOT.glob("*") if path.is_file()]
    below = [path for room in (*places.PACKAGES, "p4src", "tests", "docs") for path in (ROOT / room).rglob("*")]
    files = [path for path in (*top, *below) if path.suffix in SUFFIXES or path.name == "Makefile"]
    return {path: BREAK.sub(" ", path.read_text()) for path in files if path != Path(__file__).resolve()}


TEXTS = _texts()


def _headings() -> set[str]:
    return set(re.findall(r"^#{2,} (.+)$", FACTS.read_text(), re.MULTILINE))


def _anchor(heading: str) -> str:
    """What a heading is called in a link, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_everything_is_looked_at() -> None:
    assert {path.suffix for path in TEXTS} >= {".py", ".p4", ".md", ".toml"}
    assert len(TEXTS) > 700


@pytest.mark.parametrize("what", UNREADABLE)
def test_nothing_unreadable_is_cited(what: str) -> None:
    found = {str(path.relative_to(ROOT)): UNREADABLE[what].findall(text) for path, text in TEXTS.items()}
    assert not {path: hits for path, hits in found.items() if hits}


@pytest.mark.parametrize(
    "text", ["(FACTS 5)", "FACTS.md, section 4", "FACTS of the paper", "As issue 4 asks", "Issue #12", "issues 3 and 4"]
)
def test_what_was_once_cited_would_be_found(text: str) -> None:
    assert any(pattern.search(text) for pattern in UNREADABLE.values())


def test_headings_that_are_cited_exist_and_the_other_way_round() -> None:
    cited = {heading for text in TEXTS.values() for heading in CITED.findall(text)}
    assert cited - {"Heading"} == _headings()


def test_who_names_the_page_names_a_heading() -> None:
    """In code; documents may link to all of it."""
    code = {path: text for path, text in TEXTS.items() if path.suffix in {".py", ".p4"}}
    loose = [str(path) for path, text in code.items() if text.count("facts.md") != len(CITED.findall(text))]
    assert not loose


def test_links_to_headings_lead_somewhere() -> None:
    anchors = {_anchor(heading) for heading in _headings()}
    linked = {anchor for path, text in TEXTS.items() if path.suffix == ".md" for anchor in LINKED.findall(text)}
    assert linked
    assert linked <= anchors
