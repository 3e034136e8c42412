# SPDX-License-Identifier: Apache-2.0
"""Packages import each other in one direction, and nothing depends on the links at the top level."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

import detour
from detour.base import places
from tests import architecture
from tests.architecture import PACKAGES, imported, named

ROOT = Path(__file__).resolve().parents[2]


LINKS = {"control", "hosts", "p4src", "topo"}
"""at the top level, for people who look for these folders there"""


def _tracked(*patterns: str) -> list[str]:
    return subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()


def test_links_lead_into_the_package() -> None:
    links = {path.name: os.readlink(path) for path in ROOT.iterdir() if path.is_symlink()}
    assert links.items() <= {name: f"detour/{name}" for name in LINKS}.items()
    assert not [path for path in places.PACKAGE.rglob("*") if path.is_symlink()]


def test_nothing_goes_through_the_links() -> None:
    """A checkout without them (a ZIP file, git on Windows) installs, runs and passes its tests."""
    through = re.compile(rf"(?<![\w/.-])(?:\.\./)*(?:{'|'.join(sorted(LINKS))})/[\w*]")
    texts = {name: (ROOT / name).read_text() for name in _tracked("*.md", "*.yml", "Makefile", ".ci/run", ".gitignore")}
    wrong = {name: through.findall(text) for name, text in texts.items() if through.search(text)}
    assert not wrong


def test_packages_are_imported_by_the_packages_name_only() -> None:
    """`import control` works at the top of the repository and nowhere else."""
    one = rf"(?:{'|'.join(PACKAGES)})\b"
    importing = re.compile(rf"^\s*(?:from\s+{one}|import\s(?:.*[\s,])?{one})", re.MULTILINE)  # the rest is not parsed
    files = [*places.modules(), *(ROOT / "tests").rglob("*.py")]
    suspects = [path for path in files if importing.search(path.read_text())]
    wrong = [f"{path}: {name}" for path in suspects for name in imported(path) if name.split(".")[0] in PACKAGES]
    assert not wrong


def test_the_package_is_the_one_of_this_checkout() -> None:
    assert Path(detour.__file__).resolve() == ROOT / "detour" / "__init__.py"


BELOW = {
    # package: what it may import from, beside itself (docs/architecture.md)
    "base": set(),
    "topo": {"base"},
    "p4": {"base"},
    "control": {"base", "topo", "p4"},
    "conformance": {"base", "control"},
    "hosts": {"base", "topo"},
    "engine": {"base", "topo", "p4", "control", "hosts"},
    "fabric": {"base", "topo", "p4", "control", "hosts", "engine"},
    "experiments": {"base", "topo", "p4", "control", "hosts", "engine", "fabric"},
    "testgen": {"base", "control", "engine", "fabric"},
    "cli": {"base", "topo", "p4", "control", "hosts", "engine", "fabric", "experiments", "conformance", "testgen"},
}


@cache
def _graph() -> dict[str, set[str]]:
    """Modules of the package and the modules that they import, anywhere in them, or name in a string."""
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in places.modules()}
    ours = {name.removesuffix(".__init__"): path for path, name in names.items() if path.parent != places.PACKAGE}
    return {name: set((imported(path) | named(path)) & ours.keys()) for name, path in ours.items()}


def test_strings_that_name_modules_count(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text('"""detour.cli.web"""\nREPS = "detour.experiments.rivals.paths:REPS"\nTEXT = "see detour.cli"\n')
    assert named(file) == {"detour.experiments.rivals.paths"}


def test_imports_point_one_way() -> None:
    wrong = [
        f"{name} imports {other}"
        for name, others in _graph().items()
        for other in others
        if len(other.split(".")) > 1
        and (package := name.split(".")[1]) != (below := other.split(".")[1])
        and below not in BELOW[package]
    ]
    assert not wrong


def test_only_commands_import_the_package_itself() -> None:
    """`detour` offers what `experiments` has: below it, that would be a cycle."""
    assert not [path for path in places.modules() if "detour" in imported(path) and "cli" not in path.parts]


def test_imports_have_no_cycles() -> None:
    """But for a package that gathers what its own modules define."""
    graph = nx.DiGraph([(name, other) for name, others in _graph().items() for other in others])
    graph.remove_edges_from([(a, b) for a, b in graph.edges if b.startswith(f"{a}.") or a.startswith(f"{b}.")])
    assert not [cycle for cycle in nx.strongly_connected_components(graph) if len(cycle) > 1]


def _subpackage(module: str) -> str:
    """`detour.fabric.labs` of `detour.fabric.labs.boot`; a module beside the subpackages stands for itself."""
    return ".".join(module.split(".")[:3])


@pytest.mark.parametrize("package", sorted(BELOW))
def test_subpackages_have_no_cycles(package: str) -> None:
    prefix = f"detour.{package}."
    edges = {
        (_subpackage(a), _subpackage(b))
        for a, others in _graph().items()
        for b in others
        if a.startswith(prefix) and b.startswith(prefix)
    }
    graph = nx.DiGraph([(a, b) for a, b in edges if a != b])
    assert not [cycle for cycle in nx.strongly_connected_components(graph) if len(cycle) > 1]


def _public(package: str) -> set[str]:
    """What `__init__` of `detour.control.fors` and others lists."""
    init = places.PACKAGE.parent.joinpath(*package.split("."), "__init__.py")
    values = [n.value for n in ast.parse(init.read_text()).body if isinstance(n, ast.Assign) and _sets_all(n)]
    return set(ast.literal_eval(values[0])) if values else set()


def _sets_all(node: ast.Assign) -> bool:
    return isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"


def test_packages_list_the_modules_that_others_import() -> None:
    """The rest of a package is private to it."""
    used: dict[str, set[str]] = {}
    for name, others in _graph().items():
        for other in others:
            parts = other.split(".")
            if parts[1:2] != name.split(".")[1:2]:
                for depth in range(2, len(parts)):
                    used.setdefault(".".join(parts[:depth]), set()).add(parts[depth])
    missing = {f"{package}.{name}" for package, names in used.items() for name in names - _public(package)}
    unused = {f"{package}.{name}" for package, names in used.items() for name in _public(package) - names}
    assert missing == set()
    assert unused & set(_graph()) == set()


# -- docs/architecture.md ------------------------------------------------------------------------------------


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
    rows = re.findall(r"^\| `detour/(\w+)/` \|", PAGE, re.MULTILINE)
    assert set(rows) == {*PACKAGES, "p4src"}


def test_files_that_the_page_names_exist() -> None:
    named = {name for name in re.findall(r"`([\w./-]+(?:\.\w+|/))`", PAGE) if "/" in name}
    assert len(named) > 20
    assert not [name for name in named if not (ROOT / name).exists()]
