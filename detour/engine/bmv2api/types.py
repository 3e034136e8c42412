# SPDX-License-Identifier: Apache-2.0
"""The structures, codes and exceptions of BMv2's runtime API. Names are BMv2's, without their prefix `Bm`."""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum

from detour.engine.bmv2api.wire import I16, I32, I64, ServiceError, Struct

# -- keys


class MatchType(IntEnum):
    """The member of a `MatchParam` that is set."""

    EXACT, LPM, TERNARY, VALID, RANGE = range(5)


class ExactParam(Struct):
    key: bytes = b""


class LpmParam(Struct):
    key: bytes = b""
    prefix_length: I32 = 0


class TernaryParam(Struct):
    key: bytes = b""
    mask: bytes = b""


class ValidParam(Struct):
    key: bool = False


class RangeParam(Struct):
    start: bytes = b""
    end_: bytes = b""


class MatchParam(Struct):
    """One field of a key; values have as many bytes as the field."""

    type: I32 = 0
    exact: ExactParam | None = None
    lpm: LpmParam | None = None
    ternary: TernaryParam | None = None
    valid: ValidParam | None = None
    range: RangeParam | None = None


class EntryOptions(Struct):
    """`priority`: the lowest number wins, in tables with ternary or range fields."""

    priority: I32 | None = None


# -- entries


class ActionType(IntEnum):
    """The kind of an entry's action: none (no default entry), an action, a member or a group."""

    NONE, ACTION_DATA, MBR_HANDLE, GRP_HANDLE = range(4)


class ActionEntry(Struct):
    action_type: I32 = 0
    action_name: str | None = None
    action_data: list[bytes] | None = None
    mbr_handle: I32 | None = None
    grp_handle: I32 | None = None


class EntryLife(Struct):
    timeout_ms: I32 = 0
    time_since_hit_ms: I32 = 0


class BmEntry(Struct):
    match_key: list[MatchParam] = field(default_factory=list)
    options: EntryOptions = field(default_factory=EntryOptions)
    entry_handle: I32 = 0
    action_entry: ActionEntry = field(default_factory=ActionEntry)
    life: EntryLife | None = None


class ProfileMember(Struct):
    mbr_handle: I32 = 0
    action_name: str = ""
    action_data: list[bytes] = field(default_factory=list)


class ProfileGroup(Struct):
    grp_handle: I32 = 0
    mbr_handles: list[I32] = field(default_factory=list)


# -- everything else


class CounterValue(Struct):
    bytes: I64 = 0
    packets: I64 = 0


class MeterRate(Struct):
    """A rate of a meter; packets or bytes, whichever it counts."""

    units_per_micros: float = 0.0
    burst_size: I32 = 0


class PortInfo(Struct):
    port_num: I32 = 0
    iface_name: str = ""
    is_up: bool = False
    extra: dict[str, str] = field(default_factory=dict)


class SwitchConfig(Struct):
    """The content of `switch_info`."""

    device_id: I64 = 0
    thrift_port: I32 = 0
    notifications_socket: str | None = None
    elogger_socket: str | None = None
    debugger_socket: str | None = None


class Crc16Config(Struct):
    polynomial: I16 = 0
    initial_remainder: I16 = 0
    final_xor_value: I16 = 0
    data_reflected: bool = False
    remainder_reflected: bool = False


class Crc32Config(Struct):
    polynomial: I32 = 0
    initial_remainder: I32 = 0
    final_xor_value: I32 = 0
    data_reflected: bool = False
    remainder_reflected: bool = False


class MirroringSessionConfig(Struct):
    port: I32 | None = None
    mgid: I32 | None = None


class ResourceType(IntEnum):
    """The kinds of objects that `bm_get_id_from_name` finds."""

    MATCH_TABLE, ACTION_PROFILE, COUNTER, METER, REGISTER, LEARNING_LIST = range(6)


# -- errors


class TableCode(IntEnum):
    TABLE_FULL, INVALID_HANDLE, EXPIRED_HANDLE, COUNTERS_DISABLED, METERS_DISABLED, AGEING_DISABLED = range(1, 7)
    INVALID_TABLE_NAME, INVALID_ACTION_NAME, WRONG_TABLE_TYPE = range(7, 10)
    INVALID_MBR_HANDLE, MBR_STILL_USED, MBR_ALREADY_IN_GRP, MBR_NOT_IN_GRP = range(10, 14)
    INVALID_GRP_HANDLE, GRP_STILL_USED, EMPTY_GRP, DUPLICATE_ENTRY, BAD_MATCH_KEY = range(14, 19)
    INVALID_METER_OPERATION, DEFAULT_ACTION_IS_CONST, DEFAULT_ENTRY_IS_CONST, NO_DEFAULT_ENTRY = range(19, 23)
    INVALID_ACTION_PROFILE_NAME, NO_ACTION_PROFILE_SELECTION, IMMUTABLE_TABLE_ENTRIES = range(23, 26)
    BAD_ACTION_DATA, NO_TABLE_KEY = range(26, 28)
    ERROR = 100


CounterCode = IntEnum("CounterCode", "INVALID_COUNTER_NAME INVALID_INDEX ERROR")
CrcCode = IntEnum("CrcCode", "INVALID_CALCULATION_NAME WRONG_TYPE_CALCULATION INVALID_CONFIG")
DevMgrCode = IntEnum("DevMgrCode", "ERROR")
IdLookupCode = IntEnum("IdLookupCode", "INVALID_RESOURCE_TYPE INVALID_RESOURCE_NAME", start=0)
LearnCode = IntEnum("LearnCode", "INVALID_LIST_ID INVALID_LIST_NAME ERROR")
McCode = IntEnum("McCode", "TABLE_FULL INVALID_MGID INVALID_MGRP_HANDLE INVALID_L1_HANDLE ERROR")
MeterCode = IntEnum(
    "MeterCode",
    "INVALID_METER_NAME INVALID_INDEX BAD_RATES_LIST INVALID_INFO_RATE_VALUE INVALID_BURST_SIZE_VALUE ERROR",
)
MirroringCode = IntEnum("MirroringCode", "SESSION_NOT_FOUND")
ParseVSetCode = IntEnum("ParseVSetCode", "INVALID_PARSE_VSET_NAME ERROR")
RegisterCode = IntEnum("RegisterCode", "INVALID_REGISTER_NAME INVALID_INDEX ERROR")
SwapCode = IntEnum("SwapCode", "CONFIG_SWAP_DISABLED ONGOING_SWAP NO_ONGOING_SWAP")
ToeplitzCode = IntEnum("ToeplitzCode", "INVALID_CALCULATION_NAME WRONG_TYPE_CALCULATION INVALID_KEY")


def _error(name: str, codes: type[IntEnum], subject: str) -> type[ServiceError]:
    return type(name, (ServiceError,), {"CODES": codes, "SUBJECT": subject})


InvalidCounterOperation = _error("InvalidCounterOperation", CounterCode, "counter")
InvalidCrcOperation = _error("InvalidCrcOperation", CrcCode, "crc")
InvalidDevMgrOperation = _error("InvalidDevMgrOperation", DevMgrCode, "device manager")
InvalidIdLookup = _error("InvalidIdLookup", IdLookupCode, "id lookup")
InvalidLearnOperation = _error("InvalidLearnOperation", LearnCode, "learn")
InvalidMcOperation = _error("InvalidMcOperation", McCode, "PRE")
InvalidMeterOperation = _error("InvalidMeterOperation", MeterCode, "meter")
InvalidMirroringOperation = _error("InvalidMirroringOperation", MirroringCode, "mirroring")
InvalidParseVSetOperation = _error("InvalidParseVSetOperation", ParseVSetCode, "parser value set")
InvalidRegisterOperation = _error("InvalidRegisterOperation", RegisterCode, "register")
InvalidSwapOperation = _error("InvalidSwapOperation", SwapCode, "swap")
InvalidTableOperation = _error("InvalidTableOperation", TableCode, "table")
InvalidToeplitzHashOperation = _error("InvalidToeplitzHashOperation", ToeplitzCode, "Toeplitz hash")
