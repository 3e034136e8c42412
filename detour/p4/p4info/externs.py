# SPDX-License-Identifier: Apache-2.0
"""Instances of externs in P4Info: counters, meters, registers, action profiles, digests of the three architectures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from finsy.proto import p4i

from detour.p4 import core, types
from detour.p4.elaborate import Block
from detour.p4.p4info.annotations import OF_SELECTORS, SAID_ELSEWHERE
from detour.p4.p4info.typeinfo import TypeInfo


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class Builder(Protocol):
    """What externs need of P4Info under construction (`p4info.build`)."""

    arch: str
    info: p4i.P4Info
    types: TypeInfo

    @property
    def direct(self) -> Mapping[Block, _Named]: ...

    @property
    def profiles(self) -> Mapping[Block, Sequence[_Named]]: ...

    def id_of(self, field: str, name: str) -> int: ...

    def preamble(
        self, message: Any, field: str, name: str, annotations: tuple[core.Annotation, ...], **keywords: Any
    ) -> None: ...


OF_VALUE_SETS = SAID_ELSEWHERE | {"match"}

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
_SELECTORS = frozenset({"action_selector", "ActionSelector"})


def attached(table: core.Table, block: Block) -> Iterator[Block]:
    """Action profile, direct counter and direct meter of a table."""
    for name in PROPERTIES:
        value = block.value(table.properties[name]) if name in table.properties else None
        if isinstance(value, Block) and value.declaration.name in FIELDS:
            yield value


def notifies_idle(table: core.Table, block: Block) -> bool:
    """Whether controllers hear of entries that no packet has hit for a while."""
    for name in ("support_timeout", "psa_idle_timeout"):
        value = block.value(table.properties[name]) if name in table.properties else None
        if isinstance(value, core.Literal):
            return bool(value.value)
        if isinstance(value, core.EnumMember):
            return value.name == "NOTIFY_CONTROL"
    return False


def _notes(block: Block) -> tuple[core.Annotation, ...]:
    """Annotations of an instance; an unnamed one has none."""
    return block.node.annotations if isinstance(block.node, core.Instance) else ()


def _values(block: Block) -> list[core.Expression]:
    return [one for one in block.arguments.values() if isinstance(one, core.Expression)]


def _size(block: Block, at: int = 0) -> int:
    """The size that a constructor's argument gives."""
    values = _values(block)
    return (block.number(values[at]) or 0) if at < len(values) else 0


def _unit(block: Block) -> str:
    """Name of the unit that a counter or meter counts in: its last enum argument, in capitals."""
    names = [one.name for one in _values(block) if isinstance(one, core.EnumMember)]
    return {"packets_and_bytes": "BOTH", "PACKETS_AND_BYTES": "BOTH"}.get(names[-1], names[-1].upper()) if names else ""


def _index(builder: Builder, block: Block, message: p4i.Counter | p4i.Meter | p4i.Register, at: int) -> None:
    """Fills the name of the index's type, which only PSA and PNA have."""
    if builder.arch == "v1model" or not isinstance(block.type, types.Extern) or at >= len(block.type.arguments):
        return
    if name := builder.types.name(block.type.arguments[at]):
        message.index_type_name.name = name


def _counter(builder: Builder, block: Block) -> None:
    message = builder.info.counters.add(size=_size(block))
    message.spec.unit = p4i.CounterSpec.Unit.Value(_unit(block))
    builder.preamble(message, "counters", block.name, _notes(block))
    _index(builder, block, message, 1)


def _direct_counter(builder: Builder, block: Block) -> None:
    message = builder.info.direct_counters.add(direct_table_id=builder.id_of("tables", builder.direct[block].name))
    message.spec.unit = p4i.CounterSpec.Unit.Value(_unit(block))
    builder.preamble(message, "direct_counters", block.name, _notes(block))


def _meter(builder: Builder, block: Block) -> None:
    message = builder.info.meters.add(size=_size(block))
    message.spec.unit = p4i.MeterSpec.Unit.Value(_unit(block))
    builder.preamble(message, "meters", block.name, _notes(block))
    _index(builder, block, message, 0)


def _direct_meter(builder: Builder, block: Block) -> None:
    message = builder.info.direct_meters.add(direct_table_id=builder.id_of("tables", builder.direct[block].name))
    message.spec.unit = p4i.MeterSpec.Unit.Value(_unit(block))
    builder.preamble(message, "direct_meters", block.name, _notes(block))


def _register(builder: Builder, block: Block) -> None:
    assert isinstance(block.type, types.Extern)
    message = builder.info.registers.add(size=_size(block), type_spec=builder.types.spec(block.type.arguments[0]))
    builder.preamble(message, "registers", block.name, _notes(block))
    _index(builder, block, message, 1)


def _action_profile(builder: Builder, block: Block) -> None:
    is_selector = block.declaration.name in _SELECTORS
    # A selector's first argument is the hash function.
    message = builder.info.action_profiles.add(with_selector=is_selector, size=_size(block, int(is_selector)))
    notes = _notes(block)
    builder.preamble(message, "action_profiles", block.name, notes, without=OF_SELECTORS)
    message.table_ids.extend(builder.id_of("tables", one.name) for one in builder.profiles.get(block, ()))
    if not is_selector:
        return
    values = {one.name: one.values[0] for one in notes if one.values}
    message.max_group_size = values.get("max_group_size", 0)  # type: ignore[assignment]
    if values.get("selector_size_semantics") == "sum_of_members":
        message.sum_of_members.SetInParent()
        if "max_member_weight" in values:
            message.sum_of_members.max_member_weight = values["max_member_weight"]  # type: ignore[assignment]
    elif values.get("selector_size_semantics") == "sum_of_weights":
        message.sum_of_weights.SetInParent()


def _digest(builder: Builder, block: Block) -> None:
    assert isinstance(block.type, types.Extern)
    message = builder.info.digests.add(type_spec=builder.types.spec(block.type.arguments[0]))
    builder.preamble(message, "digests", block.name, _notes(block))


WRITE: dict[str, Callable[[Builder, Block], None]] = {
    "counters": _counter, "direct_counters": _direct_counter, "meters": _meter, "direct_meters": _direct_meter,
    "registers": _register, "action_profiles": _action_profile, "digests": _digest,
}  # fmt: skip
