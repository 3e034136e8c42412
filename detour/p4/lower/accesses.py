# SPDX-License-Identifier: Apache-2.0
"""Variables that the body of an action reads or writes by name, which decides whether its arguments need copies."""

from __future__ import annotations

from collections.abc import Iterator

from detour.p4 import core
from detour.p4.core import parts, walk

Path = tuple[object, ...]


class Accesses:
    """What an action touches, with the actions that it calls: paths that begin with a declaration."""

    def __init__(self) -> None:
        self._cache: dict[core.Action, tuple[frozenset[Path], frozenset[Path]]] = {}

    def of(self, action: core.Action) -> tuple[frozenset[Path], frozenset[Path]]:
        """All paths, and those that are written."""
        if action not in self._cache:
            self._cache[action] = frozenset(), frozenset()
            everything: set[Path] = set()
            written: set[Path] = set()
            for node in walk(action.body):
                if isinstance(node, core.CallAction):
                    inner, changed = self.of(node.action)
                    everything |= inner
                    written |= changed
                if isinstance(node, core.Ref | core.Member | core.Index | core.Slice) and (path := path_of(node)):
                    everything.add(path)
                written.update(_written(node))
            # A base is walked as well as its member: only the longest paths say what is touched.
            covered = {path[:end] for path in everything for end in range(1, len(path))}
            whole = set(_whole(action.body))
            longest = {path for path in everything if path not in covered or path in whole}
            self._cache[action] = frozenset(longest), frozenset(written)
        return self._cache[action]


def path_of(e: object) -> Path | None:
    """Declaration, names of members and indexes; None for what is computed at run time."""
    match e:
        case core.Ref():
            return (e.declaration,)
        case core.Member():
            base = path_of(e.base)
            return (*base, e.name) if base else None
        case core.Index():
            base = path_of(e.base)
            index = e.index.value if isinstance(e.index, core.Literal) else None
            return (*base, index) if base else None
        case core.Slice():
            return path_of(e.base)
        case core.StackMember():
            base = path_of(e.base)
            return (*base, None) if base else None
    return None


def _whole(body: object) -> Iterator[Path]:
    """Paths that are used themselves, not only as the base of a longer one."""
    chain = (core.Member, core.Index, core.Slice, core.StackMember)
    for node in walk(body):
        bases = {id(node.base)} if isinstance(node, chain) else set()  # type: ignore[attr-defined]
        for part in parts(node):
            for each in part if isinstance(part, tuple) else (part,):
                if isinstance(each, core.Ref | core.Member | core.Index) and id(each) not in bases:
                    path = path_of(each)
                    if path:
                        yield path


def _written(node: object) -> Iterator[Path]:
    targets: list[object] = []
    match node:
        case core.Assign():
            targets.append(node.target)
        case core.CallBuiltin() if node.name != "isValid":
            targets.append(node.receiver)
        case core.CallFunction() | core.CallMethod() | core.CallAction():
            of = node.function if isinstance(node, core.CallFunction) else None
            of = node.method if isinstance(node, core.CallMethod) else of or node.action  # type: ignore[union-attr]
            for parameter, argument in zip(of.parameters, node.arguments, strict=False):
                if parameter.direction in ("out", "inout"):
                    targets.append(argument)
    for target in targets:
        if path := path_of(target):
            yield path
