# SPDX-License-Identifier: Apache-2.0
"""Parser of statements (specification, section 12) and of what is declared among them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from detour.p4 import syntax
from detour.p4.parser.annotations import AnnotationParser
from detour.p4.parser.cursor import NAMES
from detour.p4.source import Span

_Annotations = tuple[syntax.Annotation, ...]

_ASSIGNMENTS = {
    "=": "",
    **{f"{operator}=": operator for operator in ("*", "/", "%", "+", "-", "|+|", "|-|", "<<", ">>", "&", "|", "^")},
}
_NOT_IN_PARSERS = frozenset(("return", "exit", "switch"))
_PLACES = (syntax.NameExpression, syntax.Member, syntax.Index, syntax.Slice, syntax.PlusSlice, syntax.Sign)


class StatementParser(AnnotationParser):
    """Parser of statements."""

    in_parser = False
    """Whether the statements are those of a parser's state."""

    @contextmanager
    def statements_of(self, *, parser: bool) -> Iterator[None]:
        """Code whose statements are those of a parser, or not."""
        before, self.in_parser = self.in_parser, parser
        try:
            yield
        finally:
            self.in_parser = before

    def block(self, annotations: _Annotations = ()) -> syntax.Block:
        """`{...}`, a scope of its own."""
        start = self.token.span
        with self.scope():
            statements = self.braced(self.statement)
        return syntax.Block(self.until(start), statements, annotations)

    def statement(self) -> syntax.Statement | syntax.Declaration:
        """A statement, or a variable, constant or instance."""
        if self.in_parser and self.kind in _NOT_IN_PARSERS:
            raise self.unexpected("a statement of a parser", f"`{self.kind}` stands in controls, actions and functions")
        reader = _STATEMENTS.get(self.kind)
        if reader is not None:
            return reader(self)
        if self.kind in ("@", "pragma"):
            return self._annotated()
        if self.starts_type() or self._undeclared_type():
            return self.variable_or_instance(())
        return self._assignment_or_call(";")

    def _undeclared_type(self) -> bool:
        """Return whether a declaration stands here whose type is not declared (`T x`): the checker says so."""
        return self.kind in NAMES and self.peek() in NAMES

    def only_statement(self) -> syntax.Statement:
        """A statement where a declaration may not stand: a branch, or the body of a loop."""
        token = self.token
        node = self.statement()
        if isinstance(node, syntax.Declaration):
            self.messages.error(token.span, "a declaration may not stand here", "put it in braces: {...}")
            return syntax.Jump(node.span, "")
        return node

    def _annotated(self) -> syntax.Statement | syntax.Declaration:
        annotations = self.annotations()
        if self.kind == "{":
            return self.block(annotations)
        if self.kind == "for":
            return self._for(annotations)
        if self.kind == "const":
            return self.constant(annotations)
        return self.variable_or_instance(annotations)

    # ---------------------------------------------------------------- declarations

    def constant(self, annotations: _Annotations = ()) -> syntax.Constant:
        start = self.expect("const").span
        node = self.type()
        name = self.name()
        self.expect("=", "the name of a constant")
        value = self.expression()
        self.expect(";")
        self.declare(name.text)
        return syntax.Constant(self.until(start), annotations, name, node, value)

    def variable_or_instance(self, annotations: _Annotations) -> syntax.Statement | syntax.Declaration:
        """A variable, an instance, or `T.apply(...)` of a generic type."""
        start = self.token.span
        node = self.type()
        if self.kind == "(":
            return self._instance(annotations, start, node)
        if self.kind == "." and isinstance(node, syntax.NamedType) and node.arguments is not None:
            call = self.postfix(syntax.TypeExpression(node.span, node), statement=True)
            return self._called(call, ";")
        variable = self._variable(annotations, start, node)
        self.expect(";")
        return variable

    def _variable(self, annotations: _Annotations, start: Span, node: syntax.TypeNode) -> syntax.Variable:
        name = self.name("the name of a variable")
        node = self.sized(node)
        value = self.expression() if self.take("=") else None
        self.declare(name.text)
        return syntax.Variable(self.until(start), annotations, name, node, value)

    def _instance(self, annotations: _Annotations, start: Span, node: syntax.TypeNode) -> syntax.Instance:
        arguments = self.arguments()
        name = self.name("the name of the instance")
        node = self.sized(node)
        initializer = None
        if self.take("="):
            with self.scope(), self.statements_of(parser=False):
                initializer = self.braced(self.abstract_method)
        self.expect(";")
        self.declare(name.text)
        return syntax.Instance(self.until(start), annotations, name, node, arguments, initializer)

    @abstractmethod
    def abstract_method(self) -> syntax.Declaration:
        """A function or an instance in the initializer of an instance: see `Parser`."""

    # ---------------------------------------------------------------- simple statements

    def _assignment_or_call(self, end: str) -> syntax.Statement:
        """An assignment or a call, with its `;` unless `end` says otherwise."""
        start = self.token.span
        if self.kind not in NAMES and self.kind not in ("this", "(", ".", "error"):
            raise self.unexpected("a statement")
        place = self.postfix(self._place(), statement=True)
        operator = _ASSIGNMENTS.get(self.kind)
        if operator is None or not isinstance(place, _PLACES):
            return self._called(place, end)
        self.advance()
        value = self.expression()
        if end:
            self.expect(end)
        return syntax.Assign(self.until(start), place, operator, value)

    def _place(self) -> syntax.Expression:
        if self.kind == "(":
            return self.between("(", lambda: self.postfix(self._place(), statement=True), ")")
        return self._primary()

    def _called(self, node: syntax.Expression, end: str) -> syntax.Statement:
        if not isinstance(node, syntax.Call):
            if self.kind in NAMES and isinstance(node, syntax.NameExpression):
                raise self.unexpected("a type", f"`{node.name}` is not a type")
            raise self.unexpected("`=` or `(`", "a statement assigns or calls")
        if end:
            self.expect(end)
        return syntax.CallStatement(self.until(node.span), node)

    def _empty(self) -> syntax.Statement:
        return syntax.Jump(self.advance().span, "")

    def _return(self) -> syntax.Statement:
        start = self.advance().span
        value = None if self.kind == ";" else self.expression()
        self.expect(";")
        return syntax.Return(self.until(start), value)

    def _jump(self) -> syntax.Statement:
        token = self.advance()
        self.expect(";", token.text)
        return syntax.Jump(self.until(token.span), token.kind)

    # ---------------------------------------------------------------- compound statements

    def _if(self) -> syntax.Statement:
        start = self.advance().span
        condition = self.between("(", self.expression, ")", "if")
        yes = self.only_statement()
        no = self.only_statement() if self.take("else") else None
        return syntax.If(self.until(start), condition, yes, no)

    def _switch(self) -> syntax.Statement:
        start = self.advance().span
        subject = self.between("(", self.expression, ")", "switch")
        cases = self.braced(self._switch_case)
        return syntax.Switch(self.until(start), subject, cases)

    def _switch_case(self) -> syntax.SwitchCase:
        start = self.token.span
        if self.kind == "{":
            raise self.unexpected("a label", "a case is `label: {...}`")
        label = self._sign() if self.kind == "default" else self.expression()
        self.expect(":", "the label of a case")
        body = self.block(self.annotations()) if self.kind in ("{", "@", "pragma") else None
        return syntax.SwitchCase(self.until(start), label, body)

    def _for(self, annotations: _Annotations = ()) -> syntax.Statement:
        start = self.advance().span
        self.expect("(", "for")
        with self.scope():
            initial = self.separated(self._for_initial, ";")
            if self.kind == "in" and isinstance(variable := initial[0], syntax.Variable) and variable.value is None:
                self.advance()
                collection = self._set_from(self.expression())
                self.expect(")")
                body = self.only_statement()
                return syntax.ForIn(self.until(start), variable, collection, body, annotations)
            self.expect(";")
            condition = self.expression()
            self.expect(";")
            update = self.separated(lambda: self._assignment_or_call(""), ")")
            self.expect(")")
            body = self.only_statement()
        return syntax.For(self.until(start), initial, condition, update, body, annotations)

    def _for_initial(self) -> syntax.Statement | syntax.Variable:
        if self.kind in ("@", "pragma") or self.starts_type() or self._undeclared_type():
            start, annotations = self.token.span, self.annotations()
            return self._variable(annotations, start, self.type())
        return self._assignment_or_call("")


_STATEMENTS: dict[str, Callable[[StatementParser], syntax.Statement | syntax.Declaration]] = {
    "{": StatementParser.block,
    ";": StatementParser._empty,
    "if": StatementParser._if,
    "switch": StatementParser._switch,
    "for": StatementParser._for,
    "return": StatementParser._return,
    **dict.fromkeys(("exit", "break", "continue"), StatementParser._jump),
    "const": StatementParser.constant,
}
