# SPDX-License-Identifier: Apache-2.0
"""Protobuf messages of other people's, described by tables: no generated code, and pools of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf import descriptor_pool
    from google.protobuf.descriptor import FileDescriptor

MessageFields = Mapping[str, Iterable[tuple[str, int, str]]]
"""by name of a message, its fields: name, number, type. A type is a scalar's, a message's or an enumeration's (of
another package by its full name, with a point before), with `*` behind it if the field is repeated"""
EXTENSIONS = 1000
"""the first number for fields of others, in messages that are extended"""


def new_pool(imported: FileDescriptor | None = None) -> descriptor_pool.DescriptorPool:
    """`imported`: a file whose messages, and those that it needs, can be named too."""
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.DescriptorPool()

    def take(file: FileDescriptor) -> None:
        for needed in file.dependencies:
            take(needed)
        pool.AddSerializedFile(file.serialized_pb)

    if imported is not None:
        take(imported)
    return pool


def add_messages(
    pool: descriptor_pool.DescriptorPool, package: str, messages: MessageFields, *,
    enums: Mapping[str, Iterable[str]] = MappingProxyType({}), imports: Iterable[str] = (),
    extends: MessageFields = MappingProxyType({}),
) -> None:  # fmt: skip
    """Add a file. `enums`: names of values, from 0 on; `imports`: files that types are from; `extends`: fields of this
    package's in messages of others, by their full names. All fields have presence (proto2), alternatives too."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name=f"detour/{package}.proto", package=package, dependency=imports)
    for name, values in enums.items():
        listed = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            listed.value.add(name=value, number=number)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        message.extension_range.add(start=EXTENSIONS, end=1 << 29)
        for field in fields:
            _field(message.field, field, package, messages, enums)
    for name, fields in extends.items():
        for field in fields:
            _field(file.extension, field, package, messages, enums).extendee = f".{name}"
    pool.Add(file)


def _field(
    into: Any, field: tuple[str, int, str], package: str, messages: MessageFields, enums: Mapping[str, Any]
) -> Any:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Kinds

    name, number, kind = field
    base = kind.rstrip("*")
    label = Kinds.LABEL_REPEATED if kind.endswith("*") else Kinds.LABEL_OPTIONAL
    added = into.add(name=name, number=number, label=label)
    if base in enums:
        added.type, added.type_name = Kinds.TYPE_ENUM, f".{package}.{base}"
    elif base in messages or base.startswith("."):
        added.type, added.type_name = Kinds.TYPE_MESSAGE, base if base.startswith(".") else f".{package}.{base}"
    else:
        added.type = getattr(Kinds, f"TYPE_{base.upper()}")
    return added


def message_class(pool: descriptor_pool.DescriptorPool, name: str) -> Any:
    """The class of a message by its full name."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
