# SPDX-License-Identifier: Apache-2.0
"""The picture of docs/architecture.md, drawn from the imports: `python -m tests.architecture` writes it."""

from __future__ import annotations

import ast
import re
from functools import cache
from html import escape
from pathlib import Path
from textwrap import wrap

import networkx as nx

from detour.base import places


def subpackages(package: str = "") -> list[str]:
    """Names of the folders of a package (default: of detour itself) that hold modules."""
    return sorted(path.parent.name for path in (places.PACKAGE / package).glob("*/__init__.py"))


PACKAGES = subpackages()
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "figures" / "architecture.svg"


_WIDTH, _BOX_HEIGHT, _GAP = 760, 62, 34
_STYLE = """
    text { font: 13px sans-serif; fill: #222 } .name { font-weight: bold; font-size: 15px } .parts { fill: #666 }
    rect { fill: #eef3fb; stroke: #4a6fa5 } rect.page { fill: #fff; stroke: none }
    path { stroke: #4a6fa5; fill: none; marker-end: url(#arrow) }
"""


def imports() -> nx.DiGraph:
    """Packages of detour, with an edge from each to those that its modules import."""
    graph = nx.DiGraph()
    graph.add_nodes_from(PACKAGES)
    for package in PACKAGES:
        for path in (places.PACKAGE / package).rglob("*.py"):
            used = {name.split(".")[1] for name in imported(path) if name.startswith("detour.")}
            graph.add_edges_from((package, other) for other in used & set(PACKAGES) - {package})
    return graph


@cache
def imported(path: Path) -> frozenset[str]:
    """The modules that one imports anywhere, and all that it takes from them, with their names."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


_MODULE = re.compile(r"detour(\.\w+)+(:\w+)?")
_QUOTED = re.compile("[\"']detour\\.")
"""where it begins; files without it need not be parsed"""


@cache
def named(path: Path) -> frozenset[str]:
    """Names like `detour.x.y` in strings of the code, as in `detour.x.y:ATTRIBUTE`; docstrings do not count."""
    text = path.read_text()
    if not _QUOTED.search(text):
        return frozenset()
    tree = ast.parse(text)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone)
    found = (text for text in texts if isinstance(text, str) and _MODULE.fullmatch(text))
    return frozenset(text.partition(":")[0] for text in found)


def layers(graph: nx.DiGraph) -> list[list[str]]:
    """Packages by the length of their longest chain of imports; those that import nothing are the last layer."""
    return [sorted(layer) for layer in nx.topological_generations(graph.reverse())][::-1]


def svg(graph: nx.DiGraph) -> str:
    """The picture: a row of boxes for each layer, an arrow to each package that is not imported by way of another."""
    rows = layers(graph)
    edges = sorted(nx.transitive_reduction(graph).edges)
    height = len(rows) * (_BOX_HEIGHT + _GAP)
    boxes = _boxes(rows, edges)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        "  <title>Packages of detour; an arrow points to what a package imports</title>",
        f"  <style>{_STYLE}  </style>",
        '  <defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" style="fill: #4a6fa5; marker-end: none"/></marker></defs>',
        f'  <rect class="page" width="{_WIDTH}" height="{height}"/>',
    ]
    for above, below in edges:
        (left, y, width), (to_left, to_y, to_width) = boxes[above], boxes[below]
        x = (max(left, to_left) + min(left + width, to_left + to_width)) // 2
        lines.append(f'  <path d="M{x} {y + _BOX_HEIGHT} V{to_y}"/>')
    for name, (x, y, width) in boxes.items():
        lines.append(f'  <rect x="{x}" y="{y}" width="{width}" height="{_BOX_HEIGHT}" rx="6"/>')
        lines.append(f'  <text class="name" x="{x + 12}" y="{y + 20}">{escape(name)}</text>')
        for number, text in enumerate(wrap(" · ".join(subpackages(name)), (width - 20) // 7)[:2]):
            lines.append(f'  <text class="parts" x="{x + 12}" y="{y + 38 + 16 * number}">{escape(text)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _boxes(rows: list[list[str]], edges: list[tuple[str, str]]) -> dict[str, tuple[int, int, int]]:
    """Left, top and width of each box. The left half of a row stays free for an arrow that passes it."""
    row_of = {name: row for row, names in enumerate(rows) for name in names}
    boxes = {}
    for row, names in enumerate(rows):
        passed = any(row_of[above] < row < row_of[below] for above, below in edges)
        begin = _WIDTH // 2 if passed else 0
        room = (_WIDTH - begin) // len(names)
        for column, name in enumerate(names):
            boxes[name] = begin + column * room + 20, row * (_BOX_HEIGHT + _GAP) + _GAP // 2, room - 40
    return boxes


if __name__ == "__main__":
    PICTURE.write_text(svg(imports()))
    print(PICTURE)
