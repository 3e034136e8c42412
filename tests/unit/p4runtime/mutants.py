# SPDX-License-Identifier: Apache-2.0
"""Seeded mutations of protobuf messages: of their fields, and of their bytes."""

from __future__ import annotations

import random
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import DecodeError, Message

M = TypeVar("M", bound=Message)
_INTEGERS = (0, 1, 2, 3, 7, 255, 256, 511, 512, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1)
_WIDTHS = {
    Field.TYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    Field.TYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    Field.TYPE_UINT32: (0, (1 << 32) - 1),
    Field.TYPE_UINT64: (0, (1 << 64) - 1),
}


class Mutator:
    """Everything it does follows from the seed."""

    def __init__(self, seed: int, ids: list[int]) -> None:
        """`ids`: P4Info ids, so that wrong ids are often those of other objects."""
        self.rng = random.Random(seed)
        self._ids = ids

    def mutate(self, message: M) -> M:
        """A changed copy."""
        mutant = type(message)()
        mutant.CopyFrom(message)
        for _ in range(self.rng.choice((1, 1, 1, 2, 3, 8))):
            if self.rng.random() < 0.2:
                mutant = self._flip(mutant)
            else:
                self._change(mutant)
        return mutant

    def _flip(self, message: M) -> M:
        data = bytearray(message.SerializeToString())
        for _ in range(self.rng.choice((1, 1, 2, 5))):
            if data:
                at = self.rng.randrange(len(data))
                data[at] = self.rng.choice((data[at] ^ 1 << self.rng.randrange(8), 0, 255, self.rng.randrange(256)))
        try:
            return type(message).FromString(bytes(data))
        except DecodeError:
            return message

    def _change(self, message: Any) -> None:
        """One field of the message, or of a message in it."""
        present = message.ListFields()
        if present and self.rng.random() < 0.8:
            field, value = self.rng.choice(present)
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                message.ClearField(field.name)
            elif field.is_repeated:
                self._change_list(message, field, value)
            elif field.message_type is not None and self.rng.random() < 0.85:
                self._change(value)
            else:
                self._set(message, field)
        elif message.DESCRIPTOR.fields:
            field = self.rng.choice(message.DESCRIPTOR.fields)
            if not field.is_repeated:
                self._set(message, field)
            elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
                getattr(message, field.name).add()

    def _change_list(self, message: Any, field: Any, values: Any) -> None:
        at = self.rng.randrange(len(values))
        match self.rng.randrange(6 if field.message_type is not None else 4):
            case 0:
                del values[at]
            case 1:
                values.append(values[at])
            case 2:
                kept = list(values)
                self.rng.shuffle(kept)
                del values[:]
                values.extend(kept)
            case 3:
                del values[at + 1 :]
            case _:
                self._change(values[at])

    def _set(self, message: Any, field: Any) -> None:
        if self.rng.random() < 0.2:
            message.ClearField(field.name)
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
        elif field.type == Field.TYPE_ENUM:
            setattr(message, field.name, self.rng.choice((0, 1, 2, 3, 4, 5, 6, 99, -1)))
        elif field.type in _WIDTHS:
            low, high = _WIDTHS[field.type]
            value = self.rng.choice((*_INTEGERS, *self._ids, -1, low, high, self.rng.randrange(low, high)))
            setattr(message, field.name, min(max(value, low), high))
        elif field.type == Field.TYPE_BOOL:
            setattr(message, field.name, self.rng.random() < 0.5)
        elif field.type == Field.TYPE_STRING:
            setattr(message, field.name, self.rng.choice(("", "x", "MyIngress.acl", "\N{SNOWMAN}" * 1000)))
        elif field.type == Field.TYPE_BYTES:
            size = self.rng.choice((0, 1, 2, 6, 16, 17, 300))
            setattr(message, field.name, self.rng.choice((bytes(size), b"\xff" * size, self.rng.randbytes(size))))
