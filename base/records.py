# SPDX-License-Identifier: Apache-2.0
"""Frozen dataclasses as JSON and back: what crosses a process, a socket or a file is typed on both sides.

A field's name is its key. Keys that no field has are ignored, so that an older reader understands a newer writer.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from detour.base.errors import DetourError

T = TypeVar("T")


def as_json(record: Any) -> Any:
    """The record in dicts, lists, text, numbers, booleans and None."""
    return msgspec.to_builtins(record)


def from_json(kind: type[T], value: Any) -> T:
    """The record of a kind (a dataclass, or a container of them) that `as_json` made `value` of.

    Raises:
        DetourError: it is none, with the place that is wrong.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise DetourError(f"this is no {getattr(kind, '__name__', kind)}: {error}") from None
