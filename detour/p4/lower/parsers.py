# SPDX-License-Identifier: Apache-2.0
"""Parsers (section 13): states become blocks, and stay loops where they are; parsers that they apply are inlined."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from detour.p4 import core, elaborate, ir
from detour.p4.ir import Block, Field, Json, LastField, Value, hexadecimal
from detour.p4.lower import operators
from detour.p4.lower.calls import bind, declare_locals
from detour.p4.lower.context import Context, Frame
from detour.p4.lower.expressions import operands
from detour.p4.lower.places import Operand, flattened, scalar_width
from detour.p4.types import BOOL, Type, underlying, width

_LABEL = "a label of select"
_DEFAULT: Json = {"type": "default", "value": None, "mask": None}


def lower_parser(ctx: Context, block: elaborate.Block, name: str) -> None:
    """A parser of the architecture. Its parameters are bound."""
    ctx.instance, ctx.parsing, ctx.state_name = block, True, "start"
    entry, end = Block(is_open=True), Block()
    ctx.builder.enter(entry)
    _run(ctx, block, Frame(end), "")
    ctx.parsing = False
    ctx.program.parsers.append((name, entry))


def apply_parser(ctx: Context, block: elaborate.Block, e: core.Apply) -> None:
    """A parser that another one applies: control goes on behind the call where it accepts."""
    name, outer = ctx.state_name, ctx.instance
    frame = Frame(Block(_unique(ctx, name)))
    assert isinstance(block.declaration, core.Parser)
    bind(ctx, block.declaration.parameters, e.arguments, frame)
    ctx.instance = block
    _run(ctx, block, frame, f"{block.declaration.name}_")
    ctx.state_name = name
    for copy in frame.copy_out:
        copy()
    ctx.instance = outer


def _run(ctx: Context, block: elaborate.Block, frame: Frame, prefix: str) -> None:
    parser = block.declaration
    assert isinstance(parser, core.Parser)
    with ctx.frame(frame):
        declare_locals(ctx, parser.locals)
        _states(ctx, parser, frame.exit, prefix)
    ctx.builder.start(frame.exit)


def _unique(ctx: Context, state: str) -> str:
    return ctx.storage.unique(f"state {state}").removeprefix("state ")


def _states(ctx: Context, parser: core.Parser, accept: Block, prefix: str) -> None:
    """Lower all states that can be reached, from the builder's block on."""
    accept.is_open = True
    blocks: dict[core.State, Block] = {}
    pending: list[core.State] = []

    def target(state: core.State) -> Block:
        if state.name in ("accept", "reject"):
            return accept if state.name == "accept" else Block()
        if state not in blocks:
            blocks[state] = Block(_unique(ctx, prefix + state.name), is_open=True)
            pending.append(state)
        return blocks[state]

    ctx.builder.goto(target(next(state for state in parser.states if state.name == "start")))
    while pending:
        state = pending.pop()
        ctx.builder.start(blocks[state])
        ctx.state_name = blocks[state].name
        for statement in state.statements:
            ctx.execute(statement)
        select = state.transition
        if ctx.builder.block is None or select is None:
            ctx.builder.finish(ir.End(state.span))
        elif select.expressions:
            _select(ctx, select, target)
        else:
            ctx.builder.goto(target(select.cases[0].state), select.span)


def _select(ctx: Context, select: core.Select, target: Callable[[core.State], Block]) -> None:
    outer, ctx.span = ctx.span, select.span
    keys: list[Value] = []
    kinds: list[Type] = []
    for operand, e in zip(operands(ctx, select.expressions), select.expressions, strict=True):
        for scalar, kind in flattened(operand, e.type):
            keys.append(_key(ctx, scalar, kind))
            kinds.append(kind)
    cases: list[Json] = []
    targets: list[Block] = []
    for case in select.cases:
        cases += _cases(ctx, case, kinds)
        targets += [target(case.state)] * (len(cases) - len(targets))
        if cases and cases[-1]["type"] == "default":
            break
    ctx.builder.finish(ir.Choose(select.span, targets, keys=tuple(keys), cases=cases))
    ctx.span = outer


def _key(ctx: Context, operand: Operand, kind: Type) -> Value:
    """A field, which is all that BMv2 can select on."""
    value = ctx.scalar(operand)
    bare = operators.as_data(value) if underlying(kind) == BOOL else value
    if isinstance(bare, LastField | Field):
        return bare
    place = ctx.scalar_temporary(kind)
    ctx.store(place, value)
    return place.ref


def _cases(ctx: Context, case: core.SelectCase, kinds: list[Type]) -> list[Json]:
    labels = case.labels
    sets = list(labels.elements) if isinstance(labels, core.TupleValue) else [labels]
    named = [each for each in sets if isinstance(each, core.Ref) and isinstance(each.declaration, core.ValueSet)]
    if named:
        if len(sets) > 1:
            raise ctx.refuse(case.span, "BMv2 matches a value set only alone, not beside other sets")
        return [{"type": "parse_vset", "value": _value_set(ctx, named[0]), "mask": None}]
    if all(isinstance(each, core.Anything) for each in sets):
        return [_DEFAULT]
    widths = [scalar_width(kind)[0] for kind in kinds]
    flat = [each for label in sets for each in _flat_set(label)]
    choices = [_alternatives(ctx, each, bits) for each, bits in zip(flat, widths, strict=True)]
    return [_case(alternative, widths) for alternative in product(*choices)]


def _flat_set(label: core.Expression) -> list[core.Expression]:
    """The sets of a label for a tuple or struct."""
    if isinstance(label, core.TupleValue):
        return [each for element in label.elements for each in _flat_set(element)]
    if isinstance(label, core.StructValue):
        return [each for _, element in label.fields for each in _flat_set(element)]
    return [label]


def _case(alternative: tuple[tuple[int, int], ...], widths: list[int]) -> Json:
    """A transition: values and masks of all keys side by side, each filled up to bytes."""
    value = mask = size = 0
    is_exact = True
    for (number, bits), key in zip(alternative, widths, strict=True):
        padded = (key + 7) // 8 * 8
        value, mask, size = value << padded | number, mask << padded | bits, size + padded
        is_exact = is_exact and bits == (1 << key) - 1
    return {
        "type": "hexstr",
        "value": hexadecimal(value, size),
        "mask": None if is_exact else hexadecimal(mask, size),
    }


def _alternatives(ctx: Context, e: core.Expression, bits: int) -> list[tuple[int, int]]:
    """Values and masks that a set consists of; a range is several."""
    ones = (1 << bits) - 1
    if isinstance(e, core.Anything):
        return [(0, 0)]
    if isinstance(e, core.MaskSet):
        mask = ctx.number(e.mask, _LABEL) & ones
        return [(ctx.number(e.value, _LABEL) & mask, mask)]
    if isinstance(e, core.RangeSet):
        signed = scalar_width(e.low.type)[1]
        low, high = ctx.number(e.low, _LABEL), ctx.number(e.high, _LABEL)
        if signed and low < 0 <= high:
            return [*range_masks(low & ones, ones, bits), *range_masks(0, high, bits)]
        return range_masks(low & ones, high & ones, bits)
    return [(ctx.number(e, _LABEL) & ones, ones)]


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
    declaration = e.declaration
    assert isinstance(declaration, core.ValueSet)
    name = ctx.instance.name_of(declaration)
    if not any(each["name"] == name for each in ctx.program.objects["parse_vsets"]):
        size = ctx.instance.number(declaration.size) if declaration.size else None
        bits = width(declaration.type)
        ctx.program.add("parse_vsets", name, declaration.span, compressed_bitwidth=bits, max_size=size)
    return name
