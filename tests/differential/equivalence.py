# SPDX-License-Identifier: Apache-2.0
"""Whether two programs do the same to every packet that finds the queues empty, by symbolic execution of both with the
same variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from detour.engine.compiler.ir import Value
from detour.engine.compiler.program import Program
from detour.testgen.context import Conditions, Hash, Lookup
from detour.testgen.effort import Effort
from detour.testgen.state import z3
from detour.testgen.switching import Execution, Output, SymbolicSwitch
from detour.testgen.terms import vector_of

_ALONE = {"packets that wait in queues"}


def equivalent(one: Path, other: Path) -> bool:
    """Whether that is proven of two programs (BMv2 JSON). It is not where something is not followed, nor of programs
    that write registers, as these change what becomes of later packets."""
    switches = [SymbolicSwitch(Program.from_json(file).model, {}, Effort()) for file in (one, other)]
    if any("register_write" in file.read_text() for file in (one, other)):
        return False
    ways = [list(switch.ways()) for switch in switches]
    names = [[(way.names, way.error) for way in mine] for mine in ways]
    if names[0] != names[1] or any(switch.parser.cut_short for switch in switches):
        return False
    return all(_same(switches[0].execution(a), switches[1].execution(b)) for a, b in zip(*ways, strict=True))


def _same(one: Execution, other: Execution) -> bool:
    both = one.findings, other.findings
    names = [[lookup.table.name for lookup in each.lookups] for each in both]
    if any(each.not_followed - _ALONE or any(a.reason for a in each.assumptions) for each in both):
        return False
    if len(one.outputs) != len(other.outputs) or names[0] != names[1]:
        return False
    first, second = (z3.And(*(a.term for a in each.assumptions)) for each in both)
    pairs = list(zip(one.outputs, other.outputs, strict=True))
    if not all(_same_shape(a, b) for a, b in pairs):
        return False
    hashes = list(zip(one.findings.hashes, other.findings.hashes, strict=False))
    if len(one.findings.hashes) != len(other.findings.hashes) or not all(_same_input(a, b) for a, b in hashes):
        return False
    solver = z3.Solver()
    searched = list(zip(one.findings.lookups, other.findings.lookups, strict=True))
    differences = [_differ(a, b) for a, b in pairs] + [_search_differs(a, b) for a, b in searched]
    differences += [_unequal(x, y) for a, b in hashes for xs, ys in zip(a.parts, b.parts, strict=True)
                    for x, y in zip(xs, ys, strict=True)]  # fmt: skip
    solver.add(z3.Or(first != second, z3.And(first, z3.Or(*differences))))
    return Effort().check(solver) == z3.unsat


def _same_input(a: Hash, b: Hash) -> bool:
    """Whether the two hashes, whose results have the same name in both programs, are of values of the same widths."""
    widths = ([value.bits for _, value in each.parts] for each in (a, b))
    return a.algorithm == b.algorithm and next(widths) == next(widths)


def _same_shape(a: Output, b: Output) -> bool:
    """Whether the two have values of the same widths."""
    return _widths(a) == _widths(b) and a.rest[1] == b.rest[1]


def _widths(output: Output) -> list[list[int]]:
    headers = (values for _, values in output.headers)
    return [[value.bits for value in values] for values in (*headers, output.rest[0])]


def _differ(a: Output, b: Output) -> Any:
    there = _all(a.conditions), _all(b.conditions)
    parts = [_unequal(a.port, b.port), _unequal(a.truncate, b.truncate)]
    parts += [_unequal(x, y) for x, y in zip(a.rest[0], b.rest[0], strict=True)]
    for (valid, values), (other_valid, others) in zip(a.headers, b.headers, strict=True):
        fields = [_unequal(x, y) for x, y in zip(values, others, strict=True)]
        parts += [_unequal(valid, other_valid), z3.And(vector_of(valid) == 1, z3.Or(*fields))]
    return z3.Or(there[0] != there[1], z3.And(there[0], z3.Or(*parts)))


def _search_differs(a: Lookup, b: Lookup) -> Any:
    """Whether a table is searched in one program only, or for another key."""
    there = _all(a.conditions), _all(b.conditions)
    keys = (_unequal(x, y) for x, y in zip(a.key, b.key, strict=True))
    return z3.Or(there[0] != there[1], z3.And(there[0], z3.Or(*keys)))


def _unequal(a: Value, b: Value) -> Any:
    return vector_of(a) != vector_of(b)


def _all(conditions: Conditions) -> Any:
    return z3.And(*(condition.term for condition in conditions))
