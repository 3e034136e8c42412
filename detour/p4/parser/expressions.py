# SPDX-License-Identifier: Apache-2.0
"""Parser of types as written, of expressions (specification, section 8) and of sets (8.13, keyset expressions)."""

from __future__ import annotations

from collections.abc import Callable

from detour.p4 import syntax
from detour.p4.lexer import number, unquote
from detour.p4.parser.cursor import NAMES, Cursor, ParseError
from detour.p4.source import Span

_BASES = frozenset(("bit", "bool", "error", "int", "match_kind", "string", "tuple", "varbit", "void"))

_PRECEDENCE = {
    "||": 2,
    "&&": 3,
    **dict.fromkeys(("==", "!="), 4),
    **dict.fromkeys(("<", ">", "<=", ">="), 5),
    "|": 6,
    "^": 7,
    "&": 8,
    **dict.fromkeys(("<<", ">>"), 9),
    **dict.fromkeys(("++", "+", "-", "|+|", "|-|"), _SUM := 10),
    **dict.fromkeys(("*", "/", "%"), 11),
}
_CONDITIONAL = 1
_POSTFIX = frozenset((".", "[", "(", "<"))
SETS = ("&&&", "..")
"""Operators that make sets."""


class ExpressionParser(Cursor):
    """Parser of types, and of expressions by precedence."""

    # ---------------------------------------------------------------- types

    def starts_type(self) -> bool:
        """Return whether a type stands here, and not a member of one such as `error.NoError`."""
        kind = self.kind
        if kind == "name":
            return self._types.get(self.token.text, False) and self.peek() != "."
        if kind in _BASES:
            return self.peek() != "."
        if kind in NAMES:
            return (kind == "list" and self.peek() == "<") or (self.is_type(kind) and self.peek() != ".")
        return kind == "." and self.peek() in NAMES and self.is_type(self.tokens[self.at + 1].text, True)

    def type(self) -> syntax.TypeNode:
        """A type."""
        return self.sized(self._unsized_type())

    def sized(self, node: syntax.TypeNode) -> syntax.TypeNode:
        """`node`, or the stack that `[size]` makes of it; it may stand behind the name that is declared, too."""
        start = node.span
        while self.kind == "[":
            size = self.between("[", self.expression, "]")
            node = syntax.ArrayType(self.until(start), node, size)
        return node

    def _unsized_type(self) -> syntax.TypeNode:
        kind, start = self.kind, self.token.span
        if kind in ("bit", "int", "varbit"):
            return self._bits()
        if kind in _BASES:
            self.advance()
            return (
                syntax.NamedType(start, kind) if kind != "tuple" else self._specialized(syntax.NamedType(start, kind))
            )
        node = self._named_type()
        if kind == "list" and node.arguments is not None and len(node.arguments) != 1:
            self.messages.error(node.span, "a list has one type of elements: list<T>")
            raise ParseError
        return node

    def _named_type(self) -> syntax.NamedType:
        """The name of a type, with type arguments if there are any."""
        start = self.token.span
        absolute = self.take(".")
        if self.kind not in NAMES:
            raise self.unexpected("a type")
        name = self.advance().text
        node = syntax.NamedType(self.until(start), name, absolute)
        return self._specialized(node) if self.kind == "<" else node

    def _specialized(self, node: syntax.NamedType) -> syntax.NamedType:
        arguments = self.type_arguments()
        return syntax.NamedType(self.until(node.span), node.name, node.absolute, arguments, node.span)

    def _bits(self) -> syntax.TypeNode:
        token = self.advance()
        if self.kind != "<":
            if token.kind == "int":
                return syntax.NamedType(token.span, "int")
            if token.kind == "varbit":
                raise self.unexpected("`<` and the largest width after varbit", "as in varbit<320>")
            return syntax.BitsType(token.span, "bit", syntax.Literal(token.span, 1))
        self.advance()
        width = self.width()
        self.expect_close()
        return syntax.BitsType(self.until(token.span), token.kind, width)

    def type_arguments(self) -> tuple[syntax.TypeNode, ...]:
        """`<type, type>`."""
        self.expect("<")
        arguments: list[syntax.TypeNode] = []
        while self.kind not in (">", ">>"):
            arguments.append(syntax.NamedType(self.advance().span, "_") if self.kind == "_" else self.type())
            if not self.take(","):
                break
        self.expect_close()
        return tuple(arguments)

    def type_parameters(self) -> tuple[syntax.Name, ...]:
        """`<T, U>`, if it is there: types from here on, in the present scope."""
        if self.kind != "<":
            return ()
        self.advance()
        names = self.separated(self.name, ">")
        self.expect_close()
        for one in names:
            self.declare(one.text, True)
        return names

    # ---------------------------------------------------------------- operators

    def expression(self) -> syntax.Expression:
        return self._binary(_CONDITIONAL, self.unary())

    def width(self) -> syntax.Expression:
        """A width between `<` and `>`. The specification wants brackets around computed ones; p4c does not."""
        return self._binary(_SUM, self.unary())

    def _binary(self, lowest: int, left: syntax.Expression) -> syntax.Expression:
        """The expression that begins with `left`, of operators that bind at least as tightly as `lowest`."""
        while True:
            operator = self.kind
            level = _PRECEDENCE.get(operator, 0)
            if level < lowest or not level or (operator == "+" and self.peek() == ":"):
                break
            self.advance()
            right = self.unary()
            while _PRECEDENCE.get(self.kind, 0) > level and not (self.kind == "+" and self.peek() == ":"):
                right = self._binary(level + 1, right)
            left = syntax.Binary(left.span.to(right.span), operator, left, right)
        if self.kind == "?" and lowest <= _CONDITIONAL:
            self.advance()
            yes = self.expression()
            self.expect(":")
            no = self.expression()
            return syntax.Conditional(left.span.to(no.span), left, yes, no)
        return left

    def unary(self) -> syntax.Expression:
        """An operand with the operators before it."""
        if self.kind in ("!", "~", "-", "+"):
            token = self.advance()
            operand = self.unary()
            return syntax.Unary(token.span.to(operand.span), token.kind, operand)
        return self.postfix(self._primary())

    # ---------------------------------------------------------------- operands

    def _primary(self) -> syntax.Expression:
        kind = self.kind
        reader = _PRIMARIES.get(kind)
        if reader is not None:
            return reader(self)
        if kind in NAMES or kind == ".":
            return self._name_or_type()
        if kind == "error":
            token = self.advance()
            return self._of_type(syntax.NamedType(token.span, "error"))
        hint = f"a cast stands in brackets: ({kind}<8>) x" if kind in ("bit", "int") else ""
        raise self.unexpected("an expression", hint)

    def _name_or_type(self) -> syntax.Expression:
        start = self.token.span
        absolute = self.take(".")
        if self.kind not in NAMES:
            raise self.unexpected("a name")
        token = self.advance()
        name, span = token.text, self.until(start)
        if self.is_type(name, absolute):
            named = syntax.NamedType(span, name, absolute)
            if self.kind == "<" and self._type_arguments_follow(any_name=True):
                named = self._specialized(named)
            return self._of_type(named)
        return syntax.NameExpression(span, name, absolute)

    def _of_type(self, node: syntax.TypeNode) -> syntax.Expression:
        if self.kind not in (".", "("):
            raise self.unexpected("`.` or `(`", f"`{node.span.text}` is a type, not a value")
        return syntax.TypeExpression(node.span, node)

    def _literal(self) -> syntax.Literal:
        token = self.advance()
        if token.kind != "number":
            value = unquote(token.text) if token.kind == "text" else token.kind == "true"
            return syntax.Literal(token.span, value)
        parts = number(token.text)
        if parts is None:
            self.messages.error(token.span, f"`{token.text}` is not an integer", "as in 10, 0xff, 8w255 or 4s0b101")
            return syntax.Literal(token.span, 0)
        return syntax.Literal(token.span, *parts)

    def _sign(self) -> syntax.Sign:
        token = self.advance()
        return syntax.Sign(token.span, token.kind)

    def _bracketed(self) -> syntax.Expression:
        """`(expression)` or a cast."""
        start = self.advance().span
        if self.starts_type():
            return self._cast(start)
        inner = self.expression()
        self.expect(")")
        return inner

    def _cast(self, start: Span) -> syntax.Expression:
        node = self.type()
        if self.kind != ")":
            # `(T(...).apply())` and the like: the type begins an expression.
            inner = self._binary(_CONDITIONAL, self.postfix(syntax.TypeExpression(node.span, node)))
            self.expect(")")
            return inner
        self.advance()
        operand = self.unary()
        return syntax.Cast(start.to(operand.span), node, operand)

    def _braced(self) -> syntax.Expression:
        """`{a, b}` or `{x = a, y = b}`."""
        start = self.advance().span
        if self.kind in NAMES and self.peek() == "=":
            return self._struct(start)
        elements = self.separated(self.expression, "}", trailing=True)
        self.expect("}")
        return syntax.ListExpression(self.until(start), elements)

    def _struct(self, start: Span) -> syntax.Expression:
        fields: list[syntax.KeyValue] = []
        dots = False
        while self.kind != "}" and not dots:
            if self.kind == "...":
                self.advance()
                dots = True
            else:
                fields.append(self.key_value())
                name = fields[-1].name
                if any(name.text == other.name.text for other in fields[:-1]):
                    self.messages.error(name.span, f"{name.text} has two values")
            if not self.take(","):
                break
        self.expect("}")
        return syntax.StructExpression(self.until(start), tuple(fields), dots)

    def key_value(self) -> syntax.KeyValue:
        name = self.name()
        self.expect("=")
        value = self.expression()
        return syntax.KeyValue(name.span.to(value.span), name, value)

    # ---------------------------------------------------------------- what follows operands

    def postfix(self, node: syntax.Expression, statement: bool = False) -> syntax.Expression:
        """`node` with all members, indexes and calls after it.

        Args:
            statement: `node` begins a statement, where `<` opens type arguments.
        """
        while self.kind in _POSTFIX:
            if self.kind == ".":
                self.advance()
                member = self.name("the name of a member")
                node = syntax.Member(node.span.to(member.span), node, member)
            elif self.kind == "[":
                node = self._index(node)
            elif self.kind == "(":
                node = self._call(node, ())
                if statement:
                    break
            elif self._type_arguments_follow(any_name=statement):
                types = self.type_arguments()
                if self.kind != "(":
                    raise self.unexpected("`(` after type arguments")
                node = self._call(node, types)
            else:
                break
        return node

    def _type_arguments_follow(self, any_name: bool) -> bool:
        """Return whether `<` opens type arguments: a type follows, which no operand begins with."""
        kind = self.peek()
        if kind in ("_", "bit", "bool", "int", "match_kind", "string", "tuple", "varbit", "void"):
            return True
        if kind == "error" or kind in NAMES:
            after = self.peek(2)
            if kind == "error" or self.is_type(self.tokens[self.at + 1].text) or (kind == "list" and after == "<"):
                return after != "."
            return any_name
        return kind == "." and self.is_type(self.tokens[self.at + 2].text, True) and self.peek(3) != "."

    def _index(self, node: syntax.Expression) -> syntax.Expression:
        self.advance()
        first = self.expression()
        if self.take(":"):
            low = self.expression()
            self.expect("]")
            return syntax.Slice(self.until(node.span), node, first, low)
        if self.kind == "+":
            self.advance()
            self.expect(":")
            width = self.expression()
            self.expect("]")
            return syntax.PlusSlice(self.until(node.span), node, first, width)
        self.expect("]")
        return syntax.Index(self.until(node.span), node, first)

    def _call(self, function: syntax.Expression, types: tuple[syntax.TypeNode, ...]) -> syntax.Call:
        arguments = self.arguments()
        return syntax.Call(self.until(function.span), function, types, arguments)

    def arguments(self) -> tuple[syntax.Argument, ...]:
        """`(a, name = b, _)`."""
        return self.between("(", lambda: self.separated(self._argument, ")"), ")")

    def _argument(self) -> syntax.Argument:
        name = None
        if self.kind in NAMES and self.peek() == "=":
            name = self.name()
            self.advance()
        value = self._sign() if self.kind == "_" else self.expression()
        return syntax.Argument(name.span.to(value.span) if name else value.span, name, value)

    # ---------------------------------------------------------------- sets

    def set(self) -> syntax.Expression:
        """One set, or one for each of several expressions in brackets."""
        if self.kind != "(" or self._cast_follows():
            return self.simple_set()
        start = self.advance().span
        first = self.simple_set()
        only_set = isinstance(first, syntax.Binary) and first.operator in SETS
        if self.kind == "," or only_set or (isinstance(first, syntax.Sign) and first.is_anything):
            elements = [first]
            while self.take(","):
                elements.append(self.simple_set())
            self.expect(")")
            return syntax.TupleSet(self.until(start), tuple(elements))
        self.expect(")")
        # The brackets were those of an operand: `(a) + 1`.
        return self._set_from(self._binary(_CONDITIONAL, self.postfix(first)))

    def _cast_follows(self) -> bool:
        at = self.at
        self.move(at + 1)
        result = self.starts_type()
        self.move(at)
        return result

    def simple_set(self) -> syntax.Expression:
        """A value, `value &&& mask`, `low .. high`, `default` or `_`."""
        return self._sign() if self.kind in ("_", "default") else self._set_from(self.expression())

    def _set_from(self, first: syntax.Expression) -> syntax.Expression:
        if self.kind not in SETS:
            return first
        operator = self.advance().kind
        second = self.expression()
        return syntax.Binary(first.span.to(second.span), operator, first, second)


_PRIMARIES: dict[str, Callable[[ExpressionParser], syntax.Expression]] = {
    **dict.fromkeys(("number", "text", "true", "false"), ExpressionParser._literal),
    **dict.fromkeys(("this", "...", "{#}"), ExpressionParser._sign),
    "(": ExpressionParser._bracketed,
    "{": ExpressionParser._braced,
}
