# SPDX-License-Identifier: Apache-2.0
"""Documents as JSON text at once: what all of a kind say is text already, and only their numbers are put into it,
without a dictionary for each."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from detour.engine.compiler.model import HeaderType

_STAND_IN = 10**61
"""Numbers that stand for others are from here on: no field is that wide. (They have an even number of digits, so that
one can be bytes in hex.)"""
_STAND_INS = re.compile(r"1\d{61}")


def stand_in(place: int) -> int:
    """What a document has where the value of that place is to be."""
    return _STAND_IN + place


def stand_in_bytes(place: int) -> bytes:
    """The same where a document shows bytes in hex."""
    return bytes.fromhex(str(stand_in(place)))


class Template:
    """The text of a document in which stand-ins have places. `format`: with a `%s` for each; `order`: their places."""

    __slots__ = ("format", "order")

    def __init__(self, document: dict[str, Any]) -> None:
        text = json.dumps(document)
        self.order = [int(found) - _STAND_IN for found in _STAND_INS.findall(text)]
        self.format = _STAND_INS.sub("%s", text.replace("%", "%%"))

    def fill(self, values: Sequence[Any]) -> str:
        """The text with these values, numbers or text, by their places."""
        return self.format % tuple([values[place] for place in self.order])


class HeaderText:
    """What the text of a header says between its braces, by its bytes, if it has its fixed length."""

    __slots__ = ("_bytes", "_format", "_parts")

    def __init__(self, header: str, kind: HeaderType) -> None:
        bits = sum(each.bits for each in kind.fields)
        names = ", ".join(f"{json.dumps(each.name)}: %d" for each in kind.fields)
        head = f'"header": {json.dumps(header)}, "type": {json.dumps(kind.name)}'
        self._format = f'{head}, "fields": {{{names}}}, "hex": "%s"'
        self._bytes = -1 if any(each.variable for each in kind.fields) else bits // 8
        self._parts: list[tuple[int, int]] = []
        for each in kind.fields:
            bits -= each.bits
            self._parts.append((bits, (1 << each.bits) - 1))

    def fill(self, data: bytes) -> str | None:
        """None: it has another length."""
        if len(data) != self._bytes:
            return None
        value = int.from_bytes(data, "big")
        return self._format % (*[(value >> shift) & mask for shift, mask in self._parts], data.hex())
