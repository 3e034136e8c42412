# SPDX-License-Identifier: Apache-2.0
"""What Numba makes of `hosts.cc.own`: calls of hooks by their addresses."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, type_callable
from numba.np import numpy_support

from detour.hosts.cc import own

_I64 = ir.IntType(64)
_PACKET = numpy_support.from_dtype(own.PACKET)


def _load(builder: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, _I64.as_pointer()))


def _own(builder: Any, record: Any, q: Any) -> Any:
    """Address of the QP's row."""
    at = builder.add(builder.ptrtoint(q, _I64), _I64(record.offset("cc_own")))
    return _load(builder, at)


def _lower_packet(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    address = builder.add(_own(builder, signature.args[0], args[0]), _I64(8))
    return builder.inttoptr(address, context.get_value_type(_PACKET))


def _lower_call(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """A table: address of the parameters, then of the hooks, 0 for none."""
    row = _own(builder, signature.args[0], args[0])
    which, now = (context.cast(builder, args[n], signature.args[n], types.int64) for n in (1, 2))
    table = _load(builder, row)
    function = _load(builder, builder.add(table, builder.mul(builder.add(which, _I64(1)), _I64(8))))
    with builder.if_then(builder.icmp_unsigned("!=", function, _I64(0))):
        kind = ir.FunctionType(_I64, [_I64] * 4)
        pointer = builder.inttoptr(function, kind.as_pointer())
        builder.call(pointer, [_load(builder, table), row, builder.ptrtoint(args[0], _I64), now])
    return context.get_dummy_value()


type_callable(own.packet_of)(lambda context: lambda q: _PACKET)
type_callable(own.call)(lambda context: lambda q, which, now: types.void)
lower_builtin(own.packet_of, types.Record)(_lower_packet)
lower_builtin(own.call, types.Record, types.Integer, types.Integer)(_lower_call)
