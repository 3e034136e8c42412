# SPDX-License-Identifier: Apache-2.0
"""Live parts of a program: P4Info lists no tables, actions, controls and parsers that nothing applies or calls."""

from __future__ import annotations

from collections.abc import Iterator

from detour.p4 import core, types
from detour.p4.elaborate import Block, Elaboration


class Live:
    """Code that can run, from the blocks of `main` on; branches on constants are decided."""

    def __init__(self, elaboration: Elaboration) -> None:
        self.elaboration = elaboration
        self.functions: list[core.CallFunction] = []
        """Calls of extern functions in controls."""
        self.called: dict[Block, dict[core.Declaration, None]] = {}
        """For each block the tables that it applies, and the actions that its body calls itself, in order."""
        self.value_sets: set[core.Declaration] = set()
        self._seen: set[tuple[Block, core.Declaration]] = set()
        blocks = elaboration.blocks
        self.roots = [one for one in blocks if one.parent and isinstance(one.parent.declaration, core.BlockType)]
        """Parsers and controls that are arguments of a package."""
        for root in self.roots:
            self._block(root)
        self.blocks = [one for one in blocks if one in self.called]
        """Parsers and controls that run, parents before children, in the order of the source."""
        top = (one for one in elaboration.top.values() if _is_extern(one))
        self.externs = [*top, *(one for one in blocks if _is_extern(one) and one.parent in self.called)]
        """Instances of externs: those at top level, then those inside blocks that run."""

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
                self._once(block, node.action, node.action.body)
            elif isinstance(node, core.CallFunction):
                if node.function.body is None:
                    if isinstance(block.declaration, core.Control):
                        self.functions.append(node)
                else:
                    self._once(block, node.function, node.function.body)
            elif isinstance(node, core.Ref) and isinstance(node.declaration, core.ValueSet):
                self.value_sets.add(node.declaration)

    def _apply(self, block: Block, node: core.Apply) -> None:
        target = node.target
        if isinstance(target, core.Ref) and isinstance(target.declaration, core.Table):
            table = target.declaration
            self.called[block][table] = None
            self._once(block, table, tuple(key.expression for key in table.keys))
            for choice in table.actions:
                self._once(block, choice.action, choice.action.body)
            return
        value = block.value(target)
        if isinstance(value, Block):
            self._block(value)

    def _once(self, block: Block, declaration: core.Declaration, code: object) -> None:
        """The code of a declaration, the first time."""
        if (block, declaration) not in self._seen:
            self._seen.add((block, declaration))
            self._code(block, code, False)


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
            pending.extend(reversed(core.until_end(node.statements)))
        elif isinstance(node, tuple):
            pending.extend(reversed(node))
        elif isinstance(node, core.If) and (chosen := block.number(node.condition)) is not None:
            pending.append(node.yes if chosen else node.no)
        elif isinstance(node, (core.Expression, core.Statement, core.SwitchCase)):
            yield node
            pending.extend(reversed(core.parts(node)))
