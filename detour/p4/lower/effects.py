# SPDX-License-Identifier: Apache-2.0
"""Side effects of code: which expressions have some, and what actions read and write by name, which decides whether
their arguments need copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from detour.p4 import core
from detour.p4.core import parts, walk
from detour.p4.lower.places import Path

_CALLS = (core.CallFunction, core.CallAction, core.CallMethod, core.Apply, core.ApplyResult)
_CHAINS = (core.Member, core.StackMember, core.Index, core.Slice)
_PURE_METHODS = frozenset(("length",))


def has_effects(expression: core.Expression | None) -> bool:
    """Return whether evaluating it may change something: whether there is a call in it."""
    return any(
        isinstance(node, _CALLS) and not (isinstance(node, core.CallMethod) and node.method.name in _PURE_METHODS)
        for node in walk(expression)
    )


def last_effect(expressions: Sequence[core.Expression | None]) -> int:
    """The number of the last expression with side effects; -1: there is none."""
    return max((number for number, each in enumerate(expressions) if has_effects(each)), default=-1)


class Accesses:
    """Accesses of an action, with the actions that it calls: paths that begin with a declaration."""

    def __init__(self) -> None:
        self._cache: dict[core.Action, tuple[frozenset[Path], frozenset[Path]]] = {}

    def of(self, action: core.Action) -> tuple[frozenset[Path], frozenset[Path]]:
        """All paths, and those that are written."""
        if action not in self._cache:
            self._cache[action] = frozenset(), frozenset()
            inner = [self.of(node.action) for node in walk(action.body) if isinstance(node, core.CallAction)]
            everything, written = frozenset(_used(action.body)), frozenset(_written(action.body))
            self._cache[action] = everything.union(*(e for e, _ in inner)), written.union(*(w for _, w in inner))
        return self._cache[action]


def _path(e: object) -> Path | None:
    """Declaration, names of members and indexes (None: computed at run time); None for what is no variable."""
    if isinstance(e, core.Ref):
        return (e.declaration,)
    base = _path(e.base) if isinstance(e, _CHAINS) else None
    if base is None or isinstance(e, core.Slice):
        return base
    if isinstance(e, core.Index):
        return (*base, str(e.index.value) if isinstance(e.index, core.Literal) else None)
    return (*base, e.name if isinstance(e, core.Member) else None)  # type: ignore[attr-defined]


def _used(body: object) -> Iterator[Path]:
    """The longest paths that code uses: not those of the bases of members."""
    pending = [body]
    while pending:
        node = pending.pop()
        if isinstance(node, tuple):
            pending += node
            continue
        if path := _path(node):
            yield path
            while isinstance(node, _CHAINS):
                pending += [each for each in parts(node) if each is not node.base]
                node = node.base
        elif isinstance(node, core.Expression | core.Statement | core.SwitchCase):
            pending += parts(node)


def _written(body: object) -> Iterator[Path]:
    return (path for node in walk(body) for target in core.written(node) if (path := _path(target)))
