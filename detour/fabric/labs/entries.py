# SPDX-License-Identifier: Apache-2.0
"""`sN-runtime.json` of p4lang's tutorials: entries of tables, multicast groups and clone sessions, as updates for
P4Runtime.

Values are numbers (negative ones in two's complement), or texts: MAC, IPv4 or IPv6 addresses. A match is a value
(exact, optional), `[value, prefix]` (LPM), `[value, mask]` (ternary) or `[low, high]` (range).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from finsy.proto import p4i, p4r

from detour.base.errors import DetourError
from detour.base.located_json import JsonFile, JsonObject
from detour.control import entries
from detour.control.p4runtime.codec import Codec
from detour.fabric.tracing.program import read_write_request

T = TypeVar("T")

_FILE_KEYS = ("target", "p4info", "bmv2_json", "table_entries", "multicast_group_entries", "clone_session_entries")
_TABLE_KEYS = ("table", "match", "priority", "default_action", "action_name", "action_params", "comment")
_GROUP_KEYS = ("multicast_group_id", "replicas", "comment")
_SESSION_KEYS = ("clone_session_id", "replicas", "packet_length_bytes", "class_of_service", "comment")
_REPLICA_KEYS = ("egress_port", "instance")
_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
_KIND = p4i.MatchField
_WITH_PRIORITY = (_KIND.TERNARY, _KIND.RANGE, _KIND.OPTIONAL)


@dataclass(frozen=True)
class LabUpdate:
    """An update and where it is said."""

    where: str
    update: p4r.Update


def read_entries(path: Path, p4info: p4i.P4Info) -> list[LabUpdate]:
    """Read the updates that a file asks for. Raises DetourError: a line that does not fit the program, and what would
    fit."""
    return list(_Reader(JsonFile(path), p4info).updates())


class _Reader:
    """One file for one program."""

    def __init__(self, file: JsonFile, p4info: p4i.P4Info) -> None:
        self.file, self.codec = file, Codec(p4info)
        self.tables = _by_name(p4info.tables)
        self.actions = _by_name(p4info.actions)
        self.action_names = {each.preamble.id: each.preamble.name for each in p4info.actions}

    def updates(self) -> Iterator[LabUpdate]:
        """In the order of the file."""
        root, file = self.file.root, self.file
        file.only(root, _FILE_KEYS, "a file of entries")
        if root.get("target", "bmv2") != "bmv2":
            raise file.error(root, f"target is {root['target']!r}; there is only bmv2")
        for key, read in (
            ("table_entries", self._table_entry),
            ("multicast_group_entries", self._group),
            ("clone_session_entries", self._session),
        ):
            for listed in file.optional(root, key, list, "a list of objects in braces") or []:
                entry = file.typed(listed, f"one of {key}", listed, JsonObject, "an object in braces")
                with file.blaming(entry):
                    yield LabUpdate(f"{file.path}, line {entry.line}", self.codec.insert(read(entry)))

    # -- tables

    def _table_entry(self, entry: JsonObject) -> entries.Entity:
        _only(entry, _TABLE_KEYS)
        table = _named("table", _text(entry, "table"), self.tables)
        action = self._action(entry, table)
        if entry.get("default_action"):
            return entries.DefaultAction(table.preamble.name, action)
        return entries.TableEntry.of(table.preamble.name, _matches(entry, table), action, _priority(entry, table))

    def _action(self, entry: JsonObject, table: Any) -> entries.Action:
        name = _text(entry, "action_name")
        action = _named("action", name, self.actions)
        possible = [self.action_names[ref.id] for ref in table.action_refs]
        if action.preamble.name not in possible:
            raise DetourError(f"table {table.preamble.name} has no action {name!r}; it has {', '.join(possible)}")
        given = entry.get("action_params") or {}
        if not isinstance(given, dict):
            raise DetourError('action_params is not an object in braces, like {"port": 1}')
        params = {param.name: param for param in action.params}
        if set(given) != set(params):
            raise DetourError(
                f"action {action.preamble.name} takes {', '.join(params) or 'nothing'}; "
                f"given is {', '.join(given) or 'nothing'}"
            )
        values = {p: _number(f"{action.preamble.name}.{p}", v, params[p].bitwidth) for p, v in given.items()}
        return entries.Action.of(action.preamble.name, **values)

    # -- replication

    def _group(self, entry: JsonObject) -> entries.Entity:
        _only(entry, _GROUP_KEYS)
        return entries.MulticastGroup(_whole(entry, "multicast_group_id", 1, 65535), _replicas(entry))

    def _session(self, entry: JsonObject) -> entries.Entity:
        _only(entry, _SESSION_KEYS)
        length = _whole(entry, "packet_length_bytes", 0, 1 << 16) if "packet_length_bytes" in entry else 0
        service = _whole(entry, "class_of_service", 0, 7) if "class_of_service" in entry else 0
        return entries.CloneSession(_whole(entry, "clone_session_id", 1, 32767), _replicas(entry), service, length)


def _matches(entry: JsonObject, table: Any) -> dict[str, entries.MatchValue]:
    """Fields of an entry that are compared with something."""
    match = entry.get("match") or {}
    if not isinstance(match, dict):
        raise DetourError('match is not an object in braces, like {"hdr.ipv4.dstAddr": ["10.0.1.1", 32]}')
    fields = {field.name: field for field in table.match_fields}
    values: dict[str, entries.MatchValue] = {}
    for name, value in match.items():
        field = _named(f"field of table {table.preamble.name}", name, fields)
        if (read := _match(field, value)) is not None:
            values[name] = read
    missing = [f.name for f in table.match_fields if f.match_type == _KIND.EXACT and f.name not in match]
    if missing:
        raise DetourError(f"table {table.preamble.name} matches {missing[0]} exactly, so its value must be there")
    return values


def _priority(entry: JsonObject, table: Any) -> int:
    """Return the priority of an entry, if its table has priorities."""
    priority = entry.get("priority") or 0
    if not _is_whole(priority) or priority < 0:
        raise DetourError(f"priority is {priority!r}; expected a number above 0")
    needed = any(field.match_type in _WITH_PRIORITY for field in table.match_fields)
    if needed != bool(priority):
        rule = "needs a priority above 0" if needed else "has no ternary, range or optional field, so no priority"
        raise DetourError(f"table {table.preamble.name} {rule}")
    return priority


def _by_name(objects: Any) -> dict[str, Any]:
    """By full name, and by alias where that is not another's name."""
    aliases = {each.preamble.alias: each for each in objects if each.preamble.alias}
    return aliases | {each.preamble.name: each for each in objects}


def _named(what: str, name: str, objects: dict[str, T]) -> T:
    named = objects.get(name)
    if named is None:
        full = [each for each in objects if "." in each] or list(objects)
        raise DetourError(f"there is no {what} {name!r}; there is {', '.join(full) or 'none'}")
    return named


def _only(entry: JsonObject, allowed: tuple[str, ...]) -> None:
    """Keys that an entry may have."""
    wrong = next((key for key in entry if key not in allowed), None)
    if wrong is not None:
        raise DetourError(f"an entry has no {wrong!r}; allowed: {', '.join(allowed)}")


def _text(entry: JsonObject, key: str) -> str:
    """A name that must be there."""
    if not isinstance(entry.get(key), str):
        raise DetourError(f"{key!r} is missing, or no text")
    return entry[key]


def _whole(entry: JsonObject, key: str, low: int, high: int) -> int:
    """A whole number within bounds."""
    value = entry.get(key)
    if not _is_whole(value) or not low <= value <= high:
        raise DetourError(f"{key} is {value!r}; expected a whole number from {low} to {high}")
    return value


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _replicas(entry: JsonObject) -> tuple[entries.Replica, ...]:
    listed = entry.get("replicas")
    if not isinstance(listed, list) or not all(isinstance(each, JsonObject) for each in listed):
        raise DetourError('replicas is not a list like [{"egress_port": 1, "instance": 1}]')
    for each in listed:
        _only(each, _REPLICA_KEYS)
    return tuple(
        entries.Replica(_whole(each, "egress_port", 0, 511), _whole(each, "instance", 0, 65535)) for each in listed
    )


def _number(what: str, value: object, bits: int) -> int:
    """The number behind a value, if it fits so many bits. Raises DetourError: it does not."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        number, width = _address(what, value)
        if width != bits:
            raise DetourError(f"{what} is {value!r}, which has {width} bits; expected {bits}")
        return number
    if not _is_whole(value):
        raise DetourError(f"{what} is {value!r}; expected a number, or a MAC, IPv4 or IPv6 address in quotes")
    if not -(1 << bits - 1) <= value < 1 << bits:
        raise DetourError(f"{what} is {value}, which does not fit {bits} bits (0 to {(1 << bits) - 1})")
    return value & (1 << bits) - 1


def _address(what: str, text: str) -> tuple[int, int]:
    """(number, its width)."""
    if _MAC.fullmatch(text):
        return int(text.replace(":", ""), 16), 48
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise DetourError(f"{what} is {text!r}; texts are MAC, IPv4 or IPv6 addresses") from None
    return int(address), address.max_prefixlen


def _match(field: Any, value: object) -> entries.MatchValue | None:
    """Return the match of a field; None: any value matches."""
    name, bits = field.name, field.bitwidth
    if field.match_type in (_KIND.EXACT, _KIND.OPTIONAL):
        return _number(name, value, bits)
    kinds = {_KIND.LPM: "[value, prefix length]", _KIND.TERNARY: "[value, mask]", _KIND.RANGE: "[low, high]"}
    form = kinds.get(field.match_type, "not possible here")
    if field.match_type not in kinds or not isinstance(value, list) or len(value) != 2:
        raise DetourError(f"{name} is {value!r}; expected {form}")
    first = _number(name, value[0], bits)
    if field.match_type == _KIND.LPM:
        length = value[1]
        if not _is_whole(length) or not 0 <= length <= bits:
            raise DetourError(f"{name} has prefix length {length!r}; expected 0 to {bits}")
        _check_bits(name, value, first, (1 << bits) - (1 << bits - length))
        return entries.Lpm(first, length, bits) if length else None
    second = _number(name, value[1], bits)
    if field.match_type == _KIND.TERNARY:
        _check_bits(name, value, first, second)
        return entries.Ternary(first, second) if second else None
    if first > second:
        raise DetourError(f"{name} is {value!r}; the low end is above the high one")
    return entries.Range(first, second) if (first, second) != (0, (1 << bits) - 1) else None


def _check_bits(name: str, match: object, value: int, mask: int) -> None:
    """P4Runtime's rule, 9.1.1: what is not compared is 0."""
    if value & ~mask:
        raise DetourError(f"{name} is {match!r}: bits that are not compared must be 0, so expected {value & mask:#x}")


def read_updates(path: Path, p4info: p4i.P4Info) -> tuple[list[p4r.Update], list[str]]:
    """Update, and what errors call each: of a tutorial's `sN-runtime.json`, or of a P4Runtime WriteRequest as text.
    Raises DetourError: the file cannot be read, or does not fit the program."""
    if path.suffix != ".json":
        return read_write_request(path)
    updates = read_entries(path, p4info)
    return [each.update for each in updates], [each.where for each in updates]
