# SPDX-License-Identifier: Apache-2.0
"""The objects of P4Info: which there are, in which order, with their ids and aliases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from finsy.proto import p4i

from detour.p4 import core, types
from detour.p4.elaborate import Block, Elaboration
from detour.p4.messages import Messages
from detour.p4.p4info.annotations import annotate
from detour.p4.p4info.live import Live
from detour.p4.p4info.names import Objects, aliases
from detour.p4.p4info.typeinfo import TypeInfo

_ARCHITECTURES = {"V1Switch": "v1model", "PSA_Switch": "psa", "PNA_NIC": "pna"}
"""What P4Info calls the architectures, by a package that they declare."""
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


FIELDS = {
    **dict.fromkeys(("counter", "Counter"), "counters"),
    **dict.fromkeys(("direct_counter", "DirectCounter"), "direct_counters"),
    **dict.fromkeys(("meter", "Meter"), "meters"),
    **dict.fromkeys(("direct_meter", "DirectMeter"), "direct_meters"),
    **dict.fromkeys(("register", "Register"), "registers"),
    **dict.fromkeys(("action_profile", "action_selector", "ActionProfile", "ActionSelector"), "action_profiles"),
    "Digest": "digests",
}
"""Fields of P4Info that list instances of externs, by the names of v1model, PSA and PNA."""
PROPERTIES = (
    "implementation", "psa_implementation", "pna_implementation",
    "counters", "psa_direct_counter", "pna_direct_counter",
    "meters", "psa_direct_meter", "pna_direct_meter",
)  # fmt: skip
"""Properties of tables that name instances, in the order in which P4Info lists them."""


class TableIn(NamedTuple):
    """A table in an instance of a control."""

    name: str
    table: core.Table
    block: Block


def attached(table: core.Table, block: Block) -> Iterator[Block]:
    """Action profile, direct counter and direct meter of a table."""
    for name in PROPERTIES:
        value = block.value(table.properties[name]) if name in table.properties else None
        if isinstance(value, Block) and value.declaration.name in FIELDS:
            yield value


def actions_of(table: core.Table) -> Iterator[core.Action]:
    return (choice.action for choice in table.actions)


class Collection:
    """Collects objects and gives them ids."""

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
            field = FIELDS.get(block.declaration.name)
            file = block.declaration.span.file
            if field and (file.standard or file is architecture) and not field.startswith("direct_"):
                self._collect_extern(field, block)
        for one in self.tables:
            self._collect_properties(one)
        for call in self.live.functions:
            if call.function.name == "digest" and call.type_arguments:
                self._collect_digest(call.type_arguments[0])
        for declaration in self.program.declarations:
            name = core.annotated(declaration.annotations, "controller_header")
            if name is not None and isinstance(declaration, core.TypeDeclaration):
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
            for action in actions_of(part)
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
            yield from (one for one in self.live.called[block] if isinstance(one, core.Action))
        elif part in self.live.called[block]:
            yield from actions_of(part)

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
        for value in attached(one.table, one.block):
            field = FIELDS[value.declaration.name]
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

    def preamble(
        self, message: Any, field: str, name: str, annotations: tuple[core.Annotation, ...], **keywords: Any
    ) -> None:
        """Fill the preamble of an object: id, name, alias, annotations, documentation."""
        objects = self.objects[field]
        preamble = message.preamble
        preamble.id, preamble.name, preamble.alias = objects.ids[name], name, self.aliases[name]
        annotate(preamble, annotations, **keywords)

    def action_id(self, block: Block, action: core.Action) -> int:
        """Id of an action, also of a hidden one, which P4Info does not list."""
        name = block.name_of(action)
        objects = self.objects["actions"]
        if name not in objects.ids:
            objects.add(name, action, self.messages, self._owner(block, action))
            objects.number(self.messages)
        return objects.ids[name]
