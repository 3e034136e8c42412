# SPDX-License-Identifier: Apache-2.0
"""The typed program: what the checker makes of the syntax tree, and what lowering and P4Info read.

Beside the syntax tree it is small: names are resolved to declarations, every expression has its type, implicit casts
are explicit (`Cast`), arguments are in the order of the parameters with defaults filled in, generics have their
arguments, `x += y` is an assignment, `...` is spelled out, constants are literals where the language demands one.
Nodes are immutable but for the bodies of declarations, which are filled in after their names are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import TypeVar, dataclass_transform

from detour.p4.source import NOWHERE, Node, Span
from detour.p4.types import VOID, Annotation, FieldOf, Type, TypeVariable
from detour.p4.types import annotated as annotated
from detour.p4.types import annotation as annotation

# ---------------------------------------------------------------- declarations


@dataclass_transform(eq_default=False)
class _Filled:
    """Base of nodes that are filled in. Each subclass is a dataclass; its instances are equal only to themselves."""

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)


class Declaration(_Filled):
    name: str
    span: Span = NOWHERE
    annotations: tuple[Annotation, ...] = ()


class Variable(Declaration):
    """A variable or a parameter; `direction` is "in", "out", "inout" or ""."""

    type: Type = VOID
    direction: str = ""
    is_parameter: bool = False
    optional: bool = False
    default: Expression | None = None
    """Default value of a parameter."""

    @property
    def is_output(self) -> bool:
        """Return whether a call writes the argument."""
        return self.direction in ("out", "inout")


class Constant(Declaration):
    type: Type = VOID
    value: Expression | None = None
    """A `Literal`, `EnumMember`, `TupleValue` or `StructValue` of such."""


class TypeDeclaration(Declaration):
    """A struct, header, header union, enum, `type` or `typedef`, in the order of the source (P4Info lists them)."""

    kind: str = ""
    """`struct`, `header`, `header_union`, `enum`, `type`, `typedef`."""
    type: Type = VOID
    fields: tuple[FieldOf, ...] = ()


class Generic(Declaration):
    """A declaration that may have type parameters."""

    variables: tuple[TypeVariable, ...] = ()
    parameters: tuple[Variable, ...] = ()
    """Of a call; of `apply`, for a parser or control; of the constructor, for a package."""


class Function(Generic):
    """A function of the program, or without a body (`None`) an extern one or a method of an extern.

    A constructor has the extern's name.
    """

    returns: Type = VOID
    body: BlockStatement | None = None
    abstract: bool = False


class Extern(Declaration):
    variables: tuple[TypeVariable, ...] = ()
    constructors: tuple[Function, ...] = ()
    methods: tuple[Function, ...] = ()


class BlockType(Generic):
    """`parser P(...);`, `control C(...);` or `package P(...);`: a type without a body."""

    kind: str = ""


class Action(Declaration):
    parameters: tuple[Variable, ...] = ()
    body: BlockStatement | None = None


class Key(Node):
    expression: Expression
    match_kind: str
    annotations: tuple[Annotation, ...]
    span: Span


class ActionChoice(Node):
    """An action in a table's list. `arguments` are those for parameters with a direction."""

    action: Action
    arguments: tuple[Expression, ...]
    annotations: tuple[Annotation, ...]
    span: Span


class ActionUse(Node):
    """An action with all its arguments: a default action or that of an entry. None: written without arguments."""

    action: Action
    arguments: tuple[Expression | None, ...]
    span: Span


class Entry(Node):
    """An entry in the source. `keys` are literals, `MaskSet`, `RangeSet` or `Anything`, one for each key."""

    keys: tuple[Expression, ...]
    use: ActionUse
    priority: int | None
    constant: bool
    annotations: tuple[Annotation, ...]
    span: Span


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


class Instance(Declaration):
    """An instance of an extern, parser, control or package, at top level or inside a block."""

    type: Type = VOID
    arguments: tuple[Expression | None, ...] = ()
    """None where an `@optional` parameter has none."""


class ValueSet(Declaration):
    type: Type = VOID
    size: Expression | None = None


class SelectCase(Node):
    labels: Expression
    """One set for each selected expression in a `TupleValue` of `SetOf`, or `Anything` for all (`default`, `_`)."""
    state: State
    span: Span


class Select(Node):
    """`transition select(...)`; without `expressions` a plain transition to the only case."""

    expressions: tuple[Expression, ...]
    cases: tuple[SelectCase, ...]
    span: Span


class State(Declaration):
    """A parser state. `accept` and `reject` are states without a transition."""

    statements: tuple[Statement, ...] = ()
    transition: Select | None = None


class ParserOrControl(Generic):
    constructor_parameters: tuple[Variable, ...] = ()
    locals: tuple[Declaration | Declare, ...] = ()
    """Variables (`Declare`), constants, instances, value sets, actions, tables, in order."""


class Parser(ParserOrControl):
    states: tuple[State, ...] = ()


class Control(ParserOrControl):
    body: BlockStatement | None = None


class Program(Node):
    declarations: tuple[Declaration, ...]
    """All of them, included ones too, in order."""
    main: Instance | None
    errors: tuple[str, ...]
    """Members of `error`, in order: the value of each is its index."""
    annotations: tuple[Annotation, ...] = ()
    """Those of the package: of `main`."""


# ---------------------------------------------------------------- expressions


class Expression(Node):
    type: Type
    span: Span


class Literal(Expression):
    """A number (unsigned or signed by its type, already in range), bool or string."""

    value: int | bool | str


class EnumMember(Expression):
    """A member of an enum or of `error`; `value` is None unless the enum has values."""

    name: str
    value: int | None = None


class Ref(Expression):
    """A variable, parameter (also of a constructor), instance, value set or table."""

    declaration: Declaration


class Member(Expression):
    """A field of a struct or header, or a header of a union."""

    base: Expression
    name: str


class StackMember(Expression):
    """`next`, `last` or `lastIndex` of a stack (`size` is a literal)."""

    base: Expression
    name: str


class Index(Expression):
    """An element of a stack or, with a literal, of a tuple."""

    base: Expression
    index: Expression


class Slice(Expression):
    """Bits `low` to `low + width - 1`; `low` may be computed (`x[low +: width]`)."""

    base: Expression
    low: Expression
    width: int


class Unary(Expression):
    """`-`, `+`, `~` or `!`."""

    operator: str
    operand: Expression


class Binary(Expression):
    """Operands have the same type, but for shifts and `++`."""

    operator: str
    left: Expression
    right: Expression


class Conditional(Expression):
    """`condition ? yes : no`."""

    condition: Expression
    yes: Expression
    no: Expression


class Cast(Expression):
    operand: Expression


class TupleValue(Expression):
    """`{a, b}` as a tuple, a list, a stack, or one set for each selected expression. All elements are there."""

    elements: tuple[Expression, ...]


class StructValue(Expression):
    """Values of all fields of a struct or (valid) header, in the order in which they are computed."""

    fields: tuple[tuple[str, Expression], ...]


class InvalidHeader(Expression):
    """`{#}`: an invalid header or header union."""


class MaskSet(Expression):
    value: Expression
    mask: Expression


class RangeSet(Expression):
    low: Expression
    high: Expression


class Anything(Expression):
    """`_` or `default` as a set."""


class CallFunction(Expression):
    """A function, extern or not. An argument is None where an out or `@optional` parameter has none."""

    function: Function
    type_arguments: tuple[Type, ...]
    arguments: tuple[Expression | None, ...]


class CallAction(Expression):
    """An action called as a statement."""

    action: Action
    arguments: tuple[Expression, ...]


class CallMethod(Expression):
    """A method of an extern; `receiver` is a `Ref` to an instance, a parameter (`packet`) or a `Construct`."""

    receiver: Expression
    method: Function
    type_arguments: tuple[Type, ...]
    arguments: tuple[Expression | None, ...]


class CallBuiltin(Expression):
    """`isValid`, `setValid`, `setInvalid` of headers and unions; `push_front`, `pop_front` of stacks."""

    receiver: Expression
    name: str
    arguments: tuple[Expression, ...] = ()


class Apply(Expression):
    """`apply` of a table, or of an instance of a parser or control (`Ref`, or `Construct` for `C.apply()`)."""

    target: Expression
    arguments: tuple[Expression | None, ...] = ()


class ApplyResult(Expression):
    """`hit`, `miss` or `action_run` of a table's `apply`."""

    apply: Apply
    name: str


class Construct(Expression):
    """An unnamed instance: an argument of a constructor, or `C.apply()`."""

    arguments: tuple[Expression | None, ...]


# ---------------------------------------------------------------- statements


class Statement(Node):
    span: Span


class Assign(Statement):
    target: Expression
    value: Expression


class CallStatement(Statement):
    call: Expression


class Declare(Statement):
    """A variable, and its initial value."""

    variable: Variable
    initial: Expression | None


class BlockStatement(Statement):
    statements: tuple[Statement, ...]
    annotations: tuple[Annotation, ...] = ()


class If(Statement):
    condition: Expression
    yes: Statement
    no: Statement | None


class SwitchCase(Node):
    """`labels` are actions, or literals and enum members; None stands for `default`. Fall-through is resolved: cases
    that share a body are one.
    """

    labels: tuple[Action | Expression | None, ...]
    body: BlockStatement
    span: Span


class Switch(Statement):
    """On an expression, or on `ApplyResult` with the name action_run."""

    subject: Expression
    cases: tuple[SwitchCase, ...]


class For(Statement):
    initial: tuple[Statement, ...]
    condition: Expression
    update: tuple[Statement, ...]
    body: Statement
    annotations: tuple[Annotation, ...] = ()


class ForIn(Statement):
    """Over a range (`RangeSet`), a list or a stack."""

    variable: Variable
    collection: Expression
    body: Statement
    annotations: tuple[Annotation, ...] = ()


class Return(Statement):
    value: Expression | None


class Exit(Statement):
    pass


class Break(Statement):
    pass


class Continue(Statement):
    pass


def until_end(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Statements up to one behind which none runs. As in p4c, `exit` is not such a one."""
    for at, one in enumerate(statements):
        if isinstance(one, Return | Break | Continue):
            return statements[: at + 1]
    return statements


# ---------------------------------------------------------------- walking


_ELSEWHERE = frozenset({"type", "span", "declaration", "action", "function", "method", "annotations", "type_arguments"})
"""Fields that hold no part of the node, or name what stands elsewhere."""
_PLAIN = frozenset({"str", "int", "bool", "int | None", "int | bool | str"})
_PARTS: dict[type, tuple[tuple[str, ...], Callable[[object], tuple[object, ...]]]] = {}
"""For each kind of nodes the fields that hold its parts, and the function that reads them."""
Made = TypeVar("Made", bound=Node)


def parts(node: object) -> tuple[object, ...]:
    """Expressions, statements and tuples of such that a node consists of, in the order of the source."""
    known = _PARTS.get(type(node))
    if known is None:
        all_fields = fields(type(node))  # type: ignore[arg-type]
        names = tuple(one.name for one in all_fields if one.name not in _ELSEWHERE and one.type not in _PLAIN)
        read = attrgetter(*names) if len(names) > 1 else lambda node: tuple(getattr(node, name) for name in names)
        known = _PARTS[type(node)] = names, read
    return known[1](node)


def with_parts(node: Made, change: Callable[[Expression], Expression]) -> Made:
    """The node with its expressions changed."""

    def changed(part: object) -> object:
        if isinstance(part, tuple):
            return tuple(map(changed, part))
        return change(part) if isinstance(part, Expression) else part

    before = parts(node)
    after = tuple(map(changed, before))
    if after == before:
        return node
    return replace(node, **dict(zip(_PARTS[type(node)][0], after, strict=True)))  # type: ignore[type-var]


def walk(root: object) -> Iterator[object]:
    """All expressions and statements of a body, in the order of the source; not what other declarations hold."""
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, Node):
            yield node
            pending.extend(reversed(parts(node)))
        elif isinstance(node, tuple):
            pending.extend(reversed(node))


def written(node: object) -> tuple[Expression, ...]:
    """Places that a statement or expression writes: the target of an assignment, a changed header, out arguments."""
    match node:
        case Assign():
            return (node.target,)
        case CallBuiltin() if node.name != "isValid":
            return (node.receiver,)
        case CallFunction() | CallMethod() | CallAction():
            return tuple(value for one, value in arguments(node) if value is not None and one.is_output)
    return ()


def arguments(call: CallFunction | CallMethod | CallAction) -> Iterator[tuple[Variable, Expression | None]]:
    """Parameters and arguments of a call."""
    match call:
        case CallFunction(function=called) | CallMethod(method=called) | CallAction(action=called):
            return zip(called.parameters, call.arguments, strict=True)
