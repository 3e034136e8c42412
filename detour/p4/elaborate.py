# SPDX-License-Identifier: Apache-2.0
"""Instances of the program from `main` down (specification, section 18: compile-time evaluation), and the names under
which control planes know them (section 18.3).

    package main = V1Switch(P(), V(), MyIngress(), ...)
                                      └ counter c, table t, Sub(16) s1      MyIngress.c, MyIngress.t
                                                            └ register r    MyIngress.s1.r

A block is an instance of a package, parser, control or extern with what its constructor's parameters are bound to:
`Block.value` folds expressions of its declaration with these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from detour.p4 import core, types
from detour.p4.check.constants import fold
from detour.p4.core import walk

Node = core.Instance | core.Construct
"""What stands for an instance in the source: a named one, or a constructor call without a name."""

_FOLDED = (core.Cast, core.Unary, core.Binary, core.Slice, core.Member, core.Index, core.TupleValue, core.StructValue)


@dataclass(eq=False, slots=True)
class Block:
    """An instance. `name` is the control plane's: "MyIngress.s1"; that of a package is empty."""

    node: Node
    name: str
    parent: Block | None = None
    arguments: dict[str, Value] = field(default_factory=dict)
    """By name of the constructor's parameter: other instances, or folded expressions."""
    children: dict[Node, Block] = field(default_factory=dict)
    """By identity of the node, in the order of the source."""
    top: dict[core.Instance, Block] = field(default_factory=dict, repr=False)
    """Instances at top level: one dictionary for all blocks."""
    bindings: dict[core.Variable, Value] = field(default_factory=dict, repr=False)
    type: types.Extern | types.Block = field(init=False)
    declaration: core.Parser | core.Control | core.Extern | core.BlockType = field(init=False)

    def __post_init__(self) -> None:
        assert isinstance(self.node.type, types.Extern | types.Block)
        self.type, self.declaration = self.node.type, self.node.type.declaration

    def value(self, expression: core.Expression) -> Value:
        """Evaluate an expression in this instance: a block for an instance, else a folded expression."""
        match expression:
            case core.Ref():
                return self._reference(expression)
            case core.Construct():
                return self.children.get(expression, expression)
            case core.Conditional():
                chosen = self.number(expression.condition)
                return expression if chosen is None else self.value(expression.yes if chosen else expression.no)
            case _ if isinstance(expression, _FOLDED):
                return fold(core.with_parts(expression, self._folded))
        return expression

    def _folded(self, part: core.Expression) -> core.Expression:
        """A part of an expression; instances stay where they are mentioned."""
        value = self.value(part)
        return value if isinstance(value, core.Expression) else part

    def _reference(self, node: core.Ref) -> Value:
        of = node.declaration
        if isinstance(of, core.Variable):
            scope: Block | None = self
            while scope is not None:
                if of in scope.bindings:
                    return scope.bindings[of]
                scope = scope.parent
        elif isinstance(of, core.Instance):
            return self.children.get(of) or self.top.get(of) or node
        elif isinstance(of, core.Constant) and of.value is not None:
            return self.value(of.value)
        return node

    def number(self, expression: core.Expression) -> int | None:
        """The number that an expression is worth in this instance, if it is one."""
        value = self.value(expression)
        if isinstance(value, core.Literal) and not isinstance(value.value, str):
            return int(value.value)
        return value.value if isinstance(value, core.EnumMember) else None

    def largest_wins(self, table: core.Table) -> bool:
        """Return whether the entry with the largest priority wins, as it does unless the table says otherwise."""
        value = table.properties.get("largest_priority_wins")
        return value is None or self.number(value) != 0

    def name_of(self, declaration: core.Declaration) -> str:
        """The control-plane name of a table, action, value set or instance that this block's declaration holds, or of
        an action at top level.
        """
        if isinstance(declaration, core.Instance) and (child := self.children.get(declaration)):
            return child.name
        if isinstance(declaration, core.Action) and not any(one is declaration for one in _locals(self.declaration)):
            return given_name(declaration).removeprefix(".")
        return qualified(self.name, given_name(declaration))


Value = core.Expression | Block


@dataclass(eq=False, slots=True)
class Elaboration:
    main: Block
    top: dict[core.Instance, Block]
    """Instances at top level that `main` uses, in the order of use."""
    blocks: list[Block]
    """All but `main`, parents before children, in the order of the source."""


def given_name(declaration: core.Declaration) -> str:
    """The name that `@name` gives, or that of the source."""
    return named(declaration.annotations) or declaration.name


def named(annotations: tuple[core.Annotation, ...]) -> str | None:
    """The name that `@name` gives."""
    name = core.annotated(annotations, "name")
    return None if name is None else str(name)


def qualified(prefix: str, name: str) -> str:
    """A name inside an instance; one with a leading dot is absolute (section 18.3.3)."""
    return name[1:] if name.startswith(".") else f"{prefix}.{name}" if prefix else name


def elaborate(program: core.Program) -> Elaboration | None:
    """Instances from `main` down; None for a program without `main`."""
    return _Elaborator(program).run(program.main) if program.main else None


class _Elaborator:
    def __init__(self, program: core.Program) -> None:
        self.program = program
        self.top: dict[core.Instance, Block] = {}
        self.blocks: list[Block] = []
        self.inner: dict[core.Declaration, tuple[tuple[core.Construct, str], ...]] = {}
        """Unnamed instances in the bodies of declarations, with names: the same for all instances of one."""

    def run(self, main: core.Instance) -> Elaboration:
        root = Block(main, "", top=self.top)
        self._bind(root)
        for declaration in self.program.declarations:
            # Externs that no block uses as an argument are used by name, from bodies.
            if isinstance(declaration, core.Instance) and isinstance(declaration.type, types.Extern):
                self._at_top(declaration)
        return Elaboration(root, self.top, self.blocks)

    def _at_top(self, instance: core.Instance) -> Block:
        """An instance at top level. Externs are known by their names, parsers and controls by those of their types."""
        if instance not in self.top:
            block = self.top[instance] = Block(instance, "", top=self.top)
            is_extern = isinstance(block.declaration, core.Extern)
            block.name = given_name(instance).removeprefix(".") if is_extern else _type_name(block)
            self._build(block)
        return self.top[instance]

    def _build(self, block: Block) -> None:
        """Bind the constructor's parameters and make the instances inside."""
        self.blocks.append(block)
        self._bind(block)
        for instance in _locals(block.declaration):
            if isinstance(instance, core.Instance):
                self._child(block, instance, given_name(instance))
        if block.declaration not in self.inner:
            self.inner[block.declaration] = tuple(_unnamed(block.declaration))
        for node, name in self.inner[block.declaration]:
            self._child(block, node, name)

    def _child(self, block: Block, node: Node, name: str) -> Block:
        """An instance inside of another; inside of a package it has the name of its type."""
        child = block.children[node] = Block(node, qualified(block.name, name), block, top=self.top)
        if isinstance(block.declaration, core.BlockType):
            child.name = _type_name(child)
        self._build(child)
        return child

    def _bind(self, block: Block) -> None:
        """Give the constructor's parameters their values. They are computed where the instance is declared, so with
        the bindings of the parent.
        """
        scope = block.parent or Block(block.node, "", top=self.top)
        parameters = constructor_parameters(block.declaration, len(block.node.arguments))
        for parameter, argument in zip(parameters, block.node.arguments, strict=False):
            if argument is None:
                continue
            if isinstance(argument, core.Construct):
                value = self._child(block, argument, parameter.name)
            elif isinstance(argument, core.Ref) and isinstance(argument.declaration, core.Instance):
                value = scope.children.get(argument.declaration) or self._at_top(argument.declaration)
            else:
                value = scope.value(argument)
            block.arguments[parameter.name] = block.bindings[parameter] = value


def _type_name(block: Block) -> str:
    return "" if isinstance(block.declaration, core.BlockType) else block.declaration.name


def constructor_parameters(declaration: core.Declaration, arguments: int) -> tuple[core.Variable, ...]:
    """Parameters of the constructor that takes that many arguments."""
    if isinstance(declaration, core.Extern):
        fitting = (one.parameters for one in declaration.constructors if len(one.parameters) == arguments)
        return next(fitting, ())
    if isinstance(declaration, core.BlockType):
        return declaration.parameters
    return declaration.constructor_parameters if isinstance(declaration, (core.Parser, core.Control)) else ()


def _locals(declaration: core.Declaration) -> tuple[core.Declaration | core.Declare, ...]:
    return declaration.locals if isinstance(declaration, (core.Parser, core.Control)) else ()


# ---------------------------------------------------------------- unnamed instances in bodies


def bodies(declaration: core.Declaration) -> Iterator[object]:
    """The code of a parser or control, with that of its actions, tables and states."""
    for one in _locals(declaration):
        if isinstance(one, core.Action):
            yield one.body
        elif isinstance(one, core.Table):
            yield (one.keys, one.actions, tuple(one.properties.values()))
        elif isinstance(one, core.Declare):
            yield one
    if isinstance(declaration, core.Parser):
        for state in declaration.states:
            yield state.statements
            # States are declarations: a select does not hold those that it leads to.
            if state.transition:
                yield (state.transition.expressions, tuple(case.labels for case in state.transition.cases))
    elif isinstance(declaration, core.Control):
        yield declaration.body


def _unnamed(declaration: core.Declaration) -> Iterator[tuple[core.Construct, str]]:
    """Constructor calls in the code of a declaration. That of a table's property has the property's `@name`, which is
    absolute, or that of the table and the property; `C.apply()` has the name of the type.
    """
    names: dict[core.Expression, str] = {}
    for table in _locals(declaration):
        if isinstance(table, core.Table):
            for key, value in table.properties.items():
                name = named(table.property_annotations.get(key, ()))
                names[value] = f"{given_name(table)}.{key}" if name is None else f".{name.removeprefix('.')}"
    inside: set[core.Expression] = set()
    for body in bodies(declaration):
        for node in walk(body):
            if isinstance(node, core.Construct):
                if node not in inside:
                    yield node, names.get(node) or str(node.type).partition("<")[0]
                inside.update(one for one in node.arguments if one is not None)


# ---------------------------------------------------------------- names of match fields


def field_name(key: core.Key, block: Block) -> str:
    """The name of a match field: that of `@name`, or the key as it is written (section 14.2.1.1)."""
    name = named(key.annotations)
    return _written(key.expression, block) or key.expression.span.text if name is None else name.removeprefix(".")


def _written(node: core.Expression, block: Block) -> str | None:
    """An expression as text: `h.ipv4.src`, `h.vlan[1].id`, `m.x[7:4]`, `h.ipv4.$valid$`; None: it is computed."""
    match node:
        case core.Ref():
            return node.declaration.name
        case core.Literal():
            return _number(node)
        case core.Member() | core.StackMember():
            return _member(node, block)
        case core.Slice():
            base, low = _written(node.base, block), block.number(node.low)
            return f"{base}[{low + node.width - 1}:{low}]" if base and low is not None else None
        case core.Index():
            base, index = _written(node.base, block), block.number(node.index)
            return f"{base}[{index}]" if base and index is not None else None
        case core.CallBuiltin(name="isValid"):
            base = _written(node.receiver, block)
            return base and f"{base}.$valid$"
        case core.Binary(operator="&"):
            left, right = _written(node.left, block), _written(node.right, block)
            return f"{left} & {right}" if left and right else None
    return None


def _member(node: core.Member | core.StackMember, block: Block) -> str | None:
    """A field by its `@name`, if it has one; a name that begins with a dot stands for the whole path."""
    fields = node.base.type.fields if isinstance(node.base.type, types.Record) else ()
    name = next((named(one.annotations) for one in fields if one.name == node.name), None) or node.name
    if name.startswith("."):
        return name[1:]
    base = _written(node.base, block)
    return base and f"{base}.{name}"


def _number(node: core.Literal) -> str:
    """A number in the base of the source, without width and leading zeros."""
    text = node.span.text.lower().split("w")[-1].split("s")[-1]
    forms = {"0x": "0x{:x}", "0b": "0b{:b}", "0o": "0o{:o}"}
    return forms.get(text[:2], "{}").format(node.value)
