# SPDX-License-Identifier: Apache-2.0
"""Parser of declarations at the top level (specification, sections 7 and 10 to 11)."""

from __future__ import annotations

from collections.abc import Callable

from detour.p4 import syntax
from detour.p4.parser.blocks import BlockParser
from detour.p4.parser.cursor import NAMES, ParseError
from detour.p4.source import Span

_Annotations = tuple[syntax.Annotation, ...]


class Parser(BlockParser):
    """Reads a program."""

    def program(self) -> syntax.Program:
        """All declarations. Errors are in `messages`."""
        start = self.token.span
        declarations: list[syntax.Declaration] = []
        while self.kind != "end":
            if self.kind == ";":
                self.advance()
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
        node = self._returned()
        if self.kind == "(":
            return self._instance(annotations, start, node)
        name = self.name()
        if self.kind not in ("<", "("):
            raise self.unexpected("`(`", "a variable may not stand at the top level: use const, or put it in a control")
        with self.scope():
            types = self.own_types()
            parameters = self.parameters()
            body = self.block()
        self.declare(name.text)
        return syntax.Function(self.until(start), annotations, name, types, parameters, node, body)

    def _returned(self) -> syntax.TypeNode:
        return self.type()

    def abstract_method(self) -> syntax.Declaration:
        return self._function_or_instance(self.annotations())

    # ---------------------------------------------------------------- externs and packages

    def _extern(self, annotations: _Annotations) -> syntax.Declaration:
        start = self.advance().span
        # `extern Name {` or `extern Name<T> {` is a type, all else a function.
        is_block = self.kind in NAMES and (self.peek() == "{" or (self.peek() == "<" and self._brace_after_types()))
        if not is_block:
            return self._extern_function(annotations, start)
        name = self.name()
        self.declare(name.text, True)
        with self.scope():
            types = self.own_types()
            self.expect("{")
            methods = self.repeated(lambda: self._method(name.text))
            self.expect("}")
        return syntax.Extern(self.until(start), annotations, name, types, methods)

    def _brace_after_types(self) -> bool:
        distance = 2
        while self.peek(distance) in NAMES or self.peek(distance) == ",":
            distance += 1
        return self.peek(distance) == ">" and self.peek(distance + 1) == "{"

    def _extern_function(self, annotations: _Annotations, start: Span) -> syntax.Function:
        node = self._returned()
        name = self.name("the name of a function")
        with self.scope():
            types = self.own_types()
            parameters = self.parameters()
        self.expect(";")
        self.declare(name.text)
        return syntax.Function(self.until(start), annotations, name, types, parameters, node, None)

    def _method(self, extern: str) -> syntax.Method:
        start = self.token.span
        annotations = self.annotations()
        abstract = self.take("abstract")
        node = None
        if not (self.kind in NAMES and self.peek() == "(" and self.token.text == extern):
            node = self._returned()
        name = self.name("the name of a method")
        with self.scope():
            types = self.own_types()
            parameters = self.parameters()
        self.expect(";")
        return syntax.Method(self.until(start), annotations, name, types, parameters, node, abstract)

    def _package(self, annotations: _Annotations) -> syntax.BlockType:
        start = self.advance().span
        name = self.name("the name of a package")
        self.declare(name.text, True)
        with self.scope():
            types = self.own_types()
            parameters = self.parameters()
        self.expect(";")
        return syntax.BlockType(self.until(start), annotations, name, "package", types, parameters)

    # ---------------------------------------------------------------- types

    def record(self, annotations: _Annotations) -> syntax.RecordType:
        """A struct, header or header union."""
        token = self.advance()
        name = self.name(f"the name of a {token.text}")
        self.declare(name.text, True)
        with self.scope():
            types = self.own_types()
            self.expect("{")
            fields = self.repeated(self._field)
            self.expect("}")
        return syntax.RecordType(self.until(token.span), annotations, name, token.kind, types, fields)

    def _field(self) -> syntax.Field:
        start = self.token.span
        annotations = self.annotations()
        node = self.type()
        name = self.name("the name of a field")
        node = self.sized(node)
        self.expect(";")
        return syntax.Field(self.until(start), annotations, name, node)

    def enum(self, annotations: _Annotations) -> syntax.Enum:
        """An enum, with or without values."""
        start = self.advance().span
        base = None if self.kind in NAMES and self.peek() == "{" else self.type()
        name = self.name("the name of an enum")
        self.declare(name.text, True)
        self.expect("{")
        members = self.separated(self._enum_member if base is None else self._valued_member, "}", trailing=True)
        if not members:
            raise self.unexpected("the name of a member")
        self.expect("}")
        return syntax.Enum(self.until(start), annotations, name, base, members)

    def _enum_member(self) -> syntax.EnumMember:
        name = self.name("the name of a member")
        if self.kind == "=":
            raise self.unexpected("`,` or `}`", "an enum with values has a type: enum bit<8> NAME {...}")
        return syntax.EnumMember(name.span, name, None)

    def _valued_member(self) -> syntax.EnumMember:
        name = self.name("the name of a member")
        if self.kind != "=":
            raise self.unexpected("`=`", "each member of an enum with a type needs a value")
        self.advance()
        value = self.expression()
        return syntax.EnumMember(name.span.to(value.span), name, value)

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

    def _members(self, annotations: _Annotations) -> syntax.Declaration:
        """`error {...}` or `match_kind {...}`."""
        token = self.advance()
        self.expect("{")
        members = self.separated(self.name, "}", trailing=True)
        self.expect("}")
        for index, member in enumerate(members):
            if any(member.text == other.text for other in members[:index]):
                self.messages.error(member.span, f"{member.text} stands here twice")
        node = syntax.Errors if token.kind == "error" else syntax.MatchKinds
        return node(self.until(token.span), annotations, syntax.Name(token.span, token.text), members)

    def _constant(self, annotations: _Annotations) -> syntax.Declaration:
        return self.constant(annotations)


_DECLARATIONS: dict[str, Callable[[Parser, _Annotations], syntax.Declaration]] = {
    "action": Parser.action,
    "const": Parser._constant,
    "control": Parser.control,
    "enum": Parser.enum,
    "error": Parser._members,
    "extern": Parser._extern,
    "header": Parser.record,
    "header_union": Parser.record,
    "match_kind": Parser._members,
    "package": Parser._package,
    "parser": Parser.parser,
    "struct": Parser.record,
    "type": Parser._typedef,
    "typedef": Parser._typedef,
}
