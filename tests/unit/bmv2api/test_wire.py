# SPDX-License-Identifier: Apache-2.0
"""The declarations against BMv2's own Python modules where they are installed, and Thrift's bytes everywhere."""

from __future__ import annotations

import importlib
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from thrift.transport.TTransport import TMemoryBuffer

from detour.engine.bmv2api.interface import SERVICES, Standard
from detour.engine.bmv2api.server import Dispatcher
from detour.engine.bmv2api.types import ExactParam, LpmParam, MatchParam, MatchType, TableCode
from detour.engine.bmv2api.wire import Method, methods, protocol

_MODULES = {
    "Standard": "bm_runtime.standard.Standard",
    "SimplePreLag": "bm_runtime.simple_pre_lag.SimplePreLAG",
    "SimpleSwitch": "sswitch_runtime.SimpleSwitch",
}


def _bmv2(module: str) -> Any:
    """A module that Thrift's compiler made of BMv2's IDL."""
    places = sorted(Path("/usr/local/lib").glob("python3*/*-packages/bm_runtime"))
    if not places:
        pytest.skip("BMv2's Python modules are not installed")
    before = list(sys.path)
    sys.path.append(str(places[0].parent))
    try:
        return importlib.import_module(module)
    finally:
        sys.path[:] = before


def _plain(spec: Any, seen: tuple[Any, ...] = ()) -> Any:
    """Numbers, types and names of fields, without what texts are decoded to and where classes come from."""
    if not isinstance(spec, tuple | list):
        return None if spec in ("UTF8", "BINARY") or isinstance(spec, bool) else spec
    if spec and isinstance(spec[0], type):
        return _plain(spec[1])
    return tuple(_plain(part) for part in spec)


@pytest.mark.parametrize("service", SERVICES, ids=lambda s: s.__name__)
def test_the_services_are_those_of_bmv2(service: type) -> None:
    theirs = _bmv2(_MODULES[service.__name__])
    names = {name.removesuffix("_args") for name in vars(theirs) if name.endswith("_args")}
    assert set(methods(service)) == names
    for name, method in methods(service).items():
        assert _plain(method.arguments.thrift_spec) == _plain(getattr(theirs, f"{name}_args").thrift_spec or (None,))
        _compare_results(method, getattr(theirs, f"{name}_result").thrift_spec)


def _compare_results(method: Method, theirs: Any) -> None:
    """Type of the result, and number and fields of the exception."""
    ours = [field for field in method.result.thrift_spec if field is not None]
    others = [field for field in theirs if field is not None]
    assert [(f[0], f[1], _plain(f[3])) for f in ours] == [(f[0], f[1], _plain(f[3])) for f in others], method.name


def test_codes_are_those_of_bmv2() -> None:
    theirs = _bmv2("bm_runtime.standard.ttypes").TableOperationErrorCode
    assert {code.name: code.value for code in TableCode} == theirs._NAMES_TO_VALUES


def test_a_call_byte_by_byte() -> None:
    """As Thrift's binary protocol says: type and number of a field, then its value; 0 ends a structure."""
    method = methods(Standard)["bm_mt_get_entry_from_key"]
    message = method.arguments()
    key = [MatchParam(MatchType.EXACT, exact=ExactParam(b"\1\2")), MatchParam(MatchType.LPM, lpm=LpmParam(b"\3", 5))]
    message.cxt_id, message.table_name, message.match_key, message.options = 0, "t", key, None  # type: ignore[attr-defined]
    buffer = TMemoryBuffer()
    message.write(protocol(buffer))
    i32, text, listed, structure = 8, 11, 15, 12
    exact = struct.pack("!bhi", i32, 1, 0) + struct.pack("!bh", structure, 2)
    exact += struct.pack("!bhi", text, 1, 2) + b"\1\2\0\0"
    lpm = struct.pack("!bhi", i32, 1, 1) + struct.pack("!bh", structure, 3)
    lpm += struct.pack("!bhi", text, 1, 1) + b"\3" + struct.pack("!bhi", i32, 2, 5) + b"\0\0"
    assert buffer.getvalue() == (
        struct.pack("!bhi", i32, 1, 0)
        + struct.pack("!bhi", text, 2, 1)
        + b"t"
        + struct.pack("!bhbi", listed, 3, structure, 2)
        + exact
        + lpm
        + b"\0"
    )


class _Answering:
    """An API whose functions note what they are given."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        if name in ("standard", "multicast", "target"):
            return self

        def answer(*arguments: Any) -> int:
            self.calls.append((name, *arguments))
            return 7

        return answer


def test_what_a_client_leaves_out_is_zero() -> None:
    api: Any = _Answering()
    name = b"standard:bm_register_read"
    call = struct.pack("!Ii", 0x80010001, len(name)) + name + struct.pack("!i", 3)
    call += struct.pack("!bhi", 8, 9, 1) + b"\0"  # a field that the function does not have
    answer = Dispatcher({"": api}).process(protocol(TMemoryBuffer(call)))
    assert api.calls == [("bm_register_read", "", 0)]
    short = b"bm_register_read"
    head = struct.pack("!Ii", 0x80010002, len(short)) + short + struct.pack("!i", 3)
    assert answer == head + struct.pack("!bhq", 10, 0, 7) + b"\0"
