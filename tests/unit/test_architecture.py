# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md: its picture is that of the present imports, and it names every package and existing files."""

from __future__ import annotations

import re
from pathlib import Path

import networkx as nx

from detour.base import places
from tests import architecture

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_the_picture_is_that_of_the_imports() -> None:
    assert architecture.PICTURE.read_text() == architecture.svg(architecture.imports()), (
        "docs/figures/architecture.svg is stale: run `python -m tests.architecture`"
    )


def test_packages_import_each_other_one_way() -> None:
    graph = architecture.imports()
    assert nx.is_directed_acyclic_graph(graph)
    assert architecture.layers(graph)[-1] == ["base"]


def test_the_picture_changes_with_the_imports() -> None:
    graph = architecture.imports()
    changed = graph.copy()
    changed.remove_edge("cli", "experiments")
    assert architecture.svg(changed) != architecture.svg(graph)


def test_the_page_has_a_line_for_each_package() -> None:
    rows = re.findall(r"^\| `(\w+)/` \|", PAGE, re.MULTILINE)
    assert set(rows) >= {*places.PACKAGES, "p4src", "detour", "tests"}


def test_files_that_the_page_names_exist() -> None:
    named = {name for name in re.findall(r"`([\w./-]+(?:\.\w+|/))`", PAGE) if "/" in name}
    assert len(named) > 20
    assert not [name for name in named if not (ROOT / name).exists()]
