# SPDX-License-Identifier: Apache-2.0
"""Parser of parsers, controls and what stands in them: states, tables, actions (specification, sections 13 and 14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from detour.p4 import syntax
from detour.p4.parser.cursor import NAMES, ParseError
from detour.p4.parser.statements import StatementParser
from detour.p4.source import Span

_Annotations = tuple[syntax.Annotation, ...]
_Element = TypeVar("_Element")
_PROPERTY_NAMES = NAMES - {"actions", "entries", "key"}


class BlockParser(StatementParser):
    """Reads bodies of parsers and controls."""

    def parameters(self) -> tuple[syntax.Parameter, ...]:
        """`(in T a, out U b)`. The names are known from here on."""
        self.expect("(")
        parameters = self.separated(self._parameter, ")")
        self.expect(")")
        for parameter in parameters:
            self.declare(parameter.name.text)
        return parameters

    def _parameter(self) -> syntax.Parameter:
        start = self.token.span
        annotations = self.annotations()
        direction = self.advance().kind if self.kind in ("in", "out", "inout") else ""
        node = self.type()
        name = self.name("the name of a parameter")
        default = self.expression() if self.take("=") else None
        return syntax.Parameter(self.until(start), annotations, name, direction, node, default)

    def action(self, annotations: _Annotations = ()) -> syntax.Action:
        start = self.expect("action").span
        name = self.name("the name of an action")
        with self.scope():
            parameters = self.parameters()
            body = self.block()
        self.declare(name.text)
        return syntax.Action(self.until(start), annotations, name, parameters, body)

    def own_types(self) -> tuple[syntax.Name, ...]:
        """Type parameters of a declaration, which are types in its scope."""
        types = self.type_parameters()
        for one in types:
            self.declare(one.text, True)
        return types

    # ---------------------------------------------------------------- parsers

    def parser(self, annotations: _Annotations) -> syntax.Declaration:
        """A parser, or a parser type."""
        start = self.expect("parser").span
        name = self.name("the name of a parser")
        self.declare(name.text, True)
        with self.scope():
            types = self.own_types()
            parameters = self.parameters()
            if self.take(";"):
                return syntax.BlockType(self.until(start), annotations, name, "parser", types, parameters)
            constructor = self.parameters() if self.kind == "(" else ()
            self.expect("{")
            with self.statements_of(parser=True):
                elements = self.repeated(self._parser_element)
            self.expect("}")
        states = tuple(one for one in elements if isinstance(one, syntax.State))
        others = tuple(one for one in elements if not isinstance(one, syntax.State))
        return syntax.Parser(self.until(start), annotations, name, types, parameters, constructor, others, states)

    def _parser_element(self) -> syntax.Declaration:
        annotations = self.annotations()
        if self.kind == "state":
            return self._state(annotations)
        if self.kind == "const":
            return self.constant(annotations)
        if self.kind == "value_set":
            return self._value_set(annotations)
        if not self.starts_type() and self.kind not in NAMES:
            raise self.unexpected("a state, variable, constant, instance or value_set")
        return self._local(annotations)

    def _local(self, annotations: _Annotations) -> syntax.Declaration:
        start = self.token
        node = self.variable_or_instance(annotations)
        if isinstance(node, syntax.Declaration):
            return node
        self.messages.error(start.span, "a statement may not stand here", "put it into a state or into apply {...}")
        raise ParseError

    def _value_set(self, annotations: _Annotations) -> syntax.ValueSet:
        start = self.advance().span
        self.expect("<")
        element = self.type()
        self.expect_close()
        self.expect("(")
        size = self.expression()
        self.expect(")")
        name = self.name()
        self.expect(";")
        self.declare(name.text)
        return syntax.ValueSet(self.until(start), annotations, name, element, size)

    def _state(self, annotations: _Annotations) -> syntax.State:
        start = self.advance().span
        name = self.name("the name of a state")
        self.expect("{")
        with self.scope():
            statements: list[syntax.Statement | syntax.Declaration] = []
            transition: syntax.Name | syntax.Select | None = None
            while self.kind not in ("}", "end", "transition"):
                statements += self.repeated_to_transition()
            if self.kind == "transition":
                self.advance()
                transition = self._transition()
        self.expect("}", "the transition" if transition else "")
        return syntax.State(self.until(start), annotations, name, tuple(statements), transition)

    def repeated_to_transition(self) -> tuple[syntax.Statement | syntax.Declaration, ...]:
        """Statements of a state before its transition."""
        start = self.at
        try:
            return (self.statement(),)
        except ParseError:
            self.recover(start)
            return ()

    def _transition(self) -> syntax.Name | syntax.Select:
        if self.kind != "select":
            name = self.name("a state or select")
            self.expect(";", "the name of the state")
            return name
        start = self.advance().span
        self.expect("(", "select")
        expressions = self.separated(self.expression, ")")
        self.expect(")")
        self.expect("{")
        cases = self.repeated(self._select_case)
        self.expect("}")
        return syntax.Select(self.until(start), expressions, cases)

    def _select_case(self) -> syntax.SelectCase:
        start = self.token.span
        value = self.set()
        self.expect(":")
        state = self.name("the name of a state")
        self.expect(";")
        return syntax.SelectCase(self.until(start), value, state)

    # ---------------------------------------------------------------- controls

    def control(self, annotations: _Annotations) -> syntax.Declaration:
        """A control, or a control type."""
        start = self.expect("control").span
        name = self.name("the name of a control")
        self.declare(name.text, True)
        with self.scope():
            types = self.own_types()
            parameters = self.parameters()
            if self.take(";"):
                return syntax.BlockType(self.until(start), annotations, name, "control", types, parameters)
            constructor = self.parameters() if self.kind == "(" else ()
            self.expect("{")
            elements = self.repeated(self._control_element)
            body = next((one for one in elements if isinstance(one, syntax.Block)), None)
            if body is None:
                if self.kind == "}":
                    self.unexpected("`apply {...}` before the end of the control")
                body = syntax.Block(self.token.span, ())
            self.expect("}")
        others = tuple(one for one in elements if isinstance(one, syntax.Declaration))
        return syntax.Control(self.until(start), annotations, name, types, parameters, constructor, others, body)

    def _control_element(self) -> syntax.Declaration | syntax.Block:
        annotations = self.annotations()
        kind = self.kind
        if kind == "apply" and self.peek() in ("{", "@"):
            self.advance()
            body = self.block(self.annotations())
            if self.kind != "}":
                raise self.unexpected("`}` after the body of apply", "declarations stand before apply {...}")
            return body
        if kind == "action":
            return self.action(annotations)
        if kind == "table":
            return self._table(annotations)
        if kind == "const":
            return self.constant(annotations)
        if not self.starts_type() and kind not in NAMES:
            raise self.unexpected("an action, table, variable, constant, instance or `apply {...}`")
        return self._local(annotations)

    def _table(self, annotations: _Annotations) -> syntax.Table:
        start = self.advance().span
        name = self.name("the name of a table")
        self.expect("{")
        properties = self.repeated(self._property)
        self.expect("}")
        self.declare(name.text)
        return syntax.Table(self.until(start), annotations, name, properties)

    def _property(
        self,
    ) -> syntax.KeyProperty | syntax.ActionsProperty | syntax.EntriesProperty | syntax.Property:
        start = self.token.span
        annotations = self.annotations()
        if self.kind == "key" and not annotations:
            return syntax.KeyProperty(*self._braced_property(start, self._key_element))
        if self.kind == "actions" and not annotations:
            return syntax.ActionsProperty(*self._braced_property(start, self._listed_action))
        constant = self.take("const")
        if self.kind == "entries":
            span, entries = self._braced_property(start, self._entry)
            return syntax.EntriesProperty(span, constant, entries, annotations)
        if self.kind not in _PROPERTY_NAMES:
            raise self.unexpected("a property of the table", "as in key, actions, default_action, size, entries")
        name = self.name()
        self.expect("=", "the name of a property")
        value = self.expression()
        self.expect(";")
        return syntax.Property(self.until(start), annotations, constant, name, value)

    def _braced_property(self, start: Span, element: Callable[[], _Element]) -> tuple[Span, tuple[_Element, ...]]:
        """`word = {elements}`: its place and elements."""
        word = self.advance().text
        self.expect("=", word)
        self.expect("{")
        elements = self.repeated(element)
        self.expect("}")
        return self.until(start), elements

    def _key_element(self) -> syntax.KeyElement:
        start = self.token.span
        expression = self.expression()
        self.expect(":", "the expression of a key")
        kind = self.name("a match kind")
        annotations = self.annotations()
        self.expect(";")
        return syntax.KeyElement(self.until(start), expression, kind, annotations)

    def _listed_action(self) -> syntax.ActionRef:
        annotations = self.annotations()
        node = self._action_ref(annotations)
        self.expect(";")
        return node

    def _action_ref(self, annotations: _Annotations) -> syntax.ActionRef:
        start = self.token.span
        absolute = self.take(".")
        name = self.name("the name of an action")
        named = syntax.NameExpression(self.until(start), name.text, absolute)
        arguments = self.arguments() if self.kind == "(" else None
        return syntax.ActionRef(self.until(start), annotations, named, arguments)

    def _entry(self) -> syntax.Entry:
        start = self.token.span
        constant = self.take("const")
        priority = None
        if self.kind == "priority" and self.peek() == "=":
            self.advance()
            self.advance()
            if self.kind not in ("number", "("):
                raise self.unexpected("an integer", "a computed priority stands in brackets: priority = (x)")
            priority = self._primary()
            self.expect(":", "the priority")
        keys = self.set()
        self.expect(":", "the keys of an entry")
        action = self._action_ref(())
        annotations = self.annotations()
        self.expect(";")
        return syntax.Entry(self.until(start), constant, priority, keys, action, annotations)
