# SPDX-License-Identifier: Apache-2.0
"""Keys, actions and handles between BMv2's bytes and the engine's integers, with BMv2's checks in BMv2's order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from detour.engine.bmv2api import types
from detour.engine.bmv2api.wire import ServiceError, signed
from detour.engine.compiler.model import MAX_PRIORITY, ActionIr, KeyField, TableIr
from detour.engine.tables import ActionProfile, EntryExists, MatchTable, TableError, TableFull

_INDEX = 0xFFFFFF
_HIDDEN = 1 << 32
"""ids from here on are of members and groups that came with an entry of P4Runtime's, and are its own"""


def refused(code: types.TableCode) -> ServiceError:
    """BMv2's exception for a table or an action profile."""
    return types.InvalidTableOperation(code)


@contextmanager
def translated(code: types.TableCode | None = None) -> Iterator[None]:
    """Errors of the engine's tables become BMv2's, with that code or the one that fits."""
    try:
        yield
    except TableError as error:
        exists, full = isinstance(error, EntryExists), isinstance(error, TableFull)
        fits = types.TableCode.TABLE_FULL if full else types.TableCode.ERROR
        raise refused(code or (types.TableCode.DUPLICATE_ENTRY if exists else fits)) from error


# -- handles: the version of the place in the upper eight bits, its number below; signed, as Thrift has no other


def entry_handle(table: MatchTable, place: int) -> int:
    """Return BMv2's handle of the entry at that place."""
    return signed((table.version(place) & 0xFF) << 24 | place, 32)


def place(table: MatchTable, handle: int, any_version: bool = False) -> int:
    """The engine's handle of an entry. BMv2 does not look at the version everywhere."""
    index = handle & _INDEX
    if index not in table:
        raise refused(types.TableCode.INVALID_HANDLE)
    if not any_version and (handle >> 24) & 0xFF != table.version(index) & 0xFF:
        raise refused(types.TableCode.EXPIRED_HANDLE)
    return index


def member_id(profile: ActionProfile, handle: int) -> int:
    """The id of the member with that handle of BMv2's."""
    return _row_id(profile.member_id, handle, types.TableCode.INVALID_MBR_HANDLE)


def group_id(profile: ActionProfile, handle: int) -> int:
    """The id of the group with that handle of BMv2's."""
    return _row_id(profile.group_id, handle, types.TableCode.INVALID_GRP_HANDLE)


def _row_id(id_of: Callable[[int], int], handle: int, code: types.TableCode) -> int:
    try:
        number = id_of(handle)
    except KeyError:
        raise refused(code) from None
    if number >= _HIDDEN:
        raise refused(code)
    return number


# -- actions


def action_of(actions: Iterable[ActionIr], name: str) -> ActionIr:
    """The action of that name."""
    action = next((a for a in actions if a.name == name), None)
    if action is None:
        raise refused(types.TableCode.INVALID_ACTION_NAME)
    return action


def arguments(action: ActionIr, data: Sequence[bytes]) -> tuple[int, ...]:
    """Values of an action's parameters; bits beyond their width are cut."""
    if len(data) != len(action.params):
        raise refused(types.TableCode.BAD_ACTION_DATA)
    pairs = zip(action.params, data, strict=True)
    return tuple(int.from_bytes(value, "big") & ((1 << p.bits) - 1) for p, value in pairs)


def action_data(values: Sequence[int]) -> list[bytes]:
    """Values of parameters as BMv2 shows them: without zeros in front."""
    return [value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big") for value in values]


# -- priorities


def prioritised(spec: TableIr) -> bool:
    """Return whether entries of a table have priorities."""
    return spec.match_type in ("ternary", "range")


def engine_priority(spec: TableIr, priority: int | None) -> int:
    """BMv2 takes the lowest number first, the engine the highest, as P4Runtime does."""
    if not prioritised(spec):
        return 0
    if (priority or 0) < 0:
        raise refused(types.TableCode.ERROR)
    return MAX_PRIORITY - (priority or 0)


def bm_priority(spec: TableIr, priority: int) -> int:
    """The way back; tables without priorities have -1."""
    return MAX_PRIORITY - priority if prioritised(spec) else -1


# -- keys


def engine_key(spec: TableIr, params: Sequence[types.MatchParam]) -> tuple[Any, ...]:
    """The key that the engine's tables take."""
    if not spec.key:
        raise refused(types.TableCode.NO_TABLE_KEY)
    if len(params) != len(spec.key):
        raise refused(types.TableCode.BAD_MATCH_KEY)
    return tuple(_element(field, kind, param) for field, kind, param in zip(spec.key, kinds(spec), params, strict=True))


def kinds(spec: TableIr) -> list[types.MatchType]:
    """Match kinds of the fields of a key; P4_14's `valid` is an exact match for the engine."""
    return [types.MatchType[key["match_type"].upper()] for key in spec.json["key"]]


def _element(field: KeyField, kind: types.MatchType, param: types.MatchParam) -> Any:
    if param.type != kind:
        raise refused(types.TableCode.BAD_MATCH_KEY)
    match kind:
        case types.MatchType.EXACT:
            return _value(field, (param.exact or types.ExactParam()).key)
        case types.MatchType.LPM:
            lpm = param.lpm or types.LpmParam()
            if not 0 <= lpm.prefix_length <= field.bits:
                raise refused(types.TableCode.BAD_MATCH_KEY)
            return _value(field, lpm.key), lpm.prefix_length
        case types.MatchType.TERNARY:
            ternary = param.ternary or types.TernaryParam()
            return _value(field, ternary.key), _value(field, ternary.mask)
        case types.MatchType.VALID:
            return int((param.valid or types.ValidParam()).key)
        case types.MatchType.RANGE:
            bounds = param.range or types.RangeParam()
            if bounds.start > bounds.end_:
                raise refused(types.TableCode.BAD_MATCH_KEY)
            low, high = _value(field, bounds.start), _value(field, bounds.end_)
            if low > high:  # only without the bits that were cut
                raise refused(types.TableCode.BAD_MATCH_KEY)
            return low, high


def _value(field: KeyField, data: bytes) -> int:
    """Exactly as many bytes as the field has; bits beyond its width are cut."""
    if len(data) != (field.bits + 7) // 8:
        raise refused(types.TableCode.BAD_MATCH_KEY)
    return int.from_bytes(data, "big") & ((1 << field.bits) - 1)


def match_params(spec: TableIr, key: tuple[Any, ...]) -> list[types.MatchParam]:
    """A key as BMv2 shows it."""
    parts = zip(spec.key, kinds(spec), key, strict=True)
    return [_param(field, kind, element) for field, kind, element in parts]


def _param(field: KeyField, kind: types.MatchType, element: Any) -> types.MatchParam:
    def data(value: int) -> bytes:
        return value.to_bytes((field.bits + 7) // 8, "big")

    match kind:
        case types.MatchType.EXACT:
            return types.MatchParam(kind, exact=types.ExactParam(data(element)))
        case types.MatchType.LPM:
            return types.MatchParam(kind, lpm=types.LpmParam(data(element[0]), element[1]))
        case types.MatchType.TERNARY:
            return types.MatchParam(kind, ternary=types.TernaryParam(data(element[0]), data(element[1])))
        case types.MatchType.VALID:
            return types.MatchParam(kind, valid=types.ValidParam(bool(element)))
        case types.MatchType.RANGE:
            return types.MatchParam(kind, range=types.RangeParam(data(element[0]), data(element[1])))
