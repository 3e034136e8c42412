# SPDX-License-Identifier: Apache-2.0
"""The trail of a switch: which lines of its tables packets have touched lately.

A packet's entries are found by what it says, so nothing tells beforehand which lines of the processor's cache they are.
But a flow's next packets touch the same ones. So lookups leave their addresses in a part of the state block, and
`prefetch` asks for these when the switch's next turn comes. Old addresses stay, as flows do not send in every turn;
they may be of memory that is gone.

A line chooses a pair of places, as in a cache of two ways: the address that was left there last is in the first one.
A place holds 32 bits: its pair's number is the lowest ones of the line's, and the highest ones are taken from the
address of the state block. Where memory is further away than these say, the hint is for nothing.
"""

from __future__ import annotations

from detour.engine.compiler import slots
from detour.engine.compiler.ir import Function, Value, const
from detour.engine.compiler.runtime import each_bit, loop
from detour.engine.compiler.slots import Slots

_LINE_SHIFT = 6
_GROUP_SHIFT = 6
_BITS = 8 * slots.TRAIL_BYTES
_KEPT_SHIFT = _LINE_SHIFT + (slots.TRAIL // 2 - 1).bit_length()
_FAR_SHIFT = _KEPT_SHIFT + _BITS


def _place(f: Function, own: Slots, number: Value) -> str:
    return f.at(f.at("%sw", 8 * own.trail), f.op("mul", number, const(64, slots.TRAIL_BYTES)))


def leave(f: Function, own: Slots, address: str, last: int = 0) -> None:
    """Note that a packet touches what is there, up to the word `last` bytes behind."""
    first = Value(64, f.value(f"ptrtoint ptr {address} to i64"))
    for word in (first, f.op("add", first, const(64, last))) if last else (first,):
        number = f.op("and", f.lshr(word, _LINE_SHIFT), const(64, slots.TRAIL // 2 - 1))
        pair = _place(f, own, f.shl(number, 1))
        kept, before = f.resize(f.lshr(word, _KEPT_SHIFT), _BITS), f.load(2 * _BITS, pair, 2 * slots.TRAIL_BYTES)
        new, known = f.block("new"), f.block("known")
        f.branch(f.compare("eq", f.resize(before, _BITS), kept), known, new)
        f.enter(new)
        f.store(f.op("or", f.shl(before, _BITS), f.resize(kept, 2 * _BITS)), pair, 2 * slots.TRAIL_BYTES)
        f.jump(known)
        f.enter(known)


def follow(f: Function, own: Slots) -> None:
    """Ask the cache for what has been touched. Most places are empty: those in use are found 64 at a time."""
    near = Value(64, f.value("ptrtoint ptr %sw to i64"))
    far = f.shl(f.lshr(near, _FAR_SHIFT), _FAR_SHIFT)
    left = f.variable(64)

    def ask(number: Value) -> None:
        kept = f.resize(f.load(_BITS, _place(f, own, number), slots.TRAIL_BYTES), 64)
        line = f.op("or", f.shl(kept, _KEPT_SHIFT), f.shl(f.lshr(number, 1), _LINE_SHIFT))
        at = f.value(f"inttoptr {f.op('or', line, far).typed} to ptr")
        f.line(f"call void @llvm.prefetch.p0(ptr {at}, i32 1, i32 3, i32 1)")

    def several(group: Value) -> None:
        first, kind = f.shl(group, _GROUP_SHIFT), f"<{1 << _GROUP_SHIFT} x i{_BITS}>"
        places = f.value(f"load {kind}, ptr {_place(f, own, first)}, align {slots.TRAIL_BYTES}")
        used = f.value(f"icmp ne {kind} {places}, zeroinitializer")
        f.store(Value(64, f.value(f"bitcast <{1 << _GROUP_SHIFT} x i1> {used} to i64")), left, 8)
        each_bit(f, left, lambda number: ask(f.op("or", first, number)))

    loop(f, const(64, slots.TRAIL >> _GROUP_SHIFT), several)
