# SPDX-License-Identifier: Apache-2.0
"""Memory of arrays and lists that native code makes: what its code calls of Numba's runtime, in IR, so that objects run
without Numba.

In front of the memory of an array is a header as Numba has it, in words: 0 references, 1 whether this is a list, 3 the
address of the data. Lists have their data apart, since they grow; what is in them has no memory of its own.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from detour.base.native import numba_private

_I64 = ir.IntType(64)
_AT = ir.IntType(8).as_pointer()
_HEADER_BYTES = 48


def modules() -> list[str]:
    """IR of all of it: counting, which Numba writes itself, and memory."""
    return [numba_private.counting(), str(_memory())]


def _memory() -> ir.Module:
    module = ir.Module("detour.memory")
    take, move = _declared(module, "malloc", _AT, _I64), _declared(module, "realloc", _AT, _AT, _I64)
    release = _declared(module, "free", ir.VoidType(), _AT)

    make = _declared(module, "NRT_MemInfo_alloc_aligned", _AT, _I64, ir.IntType(32))
    builder = ir.IRBuilder(make.append_basic_block())
    before = builder.add(builder.zext(make.args[1], _I64), _I64(_HEADER_BYTES))
    header = _taken(builder, take, builder.add(make.args[0], before))
    end = builder.add(builder.ptrtoint(header, _I64), builder.sub(before, _I64(1)))
    _begin(builder, header, 0, builder.and_(end, builder.neg(builder.zext(make.args[1], _I64))))

    make = _declared(module, "NRT_MemInfo_new_varsize_dtor", _AT, _I64, _AT)
    builder = ir.IRBuilder(make.append_basic_block())
    data = _taken(builder, take, make.args[0])
    _begin(builder, _taken(builder, take, _I64(_HEADER_BYTES)), 1, builder.ptrtoint(data, _I64))

    lengthen = _declared(module, "NRT_MemInfo_varsize_realloc", _AT, _AT, _I64)
    builder = ir.IRBuilder(lengthen.append_basic_block())
    at = _word(builder, lengthen.args[0], 3)
    data = _taken(builder, move, builder.inttoptr(builder.load(at), _AT), lengthen.args[1])
    builder.store(builder.ptrtoint(data, _I64), at)
    builder.ret(data)

    destroy = _declared(module, "NRT_MemInfo_call_dtor", ir.VoidType(), _AT)
    builder = ir.IRBuilder(destroy.append_basic_block())
    is_list, data = (builder.load(_word(builder, destroy.args[0], number)) for number in (1, 3))
    with builder.if_then(builder.icmp_unsigned("!=", is_list, _I64(0))):
        builder.call(release, [builder.inttoptr(data, _AT)])
    builder.call(release, destroy.args)
    builder.ret_void()
    return module


def _declared(module: ir.Module, name: str, result: ir.Type, *arguments: ir.Type) -> ir.Function:
    return ir.Function(module, ir.FunctionType(result, arguments), name)


def _taken(builder: Any, take: ir.Function, *arguments: Any) -> Any:
    """Memory; without any, the function returns null."""
    memory = builder.call(take, arguments)
    with builder.if_then(builder.icmp_unsigned("==", memory, _AT(None)), likely=False):
        builder.ret(_AT(None))
    return memory


def _word(builder: Any, header: Any, number: int) -> Any:
    return builder.gep(builder.bitcast(header, _I64.as_pointer()), [_I64(number)])


def _begin(builder: Any, header: Any, is_list: int, data: Any) -> None:
    """Write a header of one reference and return it."""
    for number, value in ((0, _I64(1)), (1, _I64(is_list)), (3, data)):
        builder.store(value, _word(builder, header, number))
    builder.ret(header)
