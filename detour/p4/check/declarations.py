# SPDX-License-Identifier: Apache-2.0
"""Types, functions, externs, errors, instances at the top level (specification, sections 7, 9 and 10)."""

from __future__ import annotations

from dataclasses import replace

from detour.p4 import core, syntax, types
from detour.p4.check.calls import construct
from detour.p4.check.checker import DECLARATIONS, Checker, rule, same_call
from detour.p4.check.constants import as_integer, limits
from detour.p4.check.generics import agree, arguments_of, specialize, substitute
from detour.p4.check.notes import begun, noted
from detour.p4.check.operators import plain
from detour.p4.check.parameters import Owner, parameters
from detour.p4.check.scope import MatchKind, Place, Scope
from detour.p4.check.statements import always_returns, block, constant
from detour.p4.check.typenames import check_field, describe, resolve
from detour.p4.source import Located
from detour.p4.types import BOOL, INTEGER, MATCH_KIND, STRING, VOID, Bits, Type

RECORDS: dict[str, type[types.Record]] = {"struct": types.Struct, "header": types.Header, "header_union": types.Union}

rule(DECLARATIONS, syntax.Constant)(constant)

# ---------------------------------------------------------------- structures


@rule(DECLARATIONS, syntax.RecordType)
def record(c: Checker, node: syntax.RecordType) -> core.TypeDeclaration:
    name, container = node.name.text, RECORDS[node.kind]
    fields: dict[str, types.FieldOf] = {}
    with c.inner_scope():
        variables = c.type_variables(node.type_parameters)
        for part in node.fields:
            field = part.name.text
            kind = resolve(c, part.type)
            check_field(c, kind, field, container, part)
            if field in fields:
                c.fail(part.name, f"field {field} of {node.kind} {name} is declared already")
            fields[field] = types.FieldOf(field, kind, noted(c, part))
    declaration = begun(c, core.TypeDeclaration, node, kind=node.kind, fields=tuple(fields.values()))
    c.field_spans.update({(declaration, part.name.text): part.span for part in node.fields})
    declaration.type = container(name, variables, declaration, declaration.fields)
    c.declare_type(node.name, declaration.type, variables)
    return declaration


@rule(DECLARATIONS, syntax.Enum)
def enum(c: Checker, node: syntax.Enum) -> core.TypeDeclaration:
    name = node.name.text
    base = None if node.base is None else _enum_base(c, node.base)
    members: dict[str, int | None] = {}
    with c.inner_scope(parameters=True):
        for member in node.members:
            key = member.name.text
            if key in members:
                c.fail(member.name, f"member {key} of enum {name} is declared already")
            members[key] = None if base is None else _enum_value(c, base, member, name)
    declaration = begun(c, core.TypeDeclaration, node, kind="enum")
    declaration.type = types.Enum(name, base, declaration, tuple(members.items()))
    c.declare_type(node.name, declaration.type)
    return declaration


def _enum_base(c: Checker, node: syntax.TypeNode) -> Bits:
    base = resolve(c, node)
    if not isinstance(base, Bits):
        hint = "A type declared by `type` is not enough." if isinstance(base, types.NewType) else ""
        c.fail(node, f"an enum has values of bit<w> or int<w>, not of {describe(base)}", hint)
    return base


def _enum_value(c: Checker, base: Bits, member: syntax.EnumMember, name: str) -> int:
    key = member.name.text
    if member.value is None:
        c.fail(member, f"member {key} of enum {name} needs a value", f"Write it: {key} = 0.")
    expression = plain(c.expression(member.value))
    value = as_integer(expression)
    if value is None or expression.type not in (INTEGER, base):
        c.fail(member, f"the value of {name}.{key} must be a known number of the type {base}")
    low, high = limits(base)
    if not low <= value <= high:
        c.fail(member, f"{name}.{key} = {value} does not fit {base}", f"Its numbers are {low} to {high}.")
    literal = core.Literal(base, member.span, value)
    c.scope.symbols[key] = core.Constant(key, member.name.span, (), base, literal)
    return value


@rule(DECLARATIONS, syntax.Typedef)
def typedef(c: Checker, node: syntax.Typedef) -> core.TypeDeclaration:
    if isinstance(node.type, syntax.RecordType):
        kind = record(c, node.type).type
    elif isinstance(node.type, syntax.Enum):
        kind = enum(c, node.type).type
    else:
        kind = resolve(c, node.type)
    declaration = begun(c, core.TypeDeclaration, node, kind=node.kind, type=kind)
    if node.kind == "type":
        if not isinstance(kind, Bits | types.NewType) and kind != BOOL:
            hint = "Only to bit<w>, int<w>, bool. Use typedef."
            c.fail(node, f"`type` cannot be applied to {describe(kind)}", hint)
        declaration.type = types.NewType(node.name.text, kind, declaration)
    elif kind in (VOID, MATCH_KIND):
        c.fail(node, f"typedef cannot be applied to {describe(kind)}")
    c.declare_type(node.name, declaration.type)
    return declaration


@rule(DECLARATIONS, syntax.Names)
def names(c: Checker, node: syntax.Names) -> None:
    """`error {...}` or `match_kind {...}`."""
    noted(c, node)
    for member in node.members:
        if node.name.text == "match_kind":
            c.declare(member, MatchKind(member.text, member.span))
        elif member.text in c.errors:
            c.fail(member, f"error.{member.text} is declared already")
        else:
            c.errors[member.text] = member.span


# ---------------------------------------------------------------- functions and externs


@rule(DECLARATIONS, syntax.Function)
def function(c: Checker, node: syntax.Function) -> core.Function:
    declaration = _signature(c, node, Owner.EXTERN if node.body is None else Owner.FUNCTION)
    c.declare_function(node.name, declaration)
    return declaration


def _signature(c: Checker, node: syntax.Function, owner: Owner) -> core.Function:
    """A function or method, with its body if it has one."""
    declaration = begun(c, core.Function, node, abstract=node.abstract)
    with c.inner_scope(parameters=True):
        declaration.variables = c.type_variables(node.type_parameters)
        if node.returns is not None:
            declaration.returns = _result(c, node.returns)
        declaration.parameters = parameters(c, node.parameters, owner)
        if node.body is not None:
            with c.inside(Place.FUNCTION, declaration.returns):
                declaration.body = block(c, node.body)
    may_end = declaration.returns != VOID and node.body is not None and not always_returns(declaration.body)
    if may_end and not c.has_errors_in(node.span):
        c.error(node.name, f"function {node.name.text} does not return a value on all paths")
    return declaration


def _result(c: Checker, node: syntax.TypeNode) -> Type:
    returns = resolve(c, node)
    if returns in (INTEGER, STRING) or isinstance(returns, types.Block):
        c.fail(node, f"a call cannot return {describe(returns)}", "Give it a width." if returns == INTEGER else "")
    return returns


@rule(DECLARATIONS, syntax.Extern)
def extern(c: Checker, node: syntax.Extern) -> core.Extern:
    name = node.name.text
    declaration = begun(c, core.Extern, node)
    c.open_names.add(name)
    with c.inner_scope():
        declaration.variables = c.type_variables(node.type_parameters)
        methods = [(method, _method(c, method, name)) for method in node.methods]
    c.open_names.discard(name)
    for at, (_, method) in enumerate(methods):
        for _, other in methods[:at]:
            if method.name == other.name and same_call(method.parameters, other.parameters):
                c.fail(method, f"{method.name} is declared already with the same parameters")
    c.declare_type(node.name, types.Extern(name, declaration.variables, declaration), declaration.variables)
    declaration.constructors = tuple(method for written, method in methods if written.returns is None)
    declaration.methods = tuple(method for written, method in methods if written.returns is not None)
    return declaration


def _method(c: Checker, node: syntax.Function, extern: str) -> core.Function:
    name = node.name.text
    if node.returns is None and name != extern:
        c.fail(node, f"method {name} needs the type of its result", "Write void where it returns nothing.")
    if node.returns is not None and name == extern:
        c.fail(node, f"the constructor of extern {extern} returns nothing", "Leave its type away.")
    return _signature(c, node, Owner.EXTERN_CONSTRUCTOR if node.returns is None else Owner.EXTERN)


# ---------------------------------------------------------------- instances, block types


@rule(DECLARATIONS, syntax.Variable)
def stray_variable(c: Checker, node: syntax.Variable) -> None:
    c.fail(node, f"{node.name.text}: a variable cannot stand at the top level", "Declare a const.")


@rule(DECLARATIONS, syntax.BlockType)
def block_type(c: Checker, node: syntax.BlockType) -> core.Declaration:
    declaration = begun(c, core.BlockType, node, kind=node.kind)
    with c.inner_scope():
        variables = declaration.variables = c.type_variables(node.type_parameters)
        with c.inner_scope(parameters=True):
            owner = Owner.PACKAGE if node.kind == "package" else Owner.BLOCK_TYPE
            declaration.parameters = parameters(c, node.parameters, owner)
    c.declare_type(node.name, types.Block(declaration.name, variables, declaration, node.kind), variables)
    return declaration


@rule(DECLARATIONS, syntax.Instance)
def instance(c: Checker, node: syntax.Instance) -> core.Instance:
    """Declare an instance; where it stands decides of what it may be (appendix F)."""
    made = construct(c, node.type, node.arguments, node.span)
    _check_place(c, made.type, node.name.text, node)
    _check_abstract(c, made.type, node)
    result = begun(c, core.Instance, node, type=made.type, arguments=made.arguments)
    c.declare(node.name, result)
    return result


def _check_place(c: Checker, kind: Type, name: str, at: Located) -> None:
    if isinstance(kind, types.Block):
        allowed = {Place.TOP: "package", Place.PARSER: "parser", Place.CONTROL: "control"}
        if kind.kind != allowed.get(c.place):
            c.fail(at, f"{name}: a {kind.kind} cannot be instantiated {c.place.value}")
    elif name == "main":
        c.fail(at, "main must be an instance of a package")


def _check_abstract(c: Checker, kind: Type, node: syntax.Instance) -> None:
    """Check implementations of abstract methods (10.3.1), then refuse them: no target here calls them."""
    abstract: dict[str, core.Function] = {}
    if isinstance(kind, types.Extern):
        known = arguments_of(kind)
        for method in kind.declaration.methods:
            if method.abstract:
                returns, variables = substitute(method.returns, known), specialize(method.parameters, known)
                abstract[method.name] = replace(method, returns=returns, parameters=variables)
    implemented = [_implementation(c, one, abstract, node.name) for one in node.initializer or ()]
    if node.initializer is not None and not abstract:
        c.fail(node, f"{describe(kind)} has no abstract methods to implement")
    for name in abstract:
        if name not in implemented:
            c.fail(node, f"{node.name.text} does not implement the abstract method {name}")
    if abstract:
        c.fail(node, f"{describe(kind)} has abstract methods ({', '.join(abstract)}), which no target here calls")


def _implementation(c: Checker, node: syntax.Declaration, abstract: dict[str, core.Function], at: Located) -> str:
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
        c.fail(node.name, f"{made.name} is not an abstract method of the extern")
    if made.returns != method.returns or len(made.parameters) != len(method.parameters):
        c.fail(at, f"{made.name} does not have the type of the abstract method, declared at {method.span}")
    for mine, theirs in zip(made.parameters, method.parameters, strict=True):
        if mine.direction != theirs.direction or not agree(mine.type, theirs.type):
            c.fail(at, f"{made.name}: {mine.name} must be {theirs.direction} {describe(theirs.type)} {theirs.name}")
    return made.name
