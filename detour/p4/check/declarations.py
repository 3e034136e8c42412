# SPDX-License-Identifier: Apache-2.0
"""Types, functions, externs, errors, instances at the top level (specification, sections 7, 9 and 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from detour.p4 import core, syntax
from detour.p4.check.calls import construct
from detour.p4.check.checker import DECLARATIONS, Checker, rule, same_call
from detour.p4.check.constants import as_integer, limits
from detour.p4.check.generics import agree, specialize, substitute
from detour.p4.check.notes import noted
from detour.p4.check.operators import plain
from detour.p4.check.parameters import Owner, parameters
from detour.p4.check.scope import MatchKind, Place, Scope, TypeName
from detour.p4.check.statements import always_returns, block, constant
from detour.p4.check.typenames import check_field, describe, resolve
from detour.p4.messages import CompileError
from detour.p4.source import Span
from detour.p4.types import (
    BOOL,
    INTEGER,
    MATCH_KIND,
    STRING,
    VOID,
    Bits,
    Block,
    Enum,
    Extern,
    FieldOf,
    Header,
    NewType,
    Record,
    Struct,
    Type,
    Union,
    Varbits,
)

RECORDS: dict[str, type[Record]] = {"struct": Struct, "header": Header, "header_union": Union}


def declare_all(c: Checker, nodes: Sequence[syntax.Declaration]) -> list[core.Declaration]:
    """Top-level declarations, in order."""
    result: list[core.Declaration] = []
    for node in nodes:
        try:
            declaration = DECLARATIONS[type(node)](c, node)
            if declaration is not None:
                result.append(declaration)
        except CompileError as error:
            if node.name is not None:
                c.declare_broken(node.name)
            c.recover(error)
    return result


# ---------------------------------------------------------------- structures


@rule(DECLARATIONS, syntax.RecordType)
def record(c: Checker, node: syntax.RecordType) -> core.Declaration:
    name, container = node.name.text, RECORDS[node.kind]
    with c.inner_scope():
        variables = c.type_variables(node.type_parameters)
        fields, spans = _fields(c, node, container)
    declaration = core.TypeDeclaration(name, node.name.span, noted(c, node.annotations), node.kind)
    declaration.fields = fields
    if variables or sum(isinstance(part.type, Varbits) for part in fields) > 1:
        c.field_spans.update({(declaration, part): span for part, span in spans.items()})
    declaration.type = container(name, variables, fields, declaration)
    c.declare(name, TypeName(declaration.type, variables, node.name.span), node.name.span)
    return declaration


def _fields(
    c: Checker, node: syntax.RecordType, container: type[Record]
) -> tuple[tuple[FieldOf, ...], dict[str, Span]]:
    fields: dict[str, FieldOf] = {}
    spans: dict[str, Span] = {}
    for part in node.fields:
        name = part.name.text
        kind = resolve(c, part.type)
        check_field(c, kind, name, container, part.span)
        if name in fields:
            c.fail(part.name.span, f"field {name} of {node.kind} {node.name.text} is declared already")
        spans[name] = part.span
        fields[name] = FieldOf(name, kind, noted(c, part.annotations))
    return tuple(fields.values()), spans


@rule(DECLARATIONS, syntax.Enum)
def enum(c: Checker, node: syntax.Enum) -> core.Declaration:
    name = node.name.text
    base = None if node.base is None else _enum_base(c, node.base)
    members: dict[str, int | None] = {}
    with c.inner_scope(parameters=True):
        for member in node.members:
            key = member.name.text
            if key in members:
                c.fail(member.name.span, f"member {key} of enum {name} is declared already")
            members[key] = None if base is None else _enum_value(c, base, member, name)
    declaration = core.TypeDeclaration(name, node.name.span, noted(c, node.annotations), "enum")
    declaration.type = Enum(name, base, declaration, tuple(members.items()))
    c.declare(name, TypeName(declaration.type, (), node.name.span), node.name.span)
    return declaration


def _enum_base(c: Checker, node: syntax.TypeNode) -> Type:
    base = resolve(c, node)
    if not isinstance(base, Bits):
        hint = "A type declared by `type` is not enough." if isinstance(base, NewType) else ""
        c.fail(node.span, f"an enum has values of bit<w> or int<w>, not of {describe(base)}", hint)
    return base


def _enum_value(c: Checker, base: Type, member: syntax.EnumMember, name: str) -> int:
    key = member.name.text
    if member.value is None:
        c.fail(member.span, f"member {key} of enum {name} needs a value", "Write it: " + key + " = 0.")
    expression = plain(c.expression(member.value))
    value = as_integer(expression)
    if value is None or (expression.type != INTEGER and expression.type != base):
        c.fail(member.span, f"the value of {name}.{key} must be a known number of the type {base}")
    assert isinstance(base, Bits)
    low, high = limits(base)
    if not low <= value <= high:
        c.fail(member.span, f"{name}.{key} = {value} does not fit {base}", f"Its numbers are {low} to {high}.")
    literal = core.Literal(base, member.span, value)
    c.scope.symbols[key] = core.Constant(key, member.name.span, (), base, literal)
    return value


@rule(DECLARATIONS, syntax.Typedef)
def typedef(c: Checker, node: syntax.Typedef) -> core.Declaration:
    name = node.name.text
    if isinstance(node.type, syntax.RecordType | syntax.Enum):
        kind: Type = DECLARATIONS[type(node.type)](c, node.type).type  # type: ignore[union-attr]
    else:
        kind = resolve(c, node.type)
    declaration = core.TypeDeclaration(name, node.name.span, noted(c, node.annotations), node.kind)
    if node.kind == "type":
        if not isinstance(kind, Bits | NewType) and kind != BOOL:
            c.fail(
                node.span, f"`type` cannot be applied to {describe(kind)}", "Only to bit<w>, int<w>, bool. Use typedef."
            )
        declaration.type = NewType(name, kind, declaration)
    else:
        if kind in (VOID, MATCH_KIND):
            c.fail(node.span, f"typedef cannot be applied to {describe(kind)}")
        declaration.type = kind
    c.declare(name, TypeName(declaration.type, (), node.name.span), node.name.span)
    return declaration


@rule(DECLARATIONS, syntax.Errors)
def errors(c: Checker, node: syntax.Errors) -> core.Declaration:
    for member in node.members:
        if member.text in c.errors:
            c.fail(member.span, f"error.{member.text} is declared already")
        c.errors[member.text] = member.span
    return core.ErrorDeclaration("", node.span, noted(c, node.annotations), tuple(m.text for m in node.members))


@rule(DECLARATIONS, syntax.MatchKinds)
def match_kinds(c: Checker, node: syntax.MatchKinds) -> core.Declaration:
    for member in node.members:
        c.declare(member.text, MatchKind(member.text, member.span), member.span)
    names = tuple(member.text for member in node.members)
    return core.MatchKindDeclaration("", node.span, noted(c, node.annotations), names)


# ---------------------------------------------------------------- functions and externs


@rule(DECLARATIONS, syntax.Function)
def function(c: Checker, node: syntax.Function) -> core.Declaration:
    declaration = core.Function(node.name.text, node.name.span, noted(c, node.annotations))
    owner = Owner.EXTERN if node.body is None else Owner.FUNCTION
    with c.inner_scope(parameters=True):
        c.variables[declaration] = c.type_variables(node.type_parameters)
        declaration.type_parameters = tuple(name.text for name in node.type_parameters)
        declaration.returns = _result(c, node.returns)
        declaration.parameters = parameters(c, node.parameters, owner)
        if node.body is not None:
            with c.inside(Place.FUNCTION, declaration.returns):
                declaration.body = block(c, node.body)
            c.report_unused_parameters(declaration.parameters)
    if node.body is not None and declaration.returns != VOID:
        _check_returns(c, node, declaration.body)
    c.declare_function(declaration)
    return declaration


def _check_returns(c: Checker, node: syntax.Function, body: core.Statement | None) -> None:
    if not always_returns(body) and not c.has_errors_in(node.span):
        c.error(node.name.span, f"function {node.name.text} does not return a value on all paths")


def _result(c: Checker, node: syntax.TypeNode) -> Type:
    returns = resolve(c, node)
    if returns in (INTEGER, STRING) or isinstance(returns, Block):
        c.fail(node.span, f"a call cannot return {describe(returns)}", "Give it a width." if returns == INTEGER else "")
    return returns


@rule(DECLARATIONS, syntax.Extern)
def extern(c: Checker, node: syntax.Extern) -> core.Declaration:
    name = node.name.text
    declaration = core.Extern(name, node.name.span, noted(c, node.annotations))
    declaration.type_parameters = tuple(parameter.text for parameter in node.type_parameters)
    c.open_names.add(name)
    with c.inner_scope():
        variables = c.type_variables(node.type_parameters)
        c.variables[declaration] = variables
        methods = [_method(c, method, name) for method in node.methods]
    c.open_names.discard(name)
    _check_overloads(c, methods)
    c.declare(name, TypeName(Extern(name, variables, declaration), variables, node.name.span), node.name.span)
    declaration.constructors = tuple(
        m for m, written in zip(methods, node.methods, strict=True) if written.returns is None
    )
    declaration.methods = tuple(
        m for m, written in zip(methods, node.methods, strict=True) if written.returns is not None
    )
    return declaration


def _check_overloads(c: Checker, methods: list[core.Method]) -> None:
    for at, method in enumerate(methods):
        for other in methods[:at]:
            if method.name == other.name and same_call(method.parameters, other.parameters):
                c.fail(method.span, f"{method.name} is declared already with the same parameters")


def _method(c: Checker, node: syntax.Method, owner: str) -> core.Method:
    name = node.name.text
    if node.returns is None and name != owner:
        c.fail(node.span, f"method {name} needs the type of its result", "Write void where it returns nothing.")
    if node.returns is not None and name == owner:
        c.fail(node.span, f"the constructor of extern {owner} returns nothing", "Leave its type away.")
    method = core.Method(name, node.name.span, noted(c, node.annotations), abstract=node.abstract)
    with c.inner_scope(parameters=True):
        c.variables[method] = c.type_variables(node.type_parameters)
        method.type_parameters = tuple(parameter.text for parameter in node.type_parameters)
        if node.returns is not None:
            method.returns = _result(c, node.returns)
        kind = Owner.EXTERN_CONSTRUCTOR if node.returns is None else Owner.EXTERN
        method.parameters = parameters(c, node.parameters, kind)
    return method


# ---------------------------------------------------------------- constants, instances, block types


@rule(DECLARATIONS, syntax.Constant)
def top_constant(c: Checker, node: syntax.Constant) -> core.Declaration:
    return constant(c, node)


@rule(DECLARATIONS, syntax.Variable)
def stray_variable(c: Checker, node: syntax.Variable) -> None:
    c.fail(node.span, f"{node.name.text}: a variable cannot stand at the top level", "Declare a const.")


@rule(DECLARATIONS, syntax.BlockType)
def block_type(c: Checker, node: syntax.BlockType) -> core.Declaration:
    name = node.name.text
    declaration = core.BlockType(name, node.name.span, noted(c, node.annotations), node.kind)
    with c.inner_scope():
        variables = c.type_variables(node.type_parameters)
        c.variables[declaration] = variables
        declaration.type_parameters = tuple(parameter.text for parameter in node.type_parameters)
        with c.inner_scope(parameters=True):
            owner = Owner.PACKAGE if node.kind == "package" else Owner.BLOCK_TYPE
            declaration.parameters = parameters(c, node.parameters, owner)
    kind = Block(node.kind, name, variables, declaration)
    c.declare(name, TypeName(kind, variables, node.name.span), node.name.span)
    return declaration


@rule(DECLARATIONS, syntax.Instance)
def instance(c: Checker, node: syntax.Instance) -> core.Instance:
    """Declares an instance; where it stands decides of what it may be (appendix F)."""
    name = node.name.text
    try:
        made = construct(c, node.type, node.arguments, node.span)
        _check_place(c, made.type, name, node.span)
        _check_abstract(c, made.type, node)
    except CompileError:
        c.declare_broken(node.name)
        raise
    result = core.Instance(name, node.name.span, noted(c, node.annotations), made.type, made.arguments)
    c.declare(name, result, node.name.span)
    return result


def _check_place(c: Checker, kind: Type, name: str, span: Span) -> None:
    if not isinstance(kind, Block):
        if name == "main":
            c.fail(span, "main must be an instance of a package")
        return
    wanted = {Place.TOP: ("package",), Place.PARSER: ("parser",), Place.CONTROL: ("control",)}
    if kind.kind not in wanted.get(c.place, ()):
        c.fail(span, f"{name}: a {kind.kind} cannot be instantiated {c.place.value}")


def _check_abstract(c: Checker, kind: Type, node: syntax.Instance) -> None:
    """Checks implementations of abstract methods (10.3.1), then refuses them: no target here calls them."""
    declaration = kind.declaration if isinstance(kind, Extern) else None
    abstract = {}
    if declaration is not None and isinstance(kind, Extern):
        known = dict(zip(c.variables.get(declaration, ()), kind.arguments, strict=False))
        for method in declaration.methods:
            if method.abstract:
                returns, variables = substitute(method.returns, known), specialize(method.parameters, known)
                abstract[method.name] = replace(method, returns=returns, parameters=variables)
    implemented = [_implementation(c, one, abstract, node.name.span) for one in node.initializer or ()]
    if node.initializer is not None and not abstract:
        c.fail(node.span, f"{describe(kind)} has no abstract methods to implement")
    for name in abstract:
        if name not in implemented:
            c.fail(node.span, f"{node.name.text} does not implement the abstract method {name}")
    if abstract:
        c.fail(node.span, f"{describe(kind)} has abstract methods ({', '.join(abstract)}), which no target here calls")


def _implementation(c: Checker, node: syntax.Declaration, abstract: dict[str, core.Method], at: Span) -> str:
    outer, c.scope = c.scope, Scope(c.top)
    try:
        if not abstract and isinstance(node, syntax.Function):
            node = replace(node, body=None)
        made = DECLARATIONS[type(node)](c, node)
    finally:
        c.scope = outer
    if not isinstance(made, core.Function) or not abstract:
        return node.name.text
    method = abstract.get(made.name)
    if method is None:
        c.fail(node.name.span, f"{made.name} is not an abstract method of the extern")
    if made.returns != method.returns or len(made.parameters) != len(method.parameters):
        c.fail(at, f"{made.name} does not have the type of the abstract method, declared at {method.span}")
    for mine, theirs in zip(made.parameters, method.parameters, strict=True):
        if mine.direction != theirs.direction or not agree(mine.type, theirs.type):
            c.fail(at, f"{made.name}: {mine.name} must be {theirs.direction} {describe(theirs.type)} {theirs.name}")
    return made.name
