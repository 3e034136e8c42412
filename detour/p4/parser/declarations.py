# SPDX-License-Identifier: Apache-2.0
"""Parser of declarations at the top level (specification, sections 7 and 10 to 11)."""

from __future__ import annotations

from collections.abc import Callable

from detour.p4 import syntax
from detour.p4.parser.blocks import BlockParser
from detour.p4.parser.cursor import NAMES, ParseError

_Annotations = tuple[syntax.Annotation, ...]


class Parser(BlockParser):
    """Parser of a program."""

    def program(self) -> syntax.Program:
        """All declarations. Errors are in `messages`."""
        start = self.token.span
        declarations: list[syntax.Declaration] = []
        while self.kind != "end":
            if self.take(";"):
                continue
            at = self.at
            try:
                declarations.append(self.declaration())
            except ParseError:
                self.recover(at, top=True)
        return syntax.Program(self.token.span if not declarations else start, tuple(declarations))

    def declaration(self) -> syntax.Declaration:
        """One declaration of the top level."""
        annotations = self.annotations()
        reader = _DECLARATIONS.get(self.kind)
        # `type` may be a name here, `error` a type.
        if reader is not None and (self.kind not in ("error", "match_kind") or self.peek() == "{"):
            return reader(self, annotations)
        return self._function_or_instance(annotations)

    def _function_or_instance(self, annotations: _Annotations) -> syntax.Declaration:
        start = self.token.span
        if not self.starts_type() and self.kind not in NAMES:
            raise self.unexpected("a declaration", "as in const, header, struct, enum, parser, control, action, table")
        node = self.type()
        if self.kind == "(":
            return self._instance(annotations, start, node)
        name = self.name()
        if self.kind not in ("<", "("):
            raise self.unexpected("`(`", "a variable may not stand at the top level: use const, or put it in a control")
        with self.scope():
            types, parameters, body = self.type_parameters(), self.parameters(), self.block()
        self.declare(name.text)
        return syntax.Function(self.until(start), annotations, name, types, parameters, node, body)

    def abstract_method(self) -> syntax.Declaration:
        return self._function_or_instance(self.annotations())

    # ---------------------------------------------------------------- externs

    def _extern(self, annotations: _Annotations) -> syntax.Declaration:
        start = self.advance().span
        # `extern Name {` or `extern Name<T> {` is a type, all else a function.
        is_block = self.kind in NAMES and (self.peek() == "{" or (self.peek() == "<" and self._brace_after_types()))
        if not is_block:
            node = self.type()
            name = self.name("the name of a function")
            types, parameters = self._signature()
            self.declare(name.text)
            return syntax.Function(self.until(start), annotations, name, types, parameters, node)
        name = self.type_name("")
        with self.scope():
            types = self.type_parameters()
            methods = self.braced(lambda: self._method(name.text))
        return syntax.Extern(self.until(start), annotations, name, types, methods)

    def _brace_after_types(self) -> bool:
        distance = 2
        while self.peek(distance) in NAMES or self.peek(distance) == ",":
            distance += 1
        return self.peek(distance) == ">" and self.peek(distance + 1) == "{"

    def _method(self, extern: str) -> syntax.Function:
        start = self.token.span
        annotations = self.annotations()
        abstract = self.take("abstract")
        constructs = self.kind in NAMES and self.peek() == "(" and self.token.text == extern
        node = None if constructs else self.type()
        name = self.name("the name of a method")
        types, parameters = self._signature()
        return syntax.Function(self.until(start), annotations, name, types, parameters, node, None, abstract)

    def _signature(self) -> tuple[tuple[syntax.Name, ...], tuple[syntax.Parameter, ...]]:
        """Type parameters and parameters of what has no body."""
        with self.scope():
            types, parameters = self.type_parameters(), self.parameters()
        self.expect(";")
        return types, parameters

    # ---------------------------------------------------------------- types

    def record(self, annotations: _Annotations) -> syntax.RecordType:
        """A struct, header or header union."""
        token = self.advance()
        name = self.type_name(token.text)
        with self.scope():
            types = self.type_parameters()
            fields = self.braced(self._field)
        return syntax.RecordType(self.until(token.span), annotations, name, types, token.kind, fields)

    def _field(self) -> syntax.Variable:
        start = self.token.span
        annotations = self.annotations()
        node = self.type()
        name = self.name("the name of a field")
        node = self.sized(node)
        self.expect(";")
        return syntax.Variable(self.until(start), annotations, name, node)

    def enum(self, annotations: _Annotations) -> syntax.Enum:
        """An enum, with or without values."""
        start = self.advance().span
        base = None if self.kind in NAMES and self.peek() == "{" else self.type()
        name = self.type_name("enum")
        self.expect("{")
        members = self.separated(lambda: self._enum_member(valued=base is not None), "}", trailing=True)
        if not members:
            raise self.unexpected("the name of a member")
        self.expect("}")
        return syntax.Enum(self.until(start), annotations, name, base, members)

    def _enum_member(self, *, valued: bool) -> syntax.EnumMember:
        name = self.name("the name of a member")
        if valued and self.kind != "=":
            raise self.unexpected("`=`", "each member of an enum with a type needs a value")
        if not valued and self.kind == "=":
            raise self.unexpected("`,` or `}`", "an enum with values has a type: enum bit<8> NAME {...}")
        value = self.expression() if self.take("=") else None
        return syntax.EnumMember(self.until(name.span), name, value)

    def _typedef(self, annotations: _Annotations) -> syntax.Typedef:
        token = self.advance()
        node: syntax.TypeNode | syntax.RecordType | syntax.Enum
        if token.kind == "typedef" and self.kind in ("struct", "header", "header_union", "@"):
            node = self.record(self.annotations())
        elif token.kind == "typedef" and self.kind == "enum":
            node = self.enum(())
        else:
            node = self.type()
        name = self.name("the name of the type")
        self.expect(";")
        self.declare(name.text, True)
        return syntax.Typedef(self.until(token.span), annotations, name, token.kind, node)

    def _names(self, annotations: _Annotations) -> syntax.Declaration:
        """`error {...}` or `match_kind {...}`."""
        token = self.advance()
        members = self.between("{", lambda: self.separated(self.name, "}", trailing=True), "}")
        for index, member in enumerate(members):
            if any(member.text == other.text for other in members[:index]):
                self.messages.error(member.span, f"{member.text} stands here twice")
        return syntax.Names(self.until(token.span), annotations, syntax.Name(token.span, token.text), members)


_DECLARATIONS: dict[str, Callable[[Parser, _Annotations], syntax.Declaration]] = {
    "action": Parser.action,
    "const": Parser.constant,
    "enum": Parser.enum,
    "extern": Parser._extern,
    **dict.fromkeys(("control", "package", "parser"), Parser.parser_or_control),
    **dict.fromkeys(("error", "match_kind"), Parser._names),
    **dict.fromkeys(("header", "header_union", "struct"), Parser.record),
    **dict.fromkeys(("type", "typedef"), Parser._typedef),
}
