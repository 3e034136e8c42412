# SPDX-License-Identifier: Apache-2.0
"""Values as commands give them (numbers, IPv4, IPv6 and MAC addresses) and as BMv2's API takes and shows them.

BMv2 cuts a value that is too wide for its field to the field's bits; that is always a mistake, so here it is one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence

from detour.engine.bmv2api import types
from detour.engine.bmv2api.commands.errors import CommandError
from detour.engine.bmv2api.commands.program import NamedAction, NamedField, NamedTable


def value(text: str, bits: int) -> bytes:
    """A value of a field or parameter of that width, in as many bytes as that takes. Raises CommandError if it is none,
    or does not fit."""
    number = _number(text, bits)
    if number < 0 or number >> bits:
        what = "too large" if number > 0 else "negative"
        raise CommandError(f"Parameter is {what}", f"{bits} bits, 0 to {(1 << bits) - 1}")
    return number.to_bytes((bits + 7) // 8, "big")


def _number(text: str, bits: int) -> int:
    if bits == 32 and "." in text:
        return _address(text, ipaddress.IPv4Address, "IPv4")
    if bits == 128 and ":" in text:
        return _address(text, ipaddress.IPv6Address, "IPv6")
    if bits == 48 and ":" in text:
        return _mac(text)
    try:
        return int(text, 0)
    except ValueError:
        raise CommandError(
            "Invalid input, could not cast to integer, try in hex with 0x prefix", f"{text!r} for {bits} bits"
        ) from None


def _address(text: str, kind: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address], name: str) -> int:
    try:
        return int(kind(text))
    except ValueError:
        raise CommandError(f"Invalid {name} address", repr(text)) from None


def _mac(text: str) -> int:
    parts = text.split(":")
    try:
        octets = [int(part, 16) for part in parts]
        if len(octets) != 6 or not all(0 <= octet <= 255 for octet in octets):
            raise ValueError
    except ValueError:
        raise CommandError("Invalid MAC address", repr(text)) from None
    return int.from_bytes(bytes(octets), "big")


# -- what belongs to an action, a key


def action_data(action: NamedAction, words: Sequence[str]) -> list[bytes]:
    """Values of an action's parameters."""
    if len(words) != len(action.params):
        names = ", ".join(f"{name} ({bits} bits)" for name, bits in action.params) or "none"
        raise CommandError(f"Action {action.name} needs {len(action.params)} parameters", f"{names}; not {len(words)}")
    pairs = zip(words, action.params, strict=True)
    return [_part(word, bits, f"parameter {name}", "Invalid runtime data") for word, (name, bits) in pairs]


def _part(text: str, bits: int, what: str, kind: str) -> bytes:
    try:
        return value(text, bits)
    except CommandError as error:
        raise CommandError(f"Error while parsing {text} - {error.text}", f"{what}, {error.hint}", kind) from None


def match_key(table: NamedTable, words: Sequence[str]) -> list[types.MatchParam]:
    """A key."""
    if len(words) != len(table.key):
        names = ", ".join(f"{f.name} ({f.kind.name.lower()}, {f.bits} bits)" for f in table.key) or "none"
        raise CommandError(f"Table {table.name} needs {len(table.key)} key fields", f"{names}; not {len(words)}")
    return [_match(f, word) for f, word in zip(table.key, words, strict=True)]


def _match(f: NamedField, word: str) -> types.MatchParam:
    def part(text: str) -> bytes:
        return _part(text, f.bits, f"field {f.name}", "Invalid match key")

    match f.kind:
        case types.MatchType.EXACT:
            return types.MatchParam(f.kind, exact=types.ExactParam(part(word)))
        case types.MatchType.LPM:
            prefix, length = _pair(f, word, "/", "LPM", "prefix and length")
            return types.MatchParam(f.kind, lpm=types.LpmParam(part(prefix), _length(f, length)))
        case types.MatchType.TERNARY:
            key, mask = _pair(f, word, "&&&", "ternary", "key and mask")
            return types.MatchParam(f.kind, ternary=types.TernaryParam(part(key), part(mask)))
        case types.MatchType.VALID:
            return types.MatchParam(f.kind, valid=types.ValidParam(part(word) != b"\0"))
        case types.MatchType.RANGE:
            start, end = (part(each) for each in _pair(f, word, "->", "range", "range start and range end"))
            if start > end:
                raise _wrong(f"start is greater than end in expression {word}", f"field {f.name}")
            return types.MatchParam(f.kind, range=types.RangeParam(start, end))


def _pair(f: NamedField, word: str, mark: str, kind: str, parts: str) -> tuple[str, str]:
    halves = word.split(mark)
    if len(halves) != 2:
        raise _wrong(f"Invalid {kind} value {word}, use '{mark}' to separate {parts}", f"field {f.name}")
    return halves[0], halves[1]


def _length(f: NamedField, text: str) -> int:
    if not text.isdecimal() or int(text) > f.bits:
        raise _wrong(f"Invalid prefix length {text}", f"field {f.name} has 0 to {f.bits} bits")
    return int(text)


def _wrong(text: str, hint: str) -> CommandError:
    return CommandError(text, hint, "Invalid match key")


# -- as it is shown

LINE, STARS = "==========", "**********"


def colons(data: bytes) -> str:
    """Bytes as entries are shown when they are added; dumps have no colons."""
    return data.hex(":")


def shown_param(param: types.MatchParam) -> str:
    """One field of a key, as it is shown when an entry is added."""
    return f"{types.MatchType(param.type).name}-{_shown(param, colons)}"


def dumped_param(param: types.MatchParam) -> str:
    """One field of a key, as it is shown when an entry is dumped."""
    if param.type == types.MatchType.VALID:
        return "01" if param.valid and param.valid.key else "00"
    return _shown(param, bytes.hex)


def _shown(param: types.MatchParam, shown: Callable[[bytes], str]) -> str:
    if param.exact:
        return shown(param.exact.key)
    if param.lpm:
        return f"{shown(param.lpm.key)}/{param.lpm.prefix_length}"
    if param.ternary:
        return f"{shown(param.ternary.key)} &&& {shown(param.ternary.mask)}"
    if param.range:
        return f"{shown(param.range.start)} -> {shown(param.range.end_)}"
    return ""


def dumped_action(name: str | None, data: list[bytes] | None) -> str:
    """Format the action of an entry or a member for a dump."""
    return f"Action entry: {name} - {', '.join(each.hex() for each in data or [])}"
