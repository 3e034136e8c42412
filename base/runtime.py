# SPDX-License-Identifier: Apache-2.0
"""Memory of arrays and lists that native code makes: the functions of Numba's runtime that its code calls, in IR, so
that objects run without Numba.

Memory begins with a header as Numba has it: references, destructor, its argument, address of the data, their size,
and an allocator, which is 0. Lists have their data apart, since they grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core.runtime import nrtdynmod

from detour.base.linking import context

_I64 = ir.IntType(64)
_AT = ir.IntType(8).as_pointer()
_DESTROY = ir.FunctionType(ir.VoidType(), [_AT, _I64, _AT])
_HEADER_BYTES = 48


def modules() -> list[str]:
    """IR of all of it: counting, which Numba writes itself, and memory."""
    return [str(nrtdynmod.create_nrt_module(context())[0]), str(_memory())]


def _memory() -> ir.Module:
    module = ir.Module("detour.memory")
    take = _declared(module, "malloc", _AT, _I64)
    move = _declared(module, "realloc", _AT, _AT, _I64)
    release = _declared(module, "free", ir.VoidType(), _AT)
    _array(module, take)
    _list(module, take, release)
    _longer(module, move)
    _end(module, release)
    return module


def _declared(module: ir.Module, name: str, result: ir.Type, *arguments: ir.Type) -> ir.Function:
    return ir.Function(module, ir.FunctionType(result, arguments), name)


def _begun(module: ir.Module, name: str, result: ir.Type, *arguments: ir.Type) -> tuple[Any, Sequence[Any]]:
    function = _declared(module, name, result, *arguments)
    return ir.IRBuilder(function.append_basic_block()), function.args


def _word(builder: Any, header: Any, number: int) -> Any:
    return builder.gep(builder.bitcast(header, _I64.as_pointer()), [_I64(number)])


def _begin(builder: Any, header: Any, destroy: Any, argument: Any, data: Any, size: Any) -> None:
    """Writes a header of one reference."""
    for number, value in enumerate((_I64(1), destroy, argument, data, size, _I64(0))):
        builder.store(value, _word(builder, header, number))


def _returns_null_without(builder: Any, memory: Any) -> None:
    with builder.if_then(builder.icmp_unsigned("==", memory, _AT(None)), likely=False):
        builder.ret(_AT(None))


def _array(module: ir.Module, take: Any) -> None:
    """Header and data, aligned, in one piece."""
    builder, (size, align) = _begun(module, "NRT_MemInfo_alloc_aligned", _AT, _I64, ir.IntType(32))
    align = builder.zext(align, _I64)
    header = builder.call(take, [builder.add(builder.add(size, align), _I64(_HEADER_BYTES))])
    _returns_null_without(builder, header)
    end = builder.add(builder.ptrtoint(header, _I64), builder.add(align, _I64(_HEADER_BYTES - 1)))
    data = builder.and_(end, builder.neg(align))
    _begin(builder, header, _I64(0), _I64(0), data, size)
    builder.ret(header)


def _list(module: ir.Module, take: Any, release: Any) -> None:
    """Header and data apart; `each` ends what is in the list."""
    ended, (data, _, each) = _begun(module, "detour_end_list", ir.VoidType(), *_DESTROY.args)
    with ended.if_then(ended.icmp_unsigned("!=", each, _AT(None))):
        one = ir.FunctionType(ir.VoidType(), [_AT]).as_pointer()
        ended.call(ended.bitcast(each, one), [data])
    ended.call(release, [data])
    ended.ret_void()
    builder, (size, each) = _begun(module, "NRT_MemInfo_new_varsize_dtor", _AT, _I64, _AT)
    data = builder.call(take, [size])
    _returns_null_without(builder, data)
    header = builder.call(take, [_I64(_HEADER_BYTES)])
    _returns_null_without(builder, header)
    numbers = [builder.ptrtoint(each_, _I64) for each_ in (module.get_global("detour_end_list"), each, data)]
    _begin(builder, header, *numbers, size)
    builder.ret(header)


def _longer(module: ir.Module, move: Any) -> None:
    """Data of a list in a larger place."""
    builder, (header, size) = _begun(module, "NRT_MemInfo_varsize_realloc", _AT, _AT, _I64)
    at = _word(builder, header, 3)
    data = builder.call(move, [builder.inttoptr(builder.load(at), _AT), size])
    _returns_null_without(builder, data)
    builder.store(builder.ptrtoint(data, _I64), at)
    builder.store(size, _word(builder, header, 4))
    builder.ret(data)


def _end(module: ir.Module, release: Any) -> None:
    """Of what has no reference any more."""
    builder, (header,) = _begun(module, "NRT_MemInfo_call_dtor", ir.VoidType(), _AT)
    destroy, argument, data, size = (builder.load(_word(builder, header, number)) for number in (1, 2, 3, 4))
    with builder.if_then(builder.icmp_unsigned("!=", destroy, _I64(0))):
        function = builder.inttoptr(destroy, _DESTROY.as_pointer())
        builder.call(function, [builder.inttoptr(data, _AT), size, builder.inttoptr(argument, _AT)])
    builder.call(release, [header])
    builder.ret_void()
