# SPDX-License-Identifier: Apache-2.0
"""The P4Info message of a program (P4Runtime specification, section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from finsy.proto import p4i, p4r
from google.protobuf import text_format

from detour.p4 import core, types
from detour.p4.elaborate import Block, Elaboration, field_name, given_name
from detour.p4.messages import Messages
from detour.p4.p4info import externs
from detour.p4.p4info.annotations import annotate, of_package
from detour.p4.p4info.collect import FIELDS, Collection, TableIn, attached
from detour.p4.p4info.names import numbered
from detour.p4.p4info.typeinfo import as_bytes, bitwidth

DEFAULT_SIZE = 1024
"""Entries of a table that does not say how many it can hold."""

_MATCH_TYPES = {
    "exact": p4i.MatchField.EXACT,
    "lpm": p4i.MatchField.LPM,
    "ternary": p4i.MatchField.TERNARY,
    "range": p4i.MatchField.RANGE,
    "optional": p4i.MatchField.OPTIONAL,
}
_NOT_MATCHED = frozenset({"selector"})
"""Match kinds of keys that choose among an action selector's members; entries have no values for them."""


class Builder(Collection):
    """Writes the objects that it has collected."""

    def build(self) -> p4i.P4Info:
        self.info.pkg_info.arch = self.arch
        of_package(self.info.pkg_info, self.program.main.annotations if self.program.main else ())
        for one in self.tables:
            self._table(one)
        for name, (action, in_tables) in self.actions.items():
            self._action(name, action, in_tables)
        for field, block in self.externs:
            externs.write(self, field, block)
        for name, kind in self.digests.items():
            message = self.info.digests.add(type_spec=self.types.spec(kind))
            self.preamble(message, "digests", name, ())
        for name, value_set, block in self.value_sets:
            self._value_set(name, value_set, block)
        for declaration in self.objects["controller_packet_metadata"].names.values():
            assert isinstance(declaration, core.TypeDeclaration)
            self._controller_header(declaration)
        # As in p4c, the field is present where types were looked up, not only where some are listed.
        functions = self.live.functions if self.arch == "v1model" else ()
        if self.types.used or self.tables or self.live.externs or functions:
            self.info.type_info.SetInParent()
        return self.info

    def described(self, message: Any, kind: types.Type, annotations: tuple[core.Annotation, ...]) -> None:
        """Fill in the type and the annotations of a match field, parameter or metadata."""
        self.typed(message, kind)
        annotate(message, annotations)

    def _table(self, one: TableIn) -> None:
        table = one.table
        message = self.info.tables.add(size=table.size or DEFAULT_SIZE)
        self.preamble(message, "tables", one.name, table.annotations)
        for identifier, key in numbered(table.keys):
            if key.match_kind not in _NOT_MATCHED:
                self._match_field(message, identifier, key, one.block)
        self._action_refs(message, one)
        for value in attached(one.table, one.block):
            if value in self.profiles:
                message.implementation_id = self.id_of("action_profiles", value.name)
            else:
                field = FIELDS[value.declaration.name]
                message.direct_resource_ids.append(self.id_of(field, value.name))
        if externs.notifies_idle(one.table, one.block):
            message.idle_timeout_behavior = p4i.Table.NOTIFY_CONTROL
        message.is_const_table = table.has_entries and table.entries_are_constant
        message.has_initial_entries = bool(table.entries)

    def _match_field(self, table: p4i.Table, identifier: int, key: core.Key, block: Block) -> None:
        field = table.match_fields.add(id=identifier, name=field_name(key, block))
        self.described(field, key.expression.type, key.annotations)
        if key.match_kind in _MATCH_TYPES:
            field.match_type = _MATCH_TYPES[key.match_kind]
        else:
            field.other_match_type = key.match_kind

    def typed(self, message: Any, kind: types.Type) -> None:
        """Fill `bitwidth` and `type_name` of a match field, parameter or metadata."""
        message.bitwidth = bitwidth(kind)
        if name := self.types.name(kind):
            message.type_name.name = name

    def _action_refs(self, message: p4i.Table, one: TableIn) -> None:
        for choice in one.table.actions:
            ref = message.action_refs.add(id=self.action_id(one.block, choice.action))
            annotate(ref, choice.annotations)
            if core.annotation(choice.annotations, "defaultonly"):
                ref.scope = p4i.ActionRef.DEFAULT_ONLY
            elif core.annotation(choice.annotations, "tableonly"):
                ref.scope = p4i.ActionRef.TABLE_ONLY
        use = one.table.default_action
        assert use is not None  # the checker adds one to a table without
        identifier = self.action_id(one.block, use.action)
        if one.table.default_is_constant:
            message.const_default_action_id = identifier
        message.initial_default_action.action_id = identifier
        for parameter, value in self.arguments(one.block, use):
            message.initial_default_action.arguments.add(param_id=parameter, value=value)

    def arguments(self, block: Block, use: core.ActionUse) -> Iterator[tuple[int, bytes]]:
        """Ids and values of the arguments that a control plane would give."""
        parameters = controlled(use.action)
        values = dict(zip(use.action.parameters, use.arguments, strict=False))
        for identifier, parameter in numbered(parameters):
            argument = values.get(parameter)
            number = block.number(argument) if argument is not None else None
            if number is not None:
                yield identifier, as_bytes(number, bitwidth(parameter.type) or types.width(parameter.type))

    def _action(self, name: str, action: core.Action, in_tables: bool) -> None:
        message = self.info.actions.add()
        self.preamble(message, "actions", name, action.annotations)
        # What only the program calls has its arguments there.
        parameters = controlled(action) if in_tables else ()
        for identifier, one in numbered(parameters):
            parameter = message.params.add(id=identifier, name=given_name(one).removeprefix("."))
            self.described(parameter, one.type, one.annotations)

    def _value_set(self, name: str, value_set: core.ValueSet, block: Block) -> None:
        size = block.number(value_set.size) if value_set.size is not None else None
        message = self.info.value_sets.add(size=size or 0)
        self.preamble(message, "value_sets", name, value_set.annotations, without=externs.OF_VALUE_SETS)
        if not isinstance(value_set.type, types.Struct):
            self._match(message, 1, "", value_set.type, value_set.annotations)
            return
        for identifier, one in numbered(value_set.type.fields):
            match = self._match(message, identifier, one.name, one.type, one.annotations)
            annotate(match, one.annotations, externs.OF_VALUE_SETS)

    def _match(
        self, message: p4i.ValueSet, identifier: int, name: str, kind: types.Type, notes: tuple[core.Annotation, ...]
    ) -> p4i.MatchField:
        match = message.match.add(id=identifier, name=name)
        if isinstance(kind, types.Bits):
            match.bitwidth = kind.width
        else:
            self.typed(match, kind)
        note = core.annotation(notes, "match")
        match.match_type = _MATCH_TYPES.get(note.text.strip() if note else "exact", p4i.MatchField.EXACT)
        return match

    def _controller_header(self, declaration: core.TypeDeclaration) -> None:
        """Add what `packet_in` or `packet_out` carry. The id is that of the header, the name the annotation's."""
        message = self.info.controller_packet_metadata.add()
        self.preamble(message, "controller_packet_metadata", declaration.name, declaration.annotations)
        name = core.annotated(declaration.annotations, "controller_header")
        message.preamble.name = message.preamble.alias = str(name)
        for identifier, one in numbered(tuple(flattened("", declaration.fields))):
            metadata = message.metadata.add(id=identifier, name=one.name)
            self.described(metadata, one.type, one.annotations)


def flattened(prefix: str, fields: tuple[types.FieldOf, ...]) -> Iterator[types.FieldOf]:
    """Fields with those of structs in them, by their paths."""
    for one in fields:
        if isinstance(one.type, types.Struct):
            yield from flattened(f"{prefix}{one.name}.", one.type.fields)
        else:
            yield types.FieldOf(prefix + one.name, one.type, one.annotations)


def controlled(action: core.Action) -> tuple[core.Variable, ...]:
    """Parameters that a control plane gives: those without a direction."""
    return tuple(one for one in action.parameters if not one.direction)


def build(program: core.Program, elaboration: Elaboration, messages: Messages) -> p4i.P4Info:
    """P4Info of a program. Names that clash, and objects that need a name, are errors in `messages`."""
    return Builder(program, elaboration, messages).build()


def as_text(message: p4i.P4Info | p4r.WriteRequest) -> str:
    """Text that names its protobuf message, as tools of P4Runtime read it."""
    descriptor = message.DESCRIPTOR
    head = f"# proto-file: {descriptor.file.name}\n# proto-message: {descriptor.full_name}\n\n"
    return head + text_format.MessageToString(message)
