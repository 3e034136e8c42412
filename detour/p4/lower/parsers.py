# SPDX-License-Identifier: Apache-2.0
"""Parsers (section 13): states become blocks, and stay loops where they are; parsers that they apply are inlined."""

from __future__ import annotations

from itertools import product

from detour.p4 import core, elaborate, ir
from detour.p4.ir import Block, Case, Field, LastField, Value
from detour.p4.lower import operators
from detour.p4.lower.calls import bind, declare_locals
from detour.p4.lower.compare import part
from detour.p4.lower.context import Context, Frame
from detour.p4.lower.expressions import operands
from detour.p4.lower.places import Operand, ScalarPlace, is_scalar, members, scalar_width
from detour.p4.types import BOOL, Struct, Tuple, Type, underlying, width


def lower_parser(ctx: Context, block: elaborate.Block, name: str) -> ir.ParserGraph:
    """A parser of the architecture. Its parameters are bound."""
    parser = block.declaration
    assert isinstance(parser, core.Parser)
    outer = ctx.instance, ctx.parsing
    ctx.instance, ctx.parsing = block, True
    entry, end = Block(is_open=True), Block()
    ctx.builder.enter(entry)
    frame = Frame(end)
    with ctx.frame(frame):
        ctx.state_name = "start"
        declare_locals(ctx, parser.locals)
        _states(ctx, parser, end, "")
    ctx.builder.start(end)
    ctx.builder.stop()
    ctx.instance, ctx.parsing = outer
    return ir.ParserGraph(name, entry)


def apply_parser(ctx: Context, block: elaborate.Block, e: core.Apply) -> None:
    """A parser that another one applies: control goes on behind the call where it accepts."""
    parser = block.declaration
    assert isinstance(parser, core.Parser)
    name = ctx.state_name
    frame = Frame(Block(ctx.storage.unique(f"state {name}").removeprefix("state ")))
    bind(ctx, parser.parameters, e.arguments, frame)
    outer, ctx.instance = ctx.instance, block
    with ctx.frame(frame):
        declare_locals(ctx, parser.locals)
        _states(ctx, parser, frame.exit, f"{parser.name}_")
    ctx.builder.start(frame.exit)
    ctx.state_name = name
    for copy in frame.copy_out:
        copy()
    ctx.instance = outer


def _states(ctx: Context, parser: core.Parser, accept: Block, prefix: str) -> None:
    """Lowers all states that can be reached, from the builder's block on."""
    accept.is_open = True
    blocks: dict[core.State, Block] = {}
    pending: list[core.State] = []

    def target(state: core.State) -> Block | None:
        """The block of a state; None: reject."""
        if state.name == "accept":
            return accept
        if state.name == "reject":
            return None
        if state not in blocks:
            name = ctx.storage.unique(f"state {prefix}{state.name}").removeprefix("state ")
            blocks[state] = Block(name, is_open=True)
            pending.append(state)
        return blocks[state]

    first = target(next(state for state in parser.states if state.name == "start"))
    assert first is not None
    ctx.builder.goto(first)
    while pending:
        state = pending.pop()
        block = blocks[state]
        ctx.builder.start(block)
        ctx.state_name = block.name
        for statement in state.statements:
            ctx.execute(statement)
        if ctx.builder.block is not None:
            _transition(ctx, state, target)


def _transition(ctx: Context, state: core.State, target) -> None:
    select = state.transition
    if select is None:
        ctx.builder.stop(state.span)
        return
    outer, ctx.span = ctx.span, select.span
    if not select.expressions:
        following = target(select.cases[0].state)
        if following is None:
            ctx.builder.stop(select.span)
        else:
            ctx.builder.goto(following, select.span)
    else:
        _select(ctx, select, target)
    ctx.span = outer


def _select(ctx: Context, select: core.Select, target) -> None:
    keys: list[Value] = []
    kinds: list[Type] = []
    for operand, e in zip(operands(ctx, select.expressions), select.expressions, strict=True):
        for scalar, kind in _flat(ctx, operand, e.type):
            keys.append(_key(ctx, scalar, kind))
            kinds.append(kind)
    rejected = Block()
    cases: list[Case] = []
    for case in select.cases:
        following = target(case.state)
        if following is None:
            following = rejected
        cases += _cases(ctx, case, kinds, following)
        if cases and cases[-1].kind == "default":
            break
    ctx.builder.finish(ir.Choose(select.span, keys=tuple(keys), cases=cases))
    ctx.builder.start(rejected)
    ctx.builder.stop()


def _flat(ctx: Context, operand: Operand, kind: Type) -> list[tuple[Operand, Type]]:
    """Scalars that a selected value consists of."""
    if is_scalar(kind):
        return [(operand, kind)]
    assert isinstance(kind, Struct | Tuple)
    return [each for name, inner in members(kind) for each in _flat(ctx, part(ctx, operand, name), inner)]


def _key(ctx: Context, operand: Operand, kind: Type) -> Value:
    """A field, which is all that BMv2 can select on."""
    value = ctx.read(operand) if isinstance(operand, ScalarPlace) else operand
    assert isinstance(value, Value)
    bare = operators.as_data(value) if underlying(kind) == BOOL else value
    if isinstance(bare, LastField | Field):
        return bare
    place = ctx.temporary(kind)
    assert isinstance(place, ScalarPlace)
    ctx.store(place, value)
    return place.value


def _cases(ctx: Context, case: core.SelectCase, kinds: list[Type], following: Block) -> list[Case]:
    labels = case.labels
    if isinstance(labels, core.Anything):
        return [Case("default", None, None, 0, following)]
    sets: list[core.Expression] = list(labels.elements) if isinstance(labels, core.TupleValue) else [labels]
    named = [each for each in sets if isinstance(each, core.Ref) and isinstance(each.declaration, core.ValueSet)]
    if named:
        if len(sets) > 1:
            raise ctx.refuse(case.span, "BMv2 matches a value set only alone, not beside other sets")
        return [Case("parse_vset", _value_set(ctx, named[0]), None, 0, following)]
    if all(isinstance(each, core.Anything) for each in sets):
        return [Case("default", None, None, 0, following)]
    widths = [scalar_width(kind)[0] for kind in kinds]
    flat = [each for label in sets for each in _flat_set(label)]
    choices = [_alternatives(ctx, each, bits) for each, bits in zip(flat, widths, strict=True)]
    return [_case(alternative, widths, following) for alternative in product(*choices)]


def _flat_set(label: core.Expression) -> list[core.Expression]:
    """The sets of a label for a tuple or struct."""
    if isinstance(label, core.TupleValue):
        return [each for element in label.elements for each in _flat_set(element)]
    if isinstance(label, core.StructValue):
        return [each for _, element in label.fields for each in _flat_set(element)]
    return [label]


def _case(alternative: tuple[tuple[int, int], ...], widths: list[int], following: Block) -> Case:
    """A transition: values and masks of all keys side by side, each filled up to bytes."""
    value = mask = size = 0
    full = True
    for (number, bits), key in zip(alternative, widths, strict=True):
        padded = (key + 7) // 8 * 8
        value, mask, size = value << padded | number, mask << padded | bits, size + padded
        full = full and bits == (1 << key) - 1
    return Case("hexstr", value, None if full else mask, size, following)


def _alternatives(ctx: Context, e: core.Expression, bits: int) -> list[tuple[int, int]]:
    """Values and masks that a set consists of; a range is several."""
    ones = (1 << bits) - 1
    if isinstance(e, core.Anything):
        return [(0, 0)]
    if isinstance(e, core.MaskSet):
        mask = ctx.number(e.mask, "a label of select") & ones
        return [(ctx.number(e.value, "a label of select") & mask, mask)]
    if isinstance(e, core.RangeSet):
        signed = scalar_width(e.low.type)[1]
        low, high = ctx.number(e.low, "a label of select"), ctx.number(e.high, "a label of select")
        if signed and low < 0 <= high:
            return [*range_masks(low & ones, ones, bits), *range_masks(0, high, bits)]
        return range_masks(low & ones, high & ones, bits)
    return [(ctx.number(e, "a label of select") & ones, ones)]


def range_masks(low: int, high: int, bits: int) -> list[tuple[int, int]]:
    """The fewest values and masks that cover `low` to `high`."""
    ones = (1 << bits) - 1
    covers: list[tuple[int, int]] = []
    while low <= high:
        size = low & -low if low else 1 << bits
        while size > high - low + 1:
            size >>= 1
        covers.append((low, ones & ~(size - 1)))
        low += size
    return covers


def _value_set(ctx: Context, e: core.Ref) -> str:
    """The name of a value set, which is declared when it is used first."""
    assert ctx.instance is not None
    declaration = e.declaration
    assert isinstance(declaration, core.ValueSet)
    name = ctx.instance.name_of(declaration)
    if not any(each["name"] == name for each in ctx.program.objects.get("parse_vsets", ())):
        size = ctx.instance.number(declaration.size) if declaration.size else None
        kind = declaration.type
        bits = width(kind) if underlying(kind) != BOOL else 1
        ctx.program.add("parse_vsets", name, declaration.span, compressed_bitwidth=bits, max_size=size)
    return name
