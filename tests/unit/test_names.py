# SPDX-License-Identifier: Apache-2.0
"""One name, one thing: public classes, type aliases and constants are defined in one module, the others import them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.places import modules
from detour.hosts.frames.sample import data_frame
from detour.topo.clos import leaf_spine

TYPE_VARIABLES = {"C", "M", "P", "R", "T"}
"""what a type variable is called is said by the function that has it"""

OF_AN_EXPERIMENT = {
    # The experiment's parameters; each module of `experiments/` is one experiment.
    "CONNECTIONS", "ENTRIES", "GAP", "GOAL", "LOADS", "ROUTINGS", "SIZES", "TOPOLOGIES",
    # What its paper prints, by the paper's own numbering.
    "PAPER", "TABLE_1", "TABLE_2", "TABLE_3",
}  # fmt: skip
"""Names of constants that several modules of `experiments/` have, and no module elsewhere."""


def names(tree: ast.Module) -> Iterator[str]:
    """What a module defines at its top level and does not hide."""
    for node in tree.body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            targets = [e for target in node.targets for e in getattr(target, "elts", [target])]
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        yield from (e.id for e in targets if isinstance(e, ast.Name))


def definitions() -> dict[str, list[Path]]:
    """Modules that define a public class, alias or constant."""
    paths: dict[str, list[Path]] = {}
    for path in modules():
        for name in set(names(ast.parse(path.read_text()))):
            if name[0].isupper():
                paths.setdefault(name, []).append(path)
    return paths


def test_names_that_a_module_defines_are_found() -> None:
    text = "class A: ...\nclass _B: ...\nC = list[int]\nD: int = 1\nE, F = 1, 2\nG = H = 3\nx.y = 1\ndef i(): J = 1\n"
    assert list(names(ast.parse(text))) == ["A", "_B", "C", "D", "E", "F", "G", "H"]
    defined = definitions()
    assert len(defined) > 1000
    assert {"VirtualFabric", "HostPair", "USID_BLOCK", "MAX_TIME", "ETHERNET"} < defined.keys()


def test_a_public_type_has_one_module() -> None:
    types = {name: where for name, where in definitions().items() if not name.isupper() and name not in TYPE_VARIABLES}
    assert not {name: where for name, where in types.items() if len(where) > 1}


def test_a_public_constant_has_one_module() -> None:
    constants = {name: where for name, where in definitions().items() if name.isupper() and name not in TYPE_VARIABLES}
    assert not {name: where for name, where in constants.items() if len(where) > 1 and name not in OF_AN_EXPERIMENT}


def test_what_experiments_may_repeat_stays_among_them() -> None:
    defined = definitions()
    assert all("experiments" in path.parts for name in OF_AN_EXPERIMENT for path in defined[name])
    assert all(len(defined[name]) > 1 for name in OF_AN_EXPERIMENT)


def test_the_glossary_names_modules_that_exist() -> None:
    root = Path(__file__).resolve().parents[2]
    rows = [line for line in (root / "docs" / "glossary.md").read_text().splitlines() if line.startswith("| ")]
    named = [re.findall(r"`([^`]+)`", row.split("|")[-2]) for row in rows if not row.startswith("| term")]
    assert len(named) >= 25
    assert all(named)
    assert not [place for places in named for place in places if not (root / place).exists()]


def test_a_packet_is_as_long_as_its_headers_and_payload() -> None:
    near, far = leaf_spine(2, 1, 1).hosts
    assert len(data_frame(near, far, payload=PAYLOAD)) == PACKET_BYTES
