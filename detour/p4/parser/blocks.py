# SPDX-License-Identifier: Apache-2.0
"""Parser of parsers, controls and what stands in them: states, tables, actions (specification, sections 13 and 14)."""

from __future__ import annotations

from collections.abc import Callable

from detour.p4 import syntax
from detour.p4.parser.cursor import NAMES, ParseError
from detour.p4.parser.statements import StatementParser

_Annotations = tuple[syntax.Annotation, ...]


class BlockParser(StatementParser):
    """Parser of the bodies of parsers and controls."""

    def parameters(self) -> tuple[syntax.Parameter, ...]:
        """`(in T a, out U b)`. The names are known from here on."""
        parameters = self.between("(", lambda: self.separated(self._parameter, ")"), ")")
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

    # ---------------------------------------------------------------- parsers and controls

    def parser_or_control(self, annotations: _Annotations) -> syntax.Declaration:
        """A parser or control, or the type of one or of a package."""
        start, kind = self.token.span, self.advance().kind
        name = self.type_name(kind)
        with self.scope():
            types, parameters = self.type_parameters(), self.parameters()
            if kind == "package" or self.kind == ";":
                self.expect(";")
                return syntax.BlockType(self.until(start), annotations, name, types, kind, parameters)
            constructor = self.parameters() if self.kind == "(" else ()
            self.expect("{")
            read = self._parser_element if kind == "parser" else self._control_element
            with self.statements_of(parser=kind == "parser"):
                elements = self.repeated(read)
            body = next((one for one in elements if isinstance(one, syntax.Block)), None)
            if kind == "control" and body is None:
                if self.kind == "}":
                    self.unexpected("`apply {...}` before the end of the control")
                body = syntax.Block(self.token.span, ())
            self.expect("}")
        states = tuple(one for one in elements if isinstance(one, syntax.State))
        others = tuple(one for one in elements if not isinstance(one, syntax.State | syntax.Block))
        head = self.until(start), annotations, name, types, parameters, constructor, others
        return syntax.Control(*head, body) if body is not None else syntax.Parser(*head, states)

    def _parser_element(self) -> syntax.Declaration:
        annotations = self.annotations()
        if self.kind == "state":
            return self._state(annotations)
        if self.kind == "value_set":
            return self._value_set(annotations)
        return self._local(annotations, "a state, variable, constant, instance or value_set")

    def _control_element(self) -> syntax.Declaration | syntax.Block:
        annotations = self.annotations()
        if self.kind == "apply" and self.peek() in ("{", "@"):
            self.advance()
            body = self.block(self.annotations())
            if self.kind != "}":
                raise self.unexpected("`}` after the body of apply", "declarations stand before apply {...}")
            return body
        if self.kind == "action":
            return self.action(annotations)
        if self.kind == "table":
            return self._table(annotations)
        return self._local(annotations, "an action, table, variable, constant, instance or `apply {...}`")

    def _local(self, annotations: _Annotations, expected: str) -> syntax.Declaration:
        if self.kind == "const":
            return self.constant(annotations)
        start = self.token
        if not self.starts_type() and self.kind not in NAMES:
            raise self.unexpected(expected)
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
        size = self.between("(", self.expression, ")")
        name = self.name()
        self.expect(";")
        self.declare(name.text)
        return syntax.ValueSet(self.until(start), annotations, name, element, size)

    def _state(self, annotations: _Annotations) -> syntax.State:
        start = self.advance().span
        name = self.name("the name of a state")
        self.expect("{")
        with self.scope():
            statements = self.repeated(self.statement, ("transition",))
            transition = self._transition() if self.take("transition") else None
        self.expect("}", "the transition" if transition else "")
        return syntax.State(self.until(start), annotations, name, statements, transition)

    def _transition(self) -> syntax.Name | syntax.Select:
        if self.kind != "select":
            name = self.name("a state or select")
            self.expect(";", "the name of the state")
            return name
        start = self.advance().span
        expressions = self.between("(", lambda: self.separated(self.expression, ")"), ")", "select")
        cases = self.braced(self._select_case)
        return syntax.Select(self.until(start), expressions, cases)

    def _select_case(self) -> syntax.SelectCase:
        start = self.token.span
        value = self.set()
        self.expect(":")
        state = self.name("the name of a state")
        self.expect(";")
        return syntax.SelectCase(self.until(start), value, state)

    # ---------------------------------------------------------------- tables

    def _table(self, annotations: _Annotations) -> syntax.Table:
        start = self.advance().span
        name = self.name("the name of a table")
        properties = self.braced(self._property)
        self.declare(name.text)
        return syntax.Table(self.until(start), annotations, name, properties)

    def _property(self) -> syntax.Property | syntax.ListProperty:
        start = self.token.span
        annotations = self.annotations()
        constant = self.take("const")
        # Only entries may be constant or annotated.
        element = _LIST_PROPERTIES.get(self.kind) if self.kind == "entries" or not (annotations or constant) else None
        if self.kind not in NAMES or (element is None and self.kind in _LIST_PROPERTIES):
            raise self.unexpected("a property of the table", "as in key, actions, default_action, size, entries")
        name = self.name()
        if element is not None:
            self.expect("=", name.text)
            elements = self.braced(lambda: element(self))
            return syntax.ListProperty(self.until(start), annotations, constant, name, elements)
        self.expect("=", "the name of a property")
        value = self.expression()
        self.expect(";")
        return syntax.Property(self.until(start), annotations, constant, name, value)

    def _key_element(self) -> syntax.KeyElement:
        start = self.token.span
        expression = self.expression()
        self.expect(":", "the expression of a key")
        kind = self.name("a match kind")
        annotations = self.annotations()
        self.expect(";")
        return syntax.KeyElement(self.until(start), expression, kind, annotations)

    def _listed_action(self) -> syntax.ActionRef:
        node = self._action_ref(self.annotations())
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


_LIST_PROPERTIES: dict[str, Callable[[BlockParser], object]] = {
    "key": BlockParser._key_element,
    "actions": BlockParser._listed_action,
    "entries": BlockParser._entry,
}
