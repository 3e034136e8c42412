# SPDX-License-Identifier: Apache-2.0
"""What `make docs` does to pages before they are rendered (mkdocs.yml, hooks).

Pages are written to be read in the repository as well, where they may link to sources. The site has no sources: a link
to a file or folder outside docs/ becomes its text. It must be there all the same; one that is not stays a link, and
the strict build fails at it.

Two pages are on the site alone, made of stored runs: all cells of the comparison of path selection, and all checks of
the P4Runtime conformance suite.

What belongs to an item of a numbered list stands three columns in, which CommonMark takes and Python-Markdown does
not: it wants four.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ROOT / "docs"
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")
"""text and target of a link within the repository; not of pictures, nor of addresses with a scheme"""
ON_THE_SITE_ALONE = ("rivals-tables.md", "conformance-tables.md")
THREE_IN = re.compile(r"^ {3}(?=\S)")


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Adds the pages that docs/ does not have."""
    from mkdocs.structure.files import File

    from detour.base.tables import markdown
    from detour.conformance.report import check_table, read_reports, read_runs
    from detour.experiments.reproduce import RIVALS, Means, reproduce
    from detour.experiments.rivals.page import every_cell

    runs = DOCUMENTS / "rivals.jsonl.xz"
    found = reproduce(RIVALS, RIVALS.select(source=runs), Means(archive=runs))
    stored = DOCUMENTS / "conformance"
    checks = check_table(read_runs(sorted(stored.glob("*.json.xz"))), read_reports(stored / "reports.txt"))
    conformance = f"# P4Runtime, check by check\n\n{markdown(checks)}\n"
    for name, content in zip(ON_THE_SITE_ALONE, (every_cell(found.collected), conformance), strict=True):
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text of a page, without links to what is in the repository but not on the site, and with lists that nest."""
    folder = (DOCUMENTS / page.file.src_uri).parent

    def without(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        outside = target.is_relative_to(ROOT) and not target.is_relative_to(DOCUMENTS)
        return link[1] if outside and target.exists() else link[0]

    return _nested(LINK.sub(without, markdown))


def _nested(markdown: str) -> str:
    lines: list[str] = []
    fenced = False
    for line in markdown.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        lines.append(line if fenced else THREE_IN.sub(" " * 4, line))
    return "\n".join(lines)
