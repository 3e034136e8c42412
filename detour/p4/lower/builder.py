# SPDX-License-Identifier: Apache-2.0
"""Builds graphs of blocks, in the order of execution, and keeps what is known of the values of fields on the way."""

from __future__ import annotations

from collections import Counter

from detour.p4.ir import Block, Branch, Call, Const, End, Field, Goto, Truth, Value
from detour.p4.source import NOWHERE, Span


class Builder:
    """Appends to `block`; None: what follows cannot be reached and is dropped."""

    def __init__(self) -> None:
        self.block: Block | None = None
        self.known: dict[Field, Const] = {}

    def start(self, block: Block) -> None:
        """Go on in a block, if any path built before leads there."""
        if not block.reached:
            self.block = None
            self.known = {}
            return
        self.block = block
        self.known = {} if block.is_open or block.known is None else dict(block.known)

    def enter(self, block: Block) -> None:
        """Begin a graph: an action, a parser, a control."""
        block.reached = True
        if block.known is None:
            block.known = {}
        self.start(block)

    def call(self, op: str, *arguments: Value, span: Span = NOWHERE) -> None:
        if self.block is not None:
            self.block.calls.append(Call(op, arguments, span))

    # -- ends

    def finish(self, end: End) -> None:
        """End the block. What is known goes along to the targets."""
        if self.block is None:
            return
        self.block.end = end
        for target in end.targets:
            self._reach(target)
        self.block = None

    def _reach(self, target: Block) -> None:
        target.reached = True
        if target.known is None:
            target.known = dict(self.known)
        elif target.known:
            known = self.known
            target.known = {field: value for field, value in target.known.items() if known.get(field) == value}

    def goto(self, target: Block, span: Span = NOWHERE) -> None:
        self.finish(Goto(span, [target]))

    def branch(self, condition: Value, yes: Block, no: Block, span: Span = NOWHERE) -> None:
        if type(condition) is Truth:
            self.goto(yes if condition.value else no, span)
        else:
            self.finish(Branch(span, [yes, no], condition=condition))


# ---------------------------------------------------------------- simplification


def simplify(entry: Block) -> list[Block]:
    """Skip blocks that do nothing but go on, and join those that follow each other alone.

    Returns:
        All blocks that can be reached, the entry first, in depth-first order.
    """
    shortcuts: dict[Block, Block] = {}
    for block in _reachable(entry):
        target, visited = block, {block}
        while type(target.end) is Goto and not target.calls and target.end.targets[0] not in visited:
            (target,) = target.end.targets
            visited.add(target)
        shortcuts[block] = target
    for block in shortcuts:
        block.end.targets = [shortcuts[target] for target in block.end.targets]
    order = _reachable(entry)
    count = Counter(target for block in order for target in block.end.targets)
    gone: set[Block] = set()
    for block in order:
        while block not in gone and type(block.end) is Goto:
            (target,) = block.end.targets
            if count[target] != 1 or target is entry or target is block:
                break
            block.calls.extend(target.calls)
            block.name = block.name or target.name
            block.end = target.end
            gone.add(target)
    return _reachable(entry)


def _reachable(entry: Block) -> list[Block]:
    """Blocks in depth-first order, without recursion."""
    order: list[Block] = []
    visited: set[Block] = set()
    stack = [entry]
    while stack:
        block = stack.pop()
        if block in visited:
            continue
        visited.add(block)
        order.append(block)
        stack.extend(reversed(block.end.targets))
    return order


def sorted_blocks(entry: Block, *, cycles: bool = False) -> list[Block]:
    """Blocks in an order in which each stands before its targets, `yes` right behind its branch where possible.

    Raises:
        ValueError: the graph has a cycle, and may have none; the argument is a block in it.
    """
    order: list[Block] = []
    is_done: dict[Block, bool] = {entry: False}
    stack: list[tuple[Block, int]] = [(entry, 0)]
    while stack:
        block, at = stack.pop()
        targets = block.end.targets
        if at == len(targets):
            is_done[block] = True
            order.append(block)
            continue
        stack.append((block, at + 1))
        target = targets[len(targets) - 1 - at]
        if target not in is_done:
            is_done[target] = False
            stack.append((target, 0))
        elif not is_done[target] and not cycles:
            raise ValueError(target)
    order.reverse()
    return order
