# SPDX-License-Identifier: Apache-2.0
"""The typed program: what the checker makes of the syntax tree, and what lowering and P4Info read.

Beside the syntax tree it is small: names are resolved to declarations, every expression has its type, implicit casts
are explicit (`Cast`), arguments are in the order of the parameters with defaults filled in, generics have their
arguments, `x += y` is an assignment, `...` is spelled out, constants are literals where the language demands one.
Nodes are immutable but for the bodies of declarations, which are filled in after their names are known.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from detour.p4.annotations import Annotation as Annotation
from detour.p4.annotations import annotation as annotation
from detour.p4.source import NOWHERE, Span
from detour.p4.types import VOID, FieldOf, Type

# ---------------------------------------------------------------- declarations


@dataclass(eq=False, slots=True)
class Declaration:
    """Base of declarations. They are equal only to themselves."""

    name: str
    span: Span = NOWHERE
    annotations: tuple[Annotation, ...] = ()


@dataclass(eq=False, slots=True)
class Variable(Declaration):
    """A variable or a parameter; `direction` is "in", "out", "inout" or ""."""

    type: Type = VOID
    direction: str = ""
    is_parameter: bool = False
    optional: bool = False
    default: Expression | None = None
    """Default value of a parameter."""


@dataclass(eq=False, slots=True)
class Constant(Declaration):
    type: Type = VOID
    value: Expression | None = None
    """A `Literal`, `EnumMember`, `TupleValue` or `StructValue` of such."""


@dataclass(eq=False, slots=True)
class TypeDeclaration(Declaration):
    """A struct, header, header union, enum, `type` or `typedef`, in the order of the source (P4Info lists them)."""

    kind: str = ""
    """`struct`, `header`, `header_union`, `enum`, `type`, `typedef`."""
    type: Type = VOID
    fields: tuple[FieldOf, ...] = ()


@dataclass(eq=False, slots=True)
class ErrorDeclaration(Declaration):
    members: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class MatchKindDeclaration(Declaration):
    members: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class Function(Declaration):
    """A function of the program, or an extern one (`body` is None)."""

    type_parameters: tuple[str, ...] = ()
    parameters: tuple[Variable, ...] = ()
    returns: Type = VOID
    body: BlockStatement | None = None


@dataclass(eq=False, slots=True)
class Method(Declaration):
    """A method of an extern; a constructor has the extern's name."""

    type_parameters: tuple[str, ...] = ()
    parameters: tuple[Variable, ...] = ()
    returns: Type = VOID
    abstract: bool = False


@dataclass(eq=False, slots=True)
class Extern(Declaration):
    type_parameters: tuple[str, ...] = ()
    constructors: tuple[Method, ...] = ()
    methods: tuple[Method, ...] = ()


@dataclass(eq=False, slots=True)
class BlockType(Declaration):
    """`parser P(...);`, `control C(...);` or `package P(...);`: a type without a body."""

    kind: str = ""
    type_parameters: tuple[str, ...] = ()
    parameters: tuple[Variable, ...] = ()
    """Of `apply`; those of the constructor, for a package."""


@dataclass(eq=False, slots=True)
class Action(Declaration):
    parameters: tuple[Variable, ...] = ()
    body: BlockStatement | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Key:
    expression: Expression
    match_kind: str
    annotations: tuple[Annotation, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class ActionChoice:
    """An action in a table's list. `arguments` are those for parameters with a direction."""

    action: Action
    arguments: tuple[Expression, ...]
    annotations: tuple[Annotation, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class ActionUse:
    """An action with all its arguments: a default action or that of an entry. None: written without arguments."""

    action: Action
    arguments: tuple[Expression | None, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """An entry in the source. `keys` are literals, `MaskSet`, `RangeSet` or `Anything`, one for each key."""

    keys: tuple[Expression, ...]
    use: ActionUse
    priority: int | None
    constant: bool
    annotations: tuple[Annotation, ...]
    span: Span


@dataclass(eq=False, slots=True)
class Table(Declaration):
    keys: tuple[Key, ...] = ()
    actions: tuple[ActionChoice, ...] = ()
    default_action: ActionUse | None = None
    default_is_constant: bool = False
    entries: tuple[Entry, ...] = ()
    entries_are_constant: bool = False
    has_entries: bool = False
    size: int | None = None
    properties: dict[str, Expression] = field(default_factory=dict)
    """All others: `implementation`, `counters`, `meters`, `psa_idle_timeout`, `largest_priority_first`..."""
    property_annotations: dict[str, tuple[Annotation, ...]] = field(default_factory=dict)
    """Annotations of any properties that have some: `@name("ap") implementation = action_profile(8);`."""


@dataclass(eq=False, slots=True)
class Instance(Declaration):
    """An instance of an extern, parser, control or package, at top level or inside a block."""

    type: Type = VOID
    arguments: tuple[Expression | None, ...] = ()
    """None where an `@optional` parameter has none."""
    initializer: tuple[Declaration | Statement, ...] = ()
    """Functions that implement abstract methods; refused by the checker for the three architectures."""


@dataclass(eq=False, slots=True)
class ValueSet(Declaration):
    type: Type = VOID
    size: Expression | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SelectCase:
    labels: Expression
    """One set for each selected expression in a `TupleValue` of `SetOf`, or `Anything` for all (`default`, `_`)."""
    state: State
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """`transition select(...)`; without `expressions` a plain transition to the only case."""

    expressions: tuple[Expression, ...]
    cases: tuple[SelectCase, ...]
    span: Span


@dataclass(eq=False, slots=True)
class State(Declaration):
    """A parser state. `accept` and `reject` are states without a transition."""

    statements: tuple[Statement, ...] = ()
    transition: Select | None = None


@dataclass(eq=False, slots=True)
class Parser(Declaration):
    type_parameters: tuple[str, ...] = ()
    parameters: tuple[Variable, ...] = ()
    constructor_parameters: tuple[Variable, ...] = ()
    locals: tuple[Declaration | Declare, ...] = ()
    """Variables (`Declare`), constants, instances, value sets, in order."""
    states: tuple[State, ...] = ()


@dataclass(eq=False, slots=True)
class Control(Declaration):
    type_parameters: tuple[str, ...] = ()
    parameters: tuple[Variable, ...] = ()
    constructor_parameters: tuple[Variable, ...] = ()
    locals: tuple[Declaration | Declare, ...] = ()
    """Variables (`Declare`), constants, instances, actions, tables, in order."""
    body: BlockStatement | None = None


@dataclass(frozen=True, slots=True)
class Program:
    declarations: tuple[Declaration, ...]
    """All of them, included ones too, in order."""
    main: Instance | None
    errors: tuple[str, ...]
    """Members of `error`, in order: the value of each is its index."""
    annotations: tuple[Annotation, ...] = ()
    """Those of the package: of `main`."""


# ---------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    type: Type
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expression):
    """A number (unsigned or signed by its type, already in range), bool or string."""

    value: int | bool | str


@dataclass(frozen=True, slots=True, eq=False)
class EnumMember(Expression):
    """A member of an enum or of `error`; `value` is None unless the enum has values."""

    name: str
    value: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Ref(Expression):
    """A variable, parameter (also of a constructor), instance, value set or table."""

    declaration: Declaration


@dataclass(frozen=True, slots=True, eq=False)
class This(Expression):
    """`this` in an abstract method's implementation."""


@dataclass(frozen=True, slots=True, eq=False)
class Member(Expression):
    """A field of a struct or header, or a header of a union."""

    base: Expression
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class StackMember(Expression):
    """`next`, `last` or `lastIndex` of a stack (`size` is a literal)."""

    base: Expression
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Index(Expression):
    """An element of a stack or, with a literal, of a tuple."""

    base: Expression
    index: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Expression):
    """Bits `low` to `low + width - 1`; `low` may be computed (`x[low +: width]`)."""

    base: Expression
    low: Expression
    width: int


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Expression):
    """`-`, `+`, `~` or `!`."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expression):
    """Operands have the same type, but for shifts and `++`."""

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
    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class TupleValue(Expression):
    """`{a, b}` as a tuple, a list, a stack, or one set for each selected expression. All elements are there."""

    elements: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StructValue(Expression):
    """Values of all fields of a struct or (valid) header, in the order in which they are computed."""

    fields: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True, eq=False)
class InvalidHeader(Expression):
    """`{#}`: an invalid header or header union."""


@dataclass(frozen=True, slots=True, eq=False)
class MaskSet(Expression):
    value: Expression
    mask: Expression


@dataclass(frozen=True, slots=True, eq=False)
class RangeSet(Expression):
    low: Expression
    high: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Anything(Expression):
    """`_` or `default` as a set."""


@dataclass(frozen=True, slots=True, eq=False)
class CallFunction(Expression):
    """A function, extern or not. An argument is None where an out or `@optional` parameter has none."""

    function: Function
    type_arguments: tuple[Type, ...]
    arguments: tuple[Expression | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CallAction(Expression):
    """An action called as a statement."""

    action: Action
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CallMethod(Expression):
    """A method of an extern; `receiver` is a `Ref` to an instance, a parameter (`packet`) or a `Construct`."""

    receiver: Expression
    method: Method
    type_arguments: tuple[Type, ...]
    arguments: tuple[Expression | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CallBuiltin(Expression):
    """`isValid`, `setValid`, `setInvalid` of headers and unions; `push_front`, `pop_front` of stacks."""

    receiver: Expression
    name: str
    arguments: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Apply(Expression):
    """`apply` of a table, or of an instance of a parser or control (`Ref`, or `Construct` for `C.apply()`)."""

    target: Expression
    arguments: tuple[Expression | None, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ApplyResult(Expression):
    """`hit`, `miss` or `action_run` of a table's `apply`."""

    apply: Apply
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Construct(Expression):
    """An unnamed instance: an argument of a constructor, or `C.apply()`."""

    arguments: tuple[Expression | None, ...]


# ---------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Statement):
    target: Expression
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class CallStatement(Statement):
    call: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Declare(Statement):
    """A variable, and its initial value."""

    variable: Variable
    initial: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class BlockStatement(Statement):
    statements: tuple[Statement, ...]
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class If(Statement):
    condition: Expression
    yes: Statement
    no: Statement | None


@dataclass(frozen=True, slots=True, eq=False)
class SwitchCase:
    """`labels` are actions, or literals and enum members; None stands for `default`. Fall-through is resolved: cases
    that share a body are one.
    """

    labels: tuple[Action | Expression | None, ...]
    body: BlockStatement
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Switch(Statement):
    """On an expression, or on `ApplyResult` with the name action_run."""

    subject: Expression
    cases: tuple[SwitchCase, ...]


@dataclass(frozen=True, slots=True, eq=False)
class For(Statement):
    initial: tuple[Statement, ...]
    condition: Expression
    update: tuple[Statement, ...]
    body: Statement
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ForIn(Statement):
    """Over a range (`RangeSet`), a list or a stack."""

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
