# SPDX-License-Identifier: Apache-2.0
"""Texts of the form `name:key=value,key=value`, in which topologies and policies are given."""

from __future__ import annotations

from collections.abc import Collection

from detour.base import plugins
from detour.base.errors import DetourError
from detour.base.quantities import whole_number_of

_MOST = 10**9 - 1


def split_spec(text: str) -> tuple[str, dict[str, str]]:
    """Name and values. Blanks around the parts do not count. Raises `DetourError`: a part is not key=value, or a key is
    there twice."""
    name, rest = plugins.split(text)
    values: dict[str, str] = {}
    for part in rest.split(",") if rest or text.rstrip().endswith(":") else []:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise DetourError(f"{text!r}: {part.strip()!r} is not of the form key=value")
        if key in values:
            raise DetourError(f"{text!r}: {key} is given twice")
        values[key] = value
    return name, values


def check_keys(text: str, values: Collection[str], required: Collection[str], optional: Collection[str] = ()) -> None:
    """Refuse unknown and missing keys. Raises `DetourError`: naming them and what is allowed."""
    allowed = [f"{key}=" for key in required] + [f"[{key}=]" for key in optional]
    allowed_text = ", ".join(allowed) if allowed else "no parameters"
    for key in values:
        if key not in required and key not in optional:
            raise DetourError(f"{text!r}: there is no parameter {key}; allowed: {allowed_text}")
    missing = [key for key in required if key not in values]
    if missing:
        raise DetourError(f"{text!r}: {', '.join(missing)} missing; wanted: {allowed_text}")


def whole_number(text: str, key: str, value: str) -> int:
    """The number that a value means. Raises `DetourError`: it is not a whole number of at most nine digits."""
    try:
        return whole_number_of(value, _MOST, -_MOST)
    except DetourError:
        digits = value.removeprefix("-")
        why = "too large" if digits.isascii() and digits.isdigit() else "not a whole number"
        raise DetourError(f"{text!r}: {key}={value} is {why}") from None
