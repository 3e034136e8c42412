# SPDX-License-Identifier: Apache-2.0
"""What of a program can run: P4Info lists no tables, actions, controls and parsers that nothing applies or calls."""

from __future__ import annotations

from collections.abc import Iterator

from detour.p4 import core, types
from detour.p4.elaborate import Block, Elaboration

_ENDS = (core.Return, core.Break, core.Continue)
"""Statements behind which nothing runs. As in p4c, `exit` is not one of them."""


class Live:
    """Code that can run, from the blocks of `main` on; branches on constants are decided."""

    def __init__(self, elaboration: Elaboration) -> None:
        self.elaboration = elaboration
        self.blocks: list[Block] = []
        """Parsers and controls that run, parents before children, in the order of the source."""
        self.roots: list[Block] = []
        """Those of the blocks that are arguments of the package, or stand at top level."""
        self.externs: list[Block] = [one for one in elaboration.top.values() if _is_extern(one)]
        """Instances of externs: those at top level, then those inside blocks that run."""
        self.functions: list[core.CallFunction] = []
        """Calls of extern functions in controls."""
        self.called: dict[Block, dict[core.Declaration, None]] = {}
        """For each block the tables that it applies, and the actions that its body calls itself, in order."""
        self.value_sets: set[core.Declaration] = set()
        self._seen: set[tuple[Block, core.Declaration]] = set()
        self._package(elaboration.main)
        for root in self.roots:
            self._inside(root)

    def _package(self, package: Block) -> None:
        for value in package.arguments.values():
            if isinstance(value, Block):
                if isinstance(value.declaration, core.BlockType):
                    self._package(value)
                elif not _is_extern(value):
                    self.roots.append(value)
                    self._block(value)

    def _inside(self, block: Block) -> None:
        self.blocks.append(block)
        for child in block.children.values():
            if _is_extern(child):
                self.externs.append(child)
            elif child in self.called:
                self._inside(child)

    def _block(self, block: Block) -> None:
        if block in self.called:
            return
        self.called[block] = {}
        declaration = block.declaration
        if isinstance(declaration, core.Control):
            self._code(block, declaration.body, True)
        elif isinstance(declaration, core.Parser):
            for state in declaration.states:
                self._code(block, state.statements, False)
                for case in state.transition.cases if state.transition else ():
                    self._code(block, case.labels, False)
        for local in declaration.locals if isinstance(declaration, (core.Control, core.Parser)) else ():
            if isinstance(local, core.Declare):
                self._code(block, local.initial, False)

    def _code(self, block: Block, body: object, direct: bool) -> None:
        for node in reachable(body, block):
            if isinstance(node, core.Apply):
                self._apply(block, node)
            elif isinstance(node, core.CallAction):
                if direct:
                    self.called[block][node.action] = None
                self._action(block, node.action)
            elif isinstance(node, core.CallFunction):
                if node.function.body is None:
                    if isinstance(block.declaration, core.Control):
                        self.functions.append(node)
                elif (block, node.function) not in self._seen:
                    self._seen.add((block, node.function))
                    self._code(block, node.function.body, False)
            elif isinstance(node, core.Ref) and isinstance(node.declaration, core.ValueSet):
                self.value_sets.add(node.declaration)

    def _apply(self, block: Block, node: core.Apply) -> None:
        target = node.target
        if isinstance(target, core.Ref) and isinstance(target.declaration, core.Table):
            table = target.declaration
            self.called[block][table] = None
            if (block, table) not in self._seen:
                self._seen.add((block, table))
                self._code(block, tuple(key.expression for key in table.keys), False)
                for choice in table.actions:
                    self._action(block, choice.action)
            return
        value = block.value(target)
        if isinstance(value, Block):
            # Instances at top level have no parent that would list them.
            if value.parent is None and value not in self.called:
                self.roots.append(value)
            self._block(value)

    def _action(self, block: Block, action: core.Action) -> None:
        if (block, action) not in self._seen:
            self._seen.add((block, action))
            self._code(block, action.body, False)


def _is_extern(block: Block) -> bool:
    return isinstance(block.type, types.Extern)


def reachable(body: object, block: Block) -> Iterator[object]:
    """Expressions and statements that can run, in order: as `core.walk`, without branches that constants rule
    out and what follows a `return` or `exit`.
    """
    pending = [body]
    while pending:
        node = pending.pop()
        if isinstance(node, core.BlockStatement):
            pending.extend(reversed(_until_end(node.statements)))
        elif isinstance(node, tuple):
            pending.extend(reversed(node))
        elif isinstance(node, core.If) and (chosen := block.number(node.condition)) is not None:
            pending.append(node.yes if chosen else node.no)
        elif isinstance(node, (core.Expression, core.Statement, core.SwitchCase)):
            yield node
            pending.extend(reversed(core.parts(node)))


def _until_end(statements: tuple[core.Statement, ...]) -> tuple[core.Statement, ...]:
    for at, one in enumerate(statements):
        if isinstance(one, _ENDS):
            return statements[: at + 1]
    return statements
