# SPDX-License-Identifier: Apache-2.0
"""Syntax tree of P4_16 (specification 1.2.5, appendix "P4 grammar"): what is written, before names mean anything.

Nodes are immutable and equal only to themselves; `span` is the place of the whole node. A name that the parser knows
as a type is a `NamedType` (in an expression, a `TypeExpression`); all others are `NameExpression`.
"""

from __future__ import annotations

from dataclasses import dataclass

from detour.p4.source import Span


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """Base of all nodes."""

    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Name(Node):
    """A name where it is declared, or where a member, a state or a match kind is named."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Annotation(Node):
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


@dataclass(frozen=True, slots=True, eq=False)
class TypeNode(Node):
    """Base of types as written."""


@dataclass(frozen=True, slots=True, eq=False)
class SimpleType(TypeNode):
    """`bool`, `error`, `match_kind`, `string`, `int` without a width, `void`, or `_`."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class BitsType(TypeNode):
    """`bit<w>`, `int<w>` or `varbit<w>`; `bit` alone has the width 1."""

    kind: str
    width: Expression


@dataclass(frozen=True, slots=True, eq=False)
class NamedType(TypeNode):
    """A type's name; `absolute` with a leading dot: looked up at the top level."""

    name: str
    absolute: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class SpecializedType(TypeNode):
    """`base<arguments>`."""

    base: NamedType
    arguments: tuple[TypeNode, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ArrayType(TypeNode):
    """`element[size]`, a header stack."""

    element: TypeNode
    size: Expression


@dataclass(frozen=True, slots=True, eq=False)
class TupleType(TypeNode):
    elements: tuple[TypeNode, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListType(TypeNode):
    element: TypeNode


# ---------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True, eq=False)
class Expression(Node):
    """Base of expressions."""


@dataclass(frozen=True, slots=True, eq=False)
class Number(Expression):
    """An integer literal; without a width (`None`) it is an `int`, `8w1` a `bit<8>`, `8s1` an `int<8>`."""

    value: int
    width: int | None = None
    signed: bool = False
    base: int = 10


@dataclass(frozen=True, slots=True, eq=False)
class String(Expression):
    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Boolean(Expression):
    value: bool


@dataclass(frozen=True, slots=True, eq=False)
class NameExpression(Expression):
    name: str
    absolute: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TypeExpression(Expression):
    """A type in the place of an expression: `E` of `E.member`, `error` of `error.member`, `C` of `C(...)` and of
    `C.apply(...)`.
    """

    type: TypeNode


@dataclass(frozen=True, slots=True, eq=False)
class This(Expression):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Dots(Expression):
    """`...`, the default value: as an initial value, or as the last element of a list."""


@dataclass(frozen=True, slots=True, eq=False)
class DontCare(Expression):
    """`_` as an argument or a set."""


@dataclass(frozen=True, slots=True, eq=False)
class Default(Expression):
    """`default` as a set."""


@dataclass(frozen=True, slots=True, eq=False)
class Member(Expression):
    base: Expression
    name: Name


@dataclass(frozen=True, slots=True, eq=False)
class Index(Expression):
    base: Expression
    index: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Expression):
    """`base[high:low]`."""

    base: Expression
    high: Expression
    low: Expression


@dataclass(frozen=True, slots=True, eq=False)
class PlusSlice(Expression):
    """`base[low +: width]`."""

    base: Expression
    low: Expression
    width: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Expression):
    """`!`, `~`, `-` or `+`."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expression):
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(Expression):
    """`condition ? yes : no`."""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Expression):
    """`(type) operand`."""

    type: TypeNode
    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Argument(Node):
    """`value` or `name = value`; `value` may be `DontCare`."""

    name: Name | None
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expression):
    """`function<type_arguments>(arguments)`. With a `TypeExpression` as `function` it constructs an instance."""

    function: Expression
    type_arguments: tuple[TypeNode, ...]
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class KeyValue(Node):
    """`name = value` in a structure or an annotation."""

    name: Name
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class ListExpression(Expression):
    """`{a, b}`; the last element may be `Dots`."""

    elements: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StructExpression(Expression):
    """`{x = a, y = b}`; `dots` if `...` stands at its end."""

    fields: tuple[KeyValue, ...]
    dots: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class InvalidHeader(Expression):
    """`{#}`."""


@dataclass(frozen=True, slots=True, eq=False)
class Mask(Expression):
    """`value &&& mask` as a set."""

    value: Expression
    mask: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Range(Expression):
    """`low .. high` as a set."""

    low: Expression
    high: Expression


@dataclass(frozen=True, slots=True, eq=False)
class TupleSet(Expression):
    """`(a, b &&& c, _)`: a set for each of several expressions or keys."""

    elements: tuple[Expression, ...]


# ---------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True, eq=False)
class Statement(Node):
    """Base of statements."""


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Statement):
    """`target = value`, or `target += value` with the operator `+`."""

    target: Expression
    operator: str
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class CallStatement(Statement):
    call: Call


@dataclass(frozen=True, slots=True, eq=False)
class Empty(Statement):
    """`;`"""


@dataclass(frozen=True, slots=True, eq=False)
class Block(Statement):
    statements: tuple[Statement | Declaration, ...]
    """Variables, constants and (refused by the checker) instances stand among the statements."""
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class If(Statement):
    condition: Expression
    yes: Statement
    no: Statement | None


@dataclass(frozen=True, slots=True, eq=False)
class SwitchCase(Node):
    """`label: {...}`; `label` may be `Default`; without a body (`None`) it shares the next one's."""

    label: Expression
    body: Block | None


@dataclass(frozen=True, slots=True, eq=False)
class Switch(Statement):
    subject: Expression
    cases: tuple[SwitchCase, ...]


@dataclass(frozen=True, slots=True, eq=False)
class For(Statement):
    """`for (initial; condition; update) body`. `initial` are variables (with a value), assignments and calls."""

    initial: tuple[Statement | Variable, ...]
    condition: Expression
    update: tuple[Statement, ...]
    body: Statement
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ForIn(Statement):
    """`for (type name in collection) body`; `collection` may be a `Range`."""

    variable: Variable
    collection: Expression
    body: Statement
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Return(Statement):
    value: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class Exit(Statement):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Break(Statement):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Continue(Statement):
    pass


# ---------------------------------------------------------------- declarations


@dataclass(frozen=True, slots=True, eq=False)
class Declaration(Node):
    """Base of declarations."""

    annotations: tuple[Annotation, ...]
    name: Name


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Declaration):
    type: TypeNode
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Variable(Declaration):
    type: TypeNode
    value: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class Parameter(Declaration):
    """A parameter; `direction` is "in", "out", "inout" or ""."""

    direction: str
    type: TypeNode
    default: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class Instance(Declaration):
    """`type(arguments) name;`, or with `= {...}` the functions and instances that implement abstract methods."""

    type: TypeNode
    arguments: tuple[Argument, ...]
    initializer: tuple[Declaration, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Function(Declaration):
    """A function of the program, or an extern one (`body` is None)."""

    type_parameters: tuple[Name, ...]
    parameters: tuple[Parameter, ...]
    returns: TypeNode
    body: Block | None


@dataclass(frozen=True, slots=True, eq=False)
class Method(Declaration):
    """A method of an extern. A constructor returns nothing (`None`) and has the extern's name."""

    type_parameters: tuple[Name, ...]
    parameters: tuple[Parameter, ...]
    returns: TypeNode | None
    abstract: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Extern(Declaration):
    type_parameters: tuple[Name, ...]
    methods: tuple[Method, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Action(Declaration):
    parameters: tuple[Parameter, ...]
    body: Block


@dataclass(frozen=True, slots=True, eq=False)
class BlockType(Declaration):
    """`parser P(...);`, `control C(...);` or `package P(...);`."""

    kind: str
    type_parameters: tuple[Name, ...]
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SelectCase(Node):
    """`set: state;`; `set` is a `TupleSet` or one set."""

    set: Expression
    state: Name


@dataclass(frozen=True, slots=True, eq=False)
class Select(Node):
    """`select(expressions) {cases}`."""

    expressions: tuple[Expression, ...]
    cases: tuple[SelectCase, ...]


@dataclass(frozen=True, slots=True, eq=False)
class State(Declaration):
    """A parser state; without a transition it goes to `reject`."""

    statements: tuple[Statement | Declaration, ...]
    transition: Name | Select | None


@dataclass(frozen=True, slots=True, eq=False)
class Parser(Declaration):
    type_parameters: tuple[Name, ...]
    parameters: tuple[Parameter, ...]
    constructor_parameters: tuple[Parameter, ...]
    locals: tuple[Declaration, ...]
    states: tuple[State, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ValueSet(Declaration):
    """`value_set<element>(size) name;`."""

    element: TypeNode
    size: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Control(Declaration):
    type_parameters: tuple[Name, ...]
    parameters: tuple[Parameter, ...]
    constructor_parameters: tuple[Parameter, ...]
    locals: tuple[Declaration, ...]
    body: Block


@dataclass(frozen=True, slots=True, eq=False)
class KeyElement(Node):
    """`expression: match_kind;`."""

    expression: Expression
    match_kind: Name
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ActionRef(Node):
    """`name;` or `name(arguments);` in a table's list; `arguments` is None where no brackets are written."""

    annotations: tuple[Annotation, ...]
    name: NameExpression
    arguments: tuple[Argument, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class Entry(Node):
    """`const priority = p: set: action(...);`."""

    constant: bool
    priority: Expression | None
    set: Expression
    action: ActionRef
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True, eq=False)
class KeyProperty(Node):
    elements: tuple[KeyElement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ActionsProperty(Node):
    actions: tuple[ActionRef, ...]


@dataclass(frozen=True, slots=True, eq=False)
class EntriesProperty(Node):
    constant: bool
    entries: tuple[Entry, ...]
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Property(Node):
    """`name = value;`: `default_action`, `size`, `implementation`..."""

    annotations: tuple[Annotation, ...]
    constant: bool
    name: Name
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Table(Declaration):
    properties: tuple[KeyProperty | ActionsProperty | EntriesProperty | Property, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Field(Declaration):
    type: TypeNode


@dataclass(frozen=True, slots=True, eq=False)
class RecordType(Declaration):
    """A struct, header or header union; `kind` is the keyword."""

    kind: str
    type_parameters: tuple[Name, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, eq=False)
class EnumMember(Node):
    name: Name
    value: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class Enum(Declaration):
    """`enum name {...}`, or with `base` one whose members have values."""

    base: TypeNode | None
    members: tuple[EnumMember, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Typedef(Declaration):
    """`typedef type name;` or `type type name;`: `kind` is the keyword. `type` may be declared in place."""

    kind: str
    type: TypeNode | RecordType | Enum


@dataclass(frozen=True, slots=True, eq=False)
class Errors(Declaration):
    """`error {...}`."""

    members: tuple[Name, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MatchKinds(Declaration):
    """`match_kind {...}`."""

    members: tuple[Name, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Program(Node):
    declarations: tuple[Declaration, ...]
