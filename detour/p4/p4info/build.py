# SPDX-License-Identifier: Apache-2.0
"""The P4Info message of a program (P4Runtime specification, section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from finsy.proto import p4i, p4r
from google.protobuf import text_format

from detour.p4 import core, types
from detour.p4.elaborate import Block, Elaboration, field_name, given_name
from detour.p4.messages import Messages
from detour.p4.p4info import externs
from detour.p4.p4info.annotations import annotate, of_package
from detour.p4.p4info.live import Live, actions_in
from detour.p4.p4info.names import Objects, aliases, numbered
from detour.p4.p4info.typeinfo import TypeInfo, as_bytes, bitwidth

DEFAULT_SIZE = 1024
"""Entries of a table that does not say how many it can hold."""

_ARCHITECTURES = {"V1Switch": "v1model", "PSA_Switch": "psa", "PNA_NIC": "pna"}
"""What P4Info calls the architectures, by a package that they declare."""
_MATCH_TYPES = {
    "exact": p4i.MatchField.EXACT,
    "lpm": p4i.MatchField.LPM,
    "ternary": p4i.MatchField.TERNARY,
    "range": p4i.MatchField.RANGE,
    "optional": p4i.MatchField.OPTIONAL,
}
_NOT_MATCHED = frozenset({"selector"})
"""Match kinds of keys that choose among an action selector's members; entries have no values for them."""
_PREFIXES: dict[str, tuple[int, str]] = {
    "actions": (0x01, "action"),
    "tables": (0x02, "table"),
    "value_sets": (0x03, "value set"),
    "controller_packet_metadata": (0x04, "controller header"),
    "action_profiles": (0x11, "action profile"),
    "counters": (0x12, "counter"),
    "direct_counters": (0x13, "direct counter"),
    "meters": (0x14, "meter"),
    "direct_meters": (0x15, "direct meter"),
    "registers": (0x16, "register"),
    "digests": (0x17, "digest"),
}


class TableIn(NamedTuple):
    """A table in an instance of a control."""

    name: str
    table: core.Table
    block: Block


class Builder:
    """Collects objects, gives them ids, then writes them. `entries` uses what it has collected."""

    def __init__(self, program: core.Program, elaboration: Elaboration, messages: Messages) -> None:
        self.program = program
        packages = {one.name for one in program.declarations if isinstance(one, core.BlockType)}
        self.arch = next((arch for package, arch in _ARCHITECTURES.items() if package in packages), "v1model")
        self.messages = messages
        self.info = p4i.P4Info()
        self.types = TypeInfo(self.info.type_info, program.errors)
        self.live = Live(elaboration)
        self.objects = {field: Objects(prefix, what) for field, (prefix, what) in _PREFIXES.items()}
        self.tables: list[TableIn] = []
        self.actions: dict[str, tuple[core.Action, bool]] = {}
        """Actions by name, and whether tables have them: those of others have no parameters for controllers."""
        self.value_sets: list[tuple[str, core.ValueSet, Block]] = []
        self.externs: list[tuple[str, Block]] = []
        """Instances of externs that P4Info has, with the field that lists them."""
        self.direct: dict[Block, TableIn] = {}
        """Instances of direct counters and meters, with their tables."""
        self.profiles: dict[Block, list[TableIn]] = {}
        self.digests: dict[str, types.Type] = {}
        self._collect()

    def id_of(self, field: str, name: str) -> int:
        return self.objects[field].ids[name]

    # ------------------------------------------------------------ collection

    def _collect(self) -> None:
        for block in self.live.blocks:
            if isinstance(block.declaration, core.Parser):
                self._collect_value_sets(block)
        for block in self.live.roots:
            self._collect_control(block)
        architecture = self.live.elaboration.main.declaration.span.file
        for block in self.live.externs:
            field = externs.FIELDS.get(block.declaration.name)
            file = block.declaration.span.file
            if field and (file.standard or file is architecture) and not field.startswith("direct_"):
                self._collect_extern(field, block)
        for one in self.tables:
            self._collect_properties(one)
        for call in self.live.functions:
            if call.function.name == "digest" and call.type_arguments:
                self._collect_digest(call.type_arguments[0])
        for declaration in self.program.declarations:
            note = core.annotation(declaration.annotations, "controller_header")
            if note and note.values and isinstance(declaration, core.TypeDeclaration):
                self.objects["controller_packet_metadata"].add(declaration.name, declaration, self.messages)
        for objects in self.objects.values():
            objects.number(self.messages)
        self.aliases = aliases({name for objects in self.objects.values() for name in objects.names})

    def _collect_value_sets(self, block: Block) -> None:
        for one in block.declaration.locals if isinstance(block.declaration, core.Parser) else ():
            if isinstance(one, core.ValueSet) and one in self.live.value_sets:
                name = block.name_of(one)
                self.value_sets.append((name, one, block))
                self.objects["value_sets"].add(name, one, self.messages)

    def _collect_control(self, root: Block) -> None:
        """Actions and tables of a control and of those inside, as they stand once all are inlined: the actions of top
        level that tables have and then those that code calls, and the declarations in order.
        """
        parts = list(self._inlined(root))
        in_tables = {
            (block, action)
            for block, part in parts
            if isinstance(part, core.Table) and part in self.live.called[block]
            for action in self.actions_of(part)
        }
        for kind in (core.Table, core.BlockStatement):
            for block, part in parts:
                for action in self._uses(block, part) if isinstance(part, kind) else ():
                    if self._owner(block, action) is None:
                        self._collect_action(block, action, (block, action) in in_tables)
        for block, part in parts:
            if isinstance(part, core.Action) and (part in self.live.called[block] or (block, part) in in_tables):
                self._collect_action(block, part, (block, part) in in_tables)
            elif isinstance(part, core.Table) and part in self.live.called[block]:
                one = TableIn(block.name_of(part), part, block)
                if not core.annotation(part.annotations, "hidden") and self.objects["tables"].add(
                    one.name, part, self.messages, block
                ):
                    self.tables.append(one)

    def _inlined(self, block: Block) -> Iterator[tuple[Block, object]]:
        """Declarations and bodies of a control and of those inside that run, with the blocks that they belong to."""
        if not isinstance(block.declaration, core.Control) or block not in self.live.called:
            return
        for local in block.declaration.locals:
            if isinstance(local, core.Instance) and local in block.children:
                yield from self._inlined(block.children[local])
            else:
                yield block, local
        for node, child in block.children.items():
            if isinstance(node, core.Construct):
                yield from self._inlined(child)
        yield block, block.declaration.body

    def _uses(self, block: Block, part: core.Table | core.BlockStatement) -> Iterator[core.Action]:
        """Actions that a table has, if it is applied, or that code calls."""
        if isinstance(part, core.BlockStatement):
            yield from actions_in(part, block)
        elif part in self.live.called[block]:
            yield from self.actions_of(part)

    def actions_of(self, table: core.Table) -> Iterator[core.Action]:
        """Actions of a table, with NoAction if that is its default and not in the list."""
        for choice in table.actions:
            yield choice.action
        default = self.default_action(table)
        if default and not any(choice.action is default for choice in table.actions):
            yield default

    def default_action(self, table: core.Table) -> core.Action | None:
        if table.default_action:
            return table.default_action.action
        actions = (one for one in self.program.declarations if isinstance(one, core.Action) and one.name == "NoAction")
        return next(actions, None)

    def _collect_action(self, block: Block, action: core.Action, in_tables: bool) -> None:
        if core.annotation(action.annotations, "hidden"):
            return
        name = block.name_of(action)
        self.objects["actions"].add(name, action, self.messages, self._owner(block, action))
        _, before = self.actions.get(name, (action, False))
        self.actions[name] = (action, in_tables or before)

    @staticmethod
    def _owner(block: Block, action: core.Action) -> Block | None:
        """The instance that an action belongs to; those at top level belong to none."""
        declaration = block.declaration
        inside = declaration.locals if isinstance(declaration, core.Control) else ()
        return block if any(one is action for one in inside) else None

    def _collect_extern(self, field: str, block: Block) -> None:
        if block.name not in self.objects[field].names:
            self.externs.append((field, block))
        declaration = block.node if isinstance(block.node, core.Instance) else None
        self.objects[field].add(block.name, declaration, self.messages, block)

    def _collect_properties(self, one: TableIn) -> None:
        """Action profile, direct counter and direct meter of a table."""
        for value in externs.attached(one.table, one.block):
            field = externs.FIELDS[value.declaration.name]
            if field == "action_profiles":
                self.profiles.setdefault(value, []).append(one)
            else:
                self.direct[value] = one
            self._collect_extern(field, value)

    def _collect_digest(self, kind: types.Type) -> None:
        if isinstance(kind, (types.Struct, types.Header)):
            name = str(kind)
        else:
            name = f"digest_{sum(one.startswith('digest_') for one in self.digests)}"
        self.digests[name] = kind
        self.objects["digests"].add(name, None, self.messages)

    # ------------------------------------------------------------ messages

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

    def preamble(
        self, message: Any, field: str, name: str, annotations: tuple[core.Annotation, ...], **keywords: Any
    ) -> None:
        """Fills the preamble of an object: id, name, alias, annotations, documentation."""
        objects = self.objects[field]
        preamble = message.preamble
        preamble.id, preamble.name, preamble.alias = objects.ids[name], name, self.aliases[name]
        annotate(preamble, annotations, **keywords)

    def described(self, message: Any, kind: types.Type, annotations: tuple[core.Annotation, ...]) -> None:
        """Fills in the type and the annotations of a match field, parameter or metadata."""
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
        for value in externs.attached(one.table, one.block):
            if value in self.profiles:
                message.implementation_id = self.id_of("action_profiles", value.name)
            else:
                field = externs.FIELDS[value.declaration.name]
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
        """Fills `bitwidth` and `type_name` of a match field, parameter or metadata."""
        message.bitwidth = bitwidth(kind)
        if name := self.types.name(kind):
            message.type_name.name = name

    def _action_refs(self, message: p4i.Table, one: TableIn) -> None:
        choices = {choice.action: choice.annotations for choice in one.table.actions}
        for action in self.actions_of(one.table):
            ref = message.action_refs.add(id=self.action_id(one.block, action))
            if action not in choices:
                ref.annotations.append("@defaultonly")
                ref.scope = p4i.ActionRef.DEFAULT_ONLY
                continue
            annotate(ref, choices[action])
            if core.annotation(choices[action], "defaultonly"):
                ref.scope = p4i.ActionRef.DEFAULT_ONLY
            elif core.annotation(choices[action], "tableonly"):
                ref.scope = p4i.ActionRef.TABLE_ONLY
        default = self.default_action(one.table)
        if default is None:
            return
        identifier = self.action_id(one.block, default)
        if one.table.default_is_constant:
            message.const_default_action_id = identifier
        message.initial_default_action.action_id = identifier
        if use := one.table.default_action:
            for parameter, value in self.arguments(one.block, use):
                message.initial_default_action.arguments.add(param_id=parameter, value=value)

    def action_id(self, block: Block, action: core.Action) -> int:
        """Id of an action, also of a hidden one, which P4Info does not list."""
        name = block.name_of(action)
        objects = self.objects["actions"]
        if name not in objects.ids:
            objects.add(name, action, self.messages, self._owner(block, action))
            objects.number(self.messages)
        return objects.ids[name]

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
        """Adds what `packet_in` or `packet_out` carry. The id is that of the header, the name the annotation's."""
        message = self.info.controller_packet_metadata.add()
        self.preamble(message, "controller_packet_metadata", declaration.name, declaration.annotations)
        note = core.annotation(declaration.annotations, "controller_header")
        message.preamble.name = message.preamble.alias = str(note.values[0]) if note else declaration.name
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
