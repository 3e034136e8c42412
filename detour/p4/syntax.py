# SPDX-License-Identifier: Apache-2.0
"""Syntax tree of P4_16 (specification 1.2.5, appendix "P4 grammar"): what is written, before names mean anything.

`span` is the place of the whole node. A name that the parser knows as a type is a `NamedType` (in an expression, a
`TypeExpression`); all others are `NameExpression`.
"""

from __future__ import annotations

from typing import Any

from detour.p4.source import Node, Span


class SyntaxNode(Node):
    span: Span


class Name(SyntaxNode):
    """A name where it is declared, or where a member, a state or a match kind is named."""

    text: str


class Annotation(SyntaxNode):
    """`@name`, `@name(...)` (unstructured) or `@name[...]` (structured); `@pragma` too.

    The body of an unstructured one is any text; `values` or `pairs` are set where it reads as a list of expressions
    or of `key = expression`.
    """

    name: str
    bracket: str
    """The bracket that opens the body: `(`, `[`, or nothing."""
    values: tuple[Expression, ...] = ()
    pairs: tuple[KeyValue, ...] = ()
    text: str = ""
    """The body as written, between the brackets."""
    tokens: tuple[str, ...] = ()
    """The body's tokens after preprocessing, each as written (strings with their quotes)."""


# ---------------------------------------------------------------- types


class TypeNode(SyntaxNode):
    pass


class NamedType(TypeNode):
    """A type's name and type arguments; `absolute` with a leading dot: looked up at the top level.

    Types of the language too: `bool`, `error`, `match_kind`, `string`, `int` without a width, `void`, `tuple`, `list`,
    or `_` as a type argument.
    """

    name: str
    absolute: bool = False
    arguments: tuple[TypeNode, ...] | None = None
    name_span: Span | None = None
    """Place of the name alone, where type arguments follow."""


class BitsType(TypeNode):
    """`bit<w>`, `int<w>` or `varbit<w>`; `bit` alone has the width 1."""

    kind: str
    width: Expression


class ArrayType(TypeNode):
    """`element[size]`, a header stack."""

    element: TypeNode
    size: Expression


# ---------------------------------------------------------------- expressions


class Expression(SyntaxNode):
    pass


class Literal(Expression):
    """A bool, a string or an integer; of the latter `8w1` has a width, `8s1` is signed too."""

    value: int | bool | str
    width: int | None = None
    signed: bool = False


class NameExpression(Expression):
    name: str
    absolute: bool = False


class TypeExpression(Expression):
    """A type in the place of an expression: `E` of `E.member`, `error` of `error.member`, `C` of `C(...)` and of
    `C.apply(...)`.
    """

    type: TypeNode


class Sign(Expression):
    """A sign or keyword that stands for a value: `_` or `default` as a set (`_` as an argument too), `{#}`, `this`;
    `...`, the default value, also as the last element of a list.
    """

    text: str

    @property
    def is_anything(self) -> bool:
        return self.text in ("_", "default")


class Member(Expression):
    base: Expression
    name: Name


class Index(Expression):
    base: Expression
    index: Expression


class Slice(Expression):
    """`base[high:low]`."""

    base: Expression
    high: Expression
    low: Expression


class PlusSlice(Expression):
    """`base[low +: width]`."""

    base: Expression
    low: Expression
    width: Expression


class Unary(Expression):
    """`!`, `~`, `-` or `+`."""

    operator: str
    operand: Expression


class Binary(Expression):
    """An operator between two operands; as a set also `value &&& mask` and `low .. high`."""

    operator: str
    left: Expression
    right: Expression


class Conditional(Expression):
    """`condition ? yes : no`."""

    condition: Expression
    yes: Expression
    no: Expression


class Cast(Expression):
    """`(type) operand`."""

    type: TypeNode
    operand: Expression


class Argument(SyntaxNode):
    """`value` or `name = value`; `value` may be `_`."""

    name: Name | None
    value: Expression


class Call(Expression):
    """`function<type_arguments>(arguments)`. With a `TypeExpression` as `function` it constructs an instance."""

    function: Expression
    type_arguments: tuple[TypeNode, ...]
    arguments: tuple[Argument, ...]


class KeyValue(SyntaxNode):
    """`name = value` in a structure or an annotation."""

    name: Name
    value: Expression


class ListExpression(Expression):
    """`{a, b}`; the last element may be `...`."""

    elements: tuple[Expression, ...]


class StructExpression(Expression):
    """`{x = a, y = b}`; `dots` if `...` stands at its end."""

    fields: tuple[KeyValue, ...]
    dots: bool = False


class TupleSet(Expression):
    """`(a, b &&& c, _)`: a set for each of several expressions or keys."""

    elements: tuple[Expression, ...]


# ---------------------------------------------------------------- statements


class Statement(SyntaxNode):
    pass


class Assign(Statement):
    """`target = value`, or `target += value` with the operator `+`."""

    target: Expression
    operator: str
    value: Expression


class CallStatement(Statement):
    call: Call


class Block(Statement):
    statements: tuple[Statement | Declaration, ...]
    """Variables, constants and (refused by the checker) instances stand among the statements."""
    annotations: tuple[Annotation, ...] = ()


class If(Statement):
    condition: Expression
    yes: Statement
    no: Statement | None


class SwitchCase(SyntaxNode):
    """`label: {...}`; `label` may be `default`; without a body (`None`) it shares the next one's."""

    label: Expression
    body: Block | None


class Switch(Statement):
    subject: Expression
    cases: tuple[SwitchCase, ...]


class For(Statement):
    """`for (initial; condition; update) body`. `initial` are variables (with a value), assignments and calls."""

    initial: tuple[Statement | Variable, ...]
    condition: Expression
    update: tuple[Statement, ...]
    body: Statement
    annotations: tuple[Annotation, ...] = ()


class ForIn(Statement):
    """`for (type name in collection) body`; `collection` may be a range."""

    variable: Variable
    collection: Expression
    body: Statement
    annotations: tuple[Annotation, ...] = ()


class Return(Statement):
    value: Expression | None


class Jump(Statement):
    """`exit;`, `break;` or `continue;`, or `;` alone, which does nothing."""

    word: str


# ---------------------------------------------------------------- declarations


class Declaration(SyntaxNode):
    annotations: tuple[Annotation, ...]
    name: Name


class Constant(Declaration):
    type: TypeNode
    value: Expression


class Variable(Declaration):
    """A variable, or a field of a struct, header or header union."""

    type: TypeNode
    value: Expression | None = None


class Parameter(Declaration):
    """A parameter; `direction` is "in", "out", "inout" or ""."""

    direction: str
    type: TypeNode
    default: Expression | None


class Instance(Declaration):
    """`type(arguments) name;`, or with `= {...}` the functions and instances that implement abstract methods."""

    type: TypeNode
    arguments: tuple[Argument, ...]
    initializer: tuple[Declaration, ...] | None = None


class Generic(Declaration):
    """A declaration that may have type parameters."""

    type_parameters: tuple[Name, ...]


class Function(Generic):
    """A function of the program, or without a body (`None`) an extern one or a method of an extern.

    A constructor returns nothing (`None`) and has the extern's name.
    """

    parameters: tuple[Parameter, ...]
    returns: TypeNode | None
    body: Block | None = None
    abstract: bool = False


class Extern(Generic):
    methods: tuple[Function, ...]


class Action(Declaration):
    parameters: tuple[Parameter, ...]
    body: Block


class BlockType(Generic):
    """`parser P(...);`, `control C(...);` or `package P(...);`."""

    kind: str
    parameters: tuple[Parameter, ...]


class SelectCase(SyntaxNode):
    """`set: state;`; `set` is a `TupleSet` or one set."""

    set: Expression
    state: Name


class Select(SyntaxNode):
    """`select(expressions) {cases}`."""

    expressions: tuple[Expression, ...]
    cases: tuple[SelectCase, ...]


class State(Declaration):
    """A parser state; without a transition it goes to `reject`."""

    statements: tuple[Statement | Declaration, ...]
    transition: Name | Select | None


class BlockDeclaration(Generic):
    """A parser or control."""

    parameters: tuple[Parameter, ...]
    constructor_parameters: tuple[Parameter, ...]
    locals: tuple[Declaration, ...]


class Parser(BlockDeclaration):
    states: tuple[State, ...]


class Control(BlockDeclaration):
    body: Block


class ValueSet(Declaration):
    """`value_set<element>(size) name;`."""

    element: TypeNode
    size: Expression


class KeyElement(SyntaxNode):
    """`expression: match_kind;`."""

    expression: Expression
    match_kind: Name
    annotations: tuple[Annotation, ...]


class ActionRef(SyntaxNode):
    """`name;` or `name(arguments);` in a table's list; `arguments` is None where no brackets are written."""

    annotations: tuple[Annotation, ...]
    name: NameExpression
    arguments: tuple[Argument, ...] | None


class Entry(SyntaxNode):
    """`const priority = p: set: action(...);`."""

    constant: bool
    priority: Expression | None
    set: Expression
    action: ActionRef
    annotations: tuple[Annotation, ...]


class Property(SyntaxNode):
    """`name = value;` in a table: `default_action`, `size`, `implementation`..."""

    annotations: tuple[Annotation, ...]
    constant: bool
    name: Name
    value: Expression


class ListProperty(SyntaxNode):
    """`name = {elements}` in a table: `key` of `KeyElement`, `actions` of `ActionRef`, `entries` of `Entry`."""

    annotations: tuple[Annotation, ...]
    constant: bool
    name: Name
    elements: tuple[Any, ...]


class Table(Declaration):
    properties: tuple[Property | ListProperty, ...]


class RecordType(Generic):
    """A struct, header or header union; `kind` is the keyword."""

    kind: str
    fields: tuple[Variable, ...]


class EnumMember(SyntaxNode):
    name: Name
    value: Expression | None


class Enum(Declaration):
    """`enum name {...}`, or with `base` one whose members have values."""

    base: TypeNode | None
    members: tuple[EnumMember, ...]


class Typedef(Declaration):
    """`typedef type name;` or `type type name;`: `kind` is the keyword. `type` may be declared in place."""

    kind: str
    type: TypeNode | RecordType | Enum


class Names(Declaration):
    """`error {...}` or `match_kind {...}`; the keyword is the name."""

    members: tuple[Name, ...]


class Program(SyntaxNode):
    declarations: tuple[Declaration, ...]
