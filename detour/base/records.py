# SPDX-License-Identifier: Apache-2.0
"""Frozen dataclasses and structs as JSON and back: what crosses a process, a socket or a file is typed on both sides.

A field's name is its key; a field that is `UNSET` has none. Keys that no field has are ignored, so that an older reader
understands a newer writer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from detour.base.errors import DetourError

T = TypeVar("T")


def as_json(record: Any) -> Any:
    """The record in dicts, lists, text, numbers, booleans and None."""
    return msgspec.to_builtins(record, enc_hook=_number)


def _number(value: Any) -> Any:
    """Python's of a number of NumPy."""
    if not hasattr(value, "item"):
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return value.item()


def from_json(kind: type[T], value: Any) -> T:
    """The record of a kind (a dataclass, or a container of them) that `as_json` made `value` of. Raises `DetourError`:
    it is none, with the place that is wrong."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise DetourError(f"this is not a valid {getattr(kind, '__name__', kind)}: {error}") from None


def decoder(*kinds: type[T]) -> Callable[[Any], T]:
    """A function that makes records of JSON. Where they are of several kinds, the field `kind` of each is a literal,
    and the value's says which kind it is. Raises `DetourError`: (the function) it is none of them."""
    if len(kinds) == 1:
        return lambda value: from_json(kinds[0], value)
    by_name = {name: kind for kind in kinds for name in get_args(get_type_hints(kind)["kind"])}

    def decode(value: Any) -> T:
        name = value.get("kind") if isinstance(value, dict) else None
        if name not in by_name:
            raise DetourError(f"this is not a {' or '.join(map(str, by_name))}: its kind is {name!r}")
        return from_json(by_name[name], value)

    return decode


def given(value: T | UnsetType, otherwise: T) -> T:
    """The value of a field, or another one if it is unset."""
    return otherwise if value is UNSET else value


def extended(kind: type[T], record: Any, **more: Any) -> T:
    """The record of a kind that has the fields of another one, whose values it takes over, and more."""
    names = record.__struct_fields__ if isinstance(record, msgspec.Struct) else [each.name for each in fields(record)]
    return kind(**{name: getattr(record, name) for name in names}, **more)
