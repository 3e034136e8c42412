# SPDX-License-Identifier: Apache-2.0
"""Fields of native tables that Python reads by name: each is one of the record that describes the table.

NumPy does not tell type checkers the fields of a table, so this follows what is read from where a table is named
(`hs.qp`, `memory.row("ports", i)`, `tables["sockets"]`, `np.zeros(n, Task.dtype)`) through variables, loops,
attributes, properties and methods.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import detour
from detour.engine.loop import layout, memory
from detour.fabric.workloads.tasks import TASK_FIELDS
from detour.hosts.ip import layout as ip_layout
from detour.hosts.ip.memory import StackMemory
from detour.hosts.state import DTYPES

Fields: TypeAlias = frozenset[str]
Read: TypeAlias = tuple[int, str, Fields]

PACKAGE = Path(detour.__file__).parent
READERS = [path for part in ("engine", "hosts", "fabric", "cli") for path in (PACKAGE / part).rglob("*.py")]


def _fields(kind: Any) -> Fields:
    return frozenset(np.dtype(kind).names or ())


HOSTS = {name: _fields(kind) for name, kind in DTYPES.items()}
LOOP = {name: _fields(kind) for name, kind in memory._TABLES.items()}
STACK = {name: _fields(table.dtype) for name, table in StackMemory(1, 2, 1, True, 1500).tables.items()}
GLOBALS = {"engine": _fields(layout.LoopGlobals.dtype), "hosts": _fields(ip_layout.StackGlobals.dtype)}


class Reader:
    """What the rows are that a module reads."""

    def __init__(self, path: Path) -> None:
        self.parts = path.relative_to(PACKAGE).with_suffix("").parts
        self.variables: dict[str, Fields] = {}
        self.attributes: dict[str, Fields] = {}
        self.read: set[Read] = set()

    def fields_of(self, node: ast.AST) -> Fields | None:
        """The fields of a table, or of rows of it; None: it is none, as far as can be told."""
        found: Fields | None = None
        match node:
            case ast.Name(id=name):
                found = self.variables.get(name)
            case ast.Attribute(attr=name, value=ast.Name(id="hs") | ast.Attribute(attr="hs")):
                found = HOSTS.get(name)
            case ast.Attribute(
                attr="g" | "globals", value=ast.Name(id="memory") | ast.Attribute(attr="memory" | "_memory")
            ):
                found = GLOBALS.get(self.parts[0])
            case ast.Attribute(attr="tasks", value=ast.Name(id="graph") | ast.Attribute(attr="graph")):
                found = _fields(TASK_FIELDS)
            case ast.Attribute(attr=name, value=ast.Name(id="self")):
                found = self.attributes.get(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name), args=[]):
                found = self.attributes.get(name)
            case ast.Call(func=ast.Attribute(attr="row" | "table"), args=[ast.Constant(value=str(name)), *_]):
                found = LOOP.get(name)
            case ast.Call(func=ast.Attribute(attr="_of"), args=[ast.Constant(value=str(name))]):
                found = STACK.get(name)
            case ast.Call(args=[*_, ast.Attribute(attr="dtype") as kind]):
                found = self.fields_of_type(kind)
            case ast.Subscript(
                value=ast.Attribute(attr="tables" | "_tables" as kind), slice=ast.Constant(value=str(name))
            ):
                found = (STACK if kind == "tables" else LOOP).get(name)
            case ast.Subscript(value=inner, slice=where) if not isinstance(where, ast.Constant) or where.value == 0:
                found = self.fields_of(inner)
        return found

    def fields_of_type(self, kind: ast.expr) -> Fields | None:
        try:
            return _fields(eval(ast.unparse(kind), vars(import_module(".".join(("detour", *self.parts))))))
        except (NameError, AttributeError, TypeError):
            return None  # of a variable

    def look(self, function: ast.AST) -> None:
        before = dict(self.variables)
        for node in in_order(function):
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.For(target=ast.Name(id=name), iter=value)
                ):
                    self.bind(name, value)
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                    for target, value in zip(targets, values, strict=False):
                        self.bind(target.id if isinstance(target, ast.Name) else "", value)
                case ast.Assign(targets=[ast.Attribute(attr=name, value=ast.Name(id="self"))], value=value):
                    self.attributes |= {} if (fields := self.fields_of(value)) is None else {name: fields}
                case ast.Subscript(value=inner, slice=ast.Constant(value=str(name))):
                    self.note(node, name, self.fields_of(inner))
                case ast.Call(
                    func=ast.Attribute(attr="column"), args=[ast.Constant(value=table), ast.Constant(value=str(name))]
                ):
                    self.note(node, name, LOOP.get(str(table)))
                case ast.Return(value=ast.expr() as value) if isinstance(function, ast.FunctionDef):
                    self.attributes |= {} if (fields := self.fields_of(value)) is None else {function.name: fields}
        self.variables = before

    def bind(self, name: str, value: ast.AST) -> None:
        fields = self.fields_of(value)
        self.variables.pop(name, None)
        self.variables |= {} if fields is None else {name: fields}

    def note(self, node: ast.expr, name: str, fields: Fields | None) -> None:
        if fields is not None:
            self.read.add((node.lineno, name, fields))


def in_order(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        yield from in_order(child)


def read_fields(path: Path, source: str) -> list[Read]:
    """Line, name, and the fields that there are, of all that is read by name from native tables."""
    reader = Reader(path)
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for _ in range(2):  # methods that return rows may stand behind those that call them
        reader.read = set()
        for function in functions:
            reader.look(function)
    return sorted(reader.read, key=lambda each: each[:2])


def wrong(path: Path, read: list[Read]) -> list[str]:
    return [f"{path.name}:{line}: {name}" for line, name, fields in read if name not in fields]


def test_every_field_that_is_read_by_name_is_one_of_its_record() -> None:
    of_files = {path: read_fields(path, path.read_text()) for path in READERS}
    assert sum(map(len, of_files.values())) > 400, "so many are understood"
    assert [place for path, read in of_files.items() for place in wrong(path, read)] == []


@pytest.mark.parametrize(
    ("file", "right", "typo"),
    [
        ("hosts/verbs/qp.py", 'q["snd_una"]', 'q["snd_uma"]'),
        ("engine/lossless.py", 'row["piped"]', 'row["pipde"]'),
        ("fabric/traffic/tasks.py", 'task["unit"]', 'task["unti"]'),
        ("hosts/ip/sockets.py", 'echo["ident"]', 'echo["indent"]'),
    ],
)
def test_a_typo_is_found(file: str, right: str, typo: str) -> None:
    source = (PACKAGE / file).read_text()
    assert right in source
    assert wrong(PACKAGE / file, read_fields(PACKAGE / file, source.replace(right, typo)))
