# SPDX-License-Identifier: Apache-2.0
"""State of the checker, and the tables of rules that the other modules fill: one rule for each kind of node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from detour.p4 import core, syntax
from detour.p4.check.scope import Broken, Overloads, Place, Scope, Symbol, TypeName
from detour.p4.messages import MAX_ERRORS, CompileError, Messages
from detour.p4.source import Span
from detour.p4.types import Type, TypeVariable

# Each rule takes the kind of node that it is entered for.
ExpressionRule = Callable[..., core.Expression]
StatementRule = Callable[..., "core.Statement | None"]
DeclarationRule = Callable[..., "core.Declaration | None"]

EXPRESSIONS: dict[type, ExpressionRule] = {}
STATEMENTS: dict[type, StatementRule] = {}
DECLARATIONS: dict[type, DeclarationRule] = {}

Rule = TypeVar("Rule", bound=Callable)


def rule(table: dict[type, Rule], *nodes: type) -> Callable[[Rule], Rule]:
    """Enters a function into a table of rules: `@rule(EXPRESSIONS, syntax.Number)`."""

    def enter(function: Rule) -> Rule:
        table.update(dict.fromkeys(nodes, function))
        return function

    return enter


class Checker:
    """What all rules share: messages, the current scope, and what is known of the program so far."""

    def __init__(self, messages: Messages) -> None:
        self.messages = messages
        self.top = Scope()
        self.scope = self.top
        self.place = Place.TOP
        self.returns: Type | None = None
        """Result type of the function or method around; None elsewhere."""
        self.loops = 0
        """Loops around the current statement."""
        self.table_name = ""
        """The table whose properties are checked."""
        self.errors: dict[str, Span] = {}
        """Members of `error`."""
        self.variables: dict[core.Declaration, tuple[TypeVariable, ...]] = {}
        """Type parameters of generic declarations."""
        self.used: set[object] = set()
        """Declarations that are mentioned."""
        self.open_names: set[str] = set()
        """Declarations that are being checked: these cannot use themselves."""
        self.field_spans: dict[tuple[core.Declaration, str], Span] = {}
        """Where fields of structures are declared."""
        self._serial = 0

    def expression(self, node: syntax.Expression, expected: Type | None = None) -> core.Expression:
        """The expression with its type. `expected` helps where the expression alone does not tell it."""
        return EXPRESSIONS[type(node)](self, node, expected)

    # ------------------------------------------------------------ messages

    def error(self, span: Span, text: str, hint: str = "") -> None:
        """Reports an error from which the check goes on."""
        self.messages.error(span, text, hint)

    def fail(self, span: Span, text: str, hint: str = "") -> NoReturn:
        """Reports an error that ends the check of the statement or declaration around."""
        raise self.messages.fail(span, text, hint)

    def has_errors_in(self, span: Span) -> bool:
        """Whether an error is reported in a part of the source."""
        return any(e.span.file is span.file and span.start <= e.span.start < span.end for e in self.messages.errors)

    def warn(self, kind: str, span: Span, text: str) -> None:
        self.messages.warn(kind, span, text)

    @contextmanager
    def recovery(self) -> Iterator[None]:
        """Goes on after a statement or declaration that `fail` ended."""
        try:
            yield
        except CompileError as error:
            self.recover(error)

    def recover(self, error: CompileError) -> None:
        """Reports the error that ended a statement or declaration."""
        if error.message is not None:
            self.messages.error(error.message.span, error.message.text, error.message.hint)
        elif len(self.messages.errors) >= MAX_ERRORS:
            raise error

    # ------------------------------------------------------------ names

    @contextmanager
    def inner_scope(self, *, parameters: bool = False) -> Iterator[Scope]:
        """A scope inside of the current one."""
        outer = self.scope
        self.scope = Scope(outer, parameters)
        try:
            yield self.scope
            self.report_unused(self.scope)
        finally:
            self.scope = outer

    @contextmanager
    def inside(self, place: Place, returns: Type | None = None) -> Iterator[None]:
        """What is checked within stands at `place`; `returns` is the result type of a function."""
        before = self.place, self.returns, self.loops
        self.place, self.returns, self.loops = place, returns, 0
        try:
            yield
        finally:
            self.place, self.returns, self.loops = before

    def declare(self, name: str, symbol: Symbol, span: Span) -> None:
        """Enters a name into the current scope, which must not have it already."""
        scope = self.scope
        old = scope.symbols.get(name)
        if isinstance(old, Broken):
            return
        if old is not None:
            self.fail(span, f"{name} is declared already", f"The other declaration is at {old.span}.")
        outer = scope.outer
        if outer is not None:
            around = outer if outer.parameters else outer.outer
            in_block = self.place not in (Place.CONTROL, Place.PARSER, Place.TOP) and not scope.parameters
            if in_block and around is not None and around.parameters and name in around.symbols:
                self.fail(span, f"{name} has the name of a parameter", "Give one of them another name.")
            if isinstance(symbol, core.Variable | core.Constant | core.Instance | core.Action | core.Table):
                shadowed = outer.find(name)
                if shadowed is not None and not isinstance(shadowed, Broken):
                    self.warn("shadow", span, f"{name} hides another {name}, declared at {shadowed.span}")
        scope.symbols[name] = symbol

    def declare_broken(self, name: syntax.Name) -> None:
        """Enters the name of a declaration that has an error, unless the name has a meaning already."""
        self.scope.symbols.setdefault(name.text, Broken(name.span))

    def declare_function(self, function: core.Function) -> None:
        """Enters a function; others of the same name differ in number or names of parameters (section 7.2.9.2)."""
        old = self.scope.symbols.get(function.name)
        if not isinstance(old, Overloads):
            self.declare(function.name, Overloads([function]), function.span)
            return
        for other in old.functions:
            if same_call(other.parameters, function.parameters):
                self.fail(
                    function.span,
                    f"function {function.name} is declared already with {len(function.parameters)} parameters",
                    f"The other one is at {other.span}. Overloads differ in the number or names of parameters.",
                )
        old.functions.append(function)

    def find(self, name: str, absolute: bool, span: Span) -> Symbol:
        """Meaning of a name at its use."""
        symbol = self.top.symbols.get(name) if absolute else self.scope.find(name)
        if name == self.table_name and not absolute:
            self.fail(span, f"table {name} cannot be used inside of itself")
        if symbol is None and name in self.open_names:
            self.fail(span, f"{name} cannot be used inside of itself")
        if symbol is None:
            self.fail(span, f"{'.' if absolute else ''}{name} is not declared", self._similar(name))
        if type(symbol) is Broken:
            raise CompileError
        self.used.add(symbol)
        return symbol

    def _similar(self, name: str) -> str:
        from difflib import get_close_matches

        names: set[str] = set()
        scope: Scope | None = self.scope
        while scope is not None:
            names |= scope.symbols.keys()
            scope = scope.outer
        close = get_close_matches(name, names, 1, 0.75)
        return f"Did you mean {close[0]}?" if close else "Names are declared before they are used."

    def type_variables(self, names: tuple[syntax.Name, ...]) -> tuple[TypeVariable, ...]:
        """Declares the type parameters of a generic declaration in the current scope."""
        self._serial += 1
        variables = []
        for name in names:
            variable = TypeVariable(name.text, self._serial)
            self.declare(name.text, TypeName(variable, (), name.span), name.span)
            variables.append(variable)
        return tuple(variables)

    def report_unused_parameters(self, parameters: tuple[core.Variable, ...]) -> None:
        """Warns of parameters that a body does not mention."""
        for parameter in parameters:
            if parameter not in self.used and not parameter.name.startswith("_"):
                self.warn("unused", parameter.span, f"parameter {parameter.name} is not used")

    def report_unused(self, scope: Scope) -> None:
        if scope.parameters:
            return
        for name, symbol in scope.symbols.items():
            if symbol in self.used:
                continue
            kind = UNUSED.get(type(symbol)) if scope.outer is not None or type(symbol) is core.Action else None
            if kind and not name.startswith("_"):
                self.warn("unused", symbol.span, f"{kind} {name} is not used")


UNUSED: dict[type, str] = {
    core.Variable: "variable",
    core.Constant: "constant",
    core.Instance: "instance",
    core.Table: "table",
    core.Action: "action",
    core.ValueSet: "value set",
}


def same_call(one: tuple[core.Variable, ...], other: tuple[core.Variable, ...]) -> bool:
    """Whether a call could mean either list of parameters."""
    return len(one) == len(other) and {p.name for p in one} == {p.name for p in other}
