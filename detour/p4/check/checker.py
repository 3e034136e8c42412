# SPDX-License-Identifier: Apache-2.0
"""State of the checker, and the tables of rules that the other modules fill: one rule for each kind of node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from detour.p4 import core, syntax, types
from detour.p4.check.scope import Broken, Overloads, Place, Scope, Symbol, TypeName
from detour.p4.messages import MAX_ERRORS, CompileError, Messages
from detour.p4.source import Located, Span

# Each rule takes the kind of node that it is entered for.
EXPRESSIONS: dict[type, Callable[..., core.Expression]] = {}
STATEMENTS: dict[type, Callable[..., core.Statement | None]] = {}
DECLARATIONS: dict[type, Callable[..., core.Declaration | None]] = {}

Rule = TypeVar("Rule", bound=Callable)


def rule(table: dict[type, Any], *nodes: type) -> Callable[[Rule], Rule]:
    """Enter a function into a table of rules: `@rule(EXPRESSIONS, syntax.Literal)`."""

    def enter(function: Rule) -> Rule:
        table.update(dict.fromkeys(nodes, function))
        return function

    return enter


class Checker:
    """The state that all rules share: messages, the current scope, and what is known of the program so far."""

    def __init__(self, messages: Messages) -> None:
        self.messages = messages
        self.error = messages.error
        self.warn = messages.warn
        self.top = Scope()
        self.scope = self.top
        self.place = Place.TOP
        self.returns: types.Type | None = None
        """Result type of the function or method around; None elsewhere."""
        self.loops = 0
        """Loops around the current statement."""
        self.table_name = ""
        """The table whose properties are checked."""
        self.errors: dict[str, Span] = {}
        """Members of `error`."""
        self.declared: list[tuple[str, Symbol]] = []
        """All declarations with names, in order."""
        self.used: set[object] = set()
        """Declarations that are mentioned."""
        self.open_names: set[str] = set()
        """Declarations that are being checked: these cannot use themselves."""
        self.field_spans: dict[tuple[core.Declaration, str], Span] = {}
        """Where fields of structures are declared."""
        self._serial = 0

    def expression(self, node: syntax.Expression, expected: types.Type | None = None) -> core.Expression:
        """The expression with its type. `expected` helps where the expression alone does not tell it."""
        return EXPRESSIONS[type(node)](self, node, expected)

    def each(self, nodes: Iterable[syntax.SyntaxNode], rules: dict[type, Any]) -> list[Any]:
        """Statements or declarations in the current scope; each is checked even where others have errors."""
        result = []
        for node in nodes:
            try:
                made = rules[type(node)](self, node)
            except CompileError as error:
                if isinstance(node, syntax.Declaration):
                    self.declare_broken(node.name)
                self._recover(error)
                continue
            if made is not None:
                result.append(made)
        return result

    # ------------------------------------------------------------ messages

    def fail(self, at: Located, text: str, hint: str = "") -> NoReturn:
        """Report an error that ends the check of the statement or declaration around."""
        raise self.messages.fail(at, text, hint)

    def has_errors_in(self, span: Span) -> bool:
        """Return whether an error is reported in a part of the source."""
        return any(span.holds(error.span) for error in self.messages.errors)

    @contextmanager
    def recovery(self) -> Iterator[None]:
        """Go on after a part that `fail` ended."""
        try:
            yield
        except CompileError as error:
            self._recover(error)

    def _recover(self, error: CompileError) -> None:
        if error.message is not None:
            self.error(error.message, error.message.text, error.message.hint)
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
        finally:
            self.scope = outer

    @contextmanager
    def inside(self, place: Place, returns: types.Type | None = None) -> Iterator[None]:
        """Code that stands at `place`; `returns` is the result type of a function."""
        before = self.place, self.returns, self.loops
        self.place, self.returns, self.loops = place, returns, 0
        try:
            yield
        finally:
            self.place, self.returns, self.loops = before

    def declare(self, name: syntax.Name, symbol: Symbol, *, prototype: bool = False) -> None:
        """Enter a name into the current scope, which must not have it already. Parameters of a `prototype`, which has
        no body, hide nothing.
        """
        scope, text = self.scope, name.text
        old = scope.symbols.get(text)
        if isinstance(old, Broken):
            return
        if old is not None:
            self.fail(name, f"{text} is declared already", f"The other declaration is at {old.span}.")
        outer = scope.outer
        if outer is not None:
            around = outer if outer.parameters else outer.outer
            in_block = self.place not in (Place.CONTROL, Place.PARSER, Place.TOP) and not scope.parameters
            if in_block and around is not None and around.parameters and text in around.symbols:
                self.fail(name, f"{text} has the name of a parameter", "Give one of them another name.")
            shadowed = outer.find(text)
            if shadowed is not None and not isinstance(shadowed, Broken) and not prototype:
                self.warn("shadow", name, f"{text} hides another {text}, declared at {shadowed.span}")
        scope.symbols[text] = symbol
        self.declared.append((text, symbol))

    def declare_broken(self, name: syntax.Name) -> None:
        """Enter the name of a declaration that has an error, unless the name has a meaning already."""
        self.scope.symbols.setdefault(name.text, Broken(name.span))

    def declare_type(self, name: syntax.Name, kind: types.Type, variables: tuple[types.TypeVariable, ...] = ()) -> None:
        self.declare(name, TypeName(kind, variables, name.span))

    def declare_function(self, name: syntax.Name, function: core.Function) -> None:
        """Enter a function; others of the same name differ in number or names of parameters (section 7.2.9.2)."""
        old = self.scope.symbols.get(function.name)
        if not isinstance(old, Overloads):
            self.declare(name, Overloads([function]))
            return
        for other in old.functions:
            if same_call(other.parameters, function.parameters):
                self.fail(
                    name,
                    f"function {function.name} is declared already with {len(function.parameters)} parameters",
                    f"The other one is at {other.span}. Overloads differ in the number or names of parameters.",
                )
        old.functions.append(function)

    def find(self, node: syntax.NameExpression | syntax.NamedType) -> Symbol:
        """Meaning of a name at its use."""
        name = node.name
        symbol = self.top.symbols.get(name) if node.absolute else self.scope.find(name)
        if name == self.table_name and not node.absolute:
            self.fail(node, f"table {name} cannot be used inside of itself")
        if symbol is None and name in self.open_names:
            self.fail(node, f"{name} cannot be used inside of itself")
        if symbol is None:
            names = {other for scope in self.scope.chain() for other in scope.symbols}
            hint = similar(name, names, 0.75) or "Names are declared before they are used."
            self.fail(node, f"{'.' if node.absolute else ''}{name} is not declared", hint)
        if type(symbol) is Broken:
            raise CompileError
        self.used.add(symbol)
        return symbol

    def type_variables(self, names: tuple[syntax.Name, ...]) -> tuple[types.TypeVariable, ...]:
        """Declare the type parameters of a generic declaration in the current scope."""
        self._serial += 1
        variables = tuple(types.TypeVariable(name.text, self._serial) for name in names)
        for name, variable in zip(names, variables, strict=True):
            self.declare_type(name, variable)
        return variables


def similar(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """A hint that names what may be meant; empty if nothing is alike."""
    close = get_close_matches(name, names, 1, cutoff)
    return f"Did you mean {close[0]}?" if close else ""


def same_call(one: tuple[core.Variable, ...], other: tuple[core.Variable, ...]) -> bool:
    """Return whether a call could mean either list of parameters."""
    return len(one) == len(other) and {p.name for p in one} == {p.name for p in other}
