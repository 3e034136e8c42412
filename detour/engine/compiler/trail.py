# SPDX-License-Identifier: Apache-2.0
"""The trail of a switch: which lines of its tables packets have touched lately.

A packet's entries are found by what it says, so nothing tells beforehand which lines of the processor's cache they are.
But a flow's next packets touch the same ones. So lookups leave their addresses in a part of the state block, each in a
place that its line chooses, and `prefetch` asks for these when the switch's next turn comes. Old addresses stay, as
flows do not send in every turn; they may be of memory that is gone.

A place holds 32 bits: its number is the lowest ones of the line's, and the highest ones are taken from the address of
the state block. Where memory is further away than these say, the hint is for nothing.
"""

from __future__ import annotations

from detour.engine.compiler import slots
from detour.engine.compiler.ir import Function, Value, const
from detour.engine.compiler.runtime import loop
from detour.engine.compiler.slots import Slots

_LINE_SHIFT = 6
_KEPT_SHIFT = _LINE_SHIFT + (slots.TRAIL - 1).bit_length()
_FAR_SHIFT = _KEPT_SHIFT + 8 * slots.TRAIL_BYTES


def _place(f: Function, own: Slots, number: Value) -> str:
    return f.at(f.at("%sw", 8 * own.trail), f.op("mul", number, const(64, slots.TRAIL_BYTES)))


def leave(f: Function, own: Slots, address: str, last: int = 0) -> None:
    """Note that a packet touches what is there, up to the word `last` bytes behind."""
    first = Value(64, f.value(f"ptrtoint ptr {address} to i64"))
    for word in (first, f.op("add", first, const(64, last))) if last else (first,):
        number = f.op("and", f.lshr(word, _LINE_SHIFT), const(64, slots.TRAIL - 1))
        kept = f.resize(f.lshr(word, _KEPT_SHIFT), 8 * slots.TRAIL_BYTES)
        f.store(kept, _place(f, own, number), slots.TRAIL_BYTES)


def follow(f: Function, own: Slots) -> None:
    """Ask the cache for what has been touched."""
    near = Value(64, f.value("ptrtoint ptr %sw to i64"))
    far = f.shl(f.lshr(near, _FAR_SHIFT), _FAR_SHIFT)

    def ask(i: Value) -> None:
        kept = f.resize(f.load(8 * slots.TRAIL_BYTES, _place(f, own, i), slots.TRAIL_BYTES), 64)
        line = f.op("or", f.op("or", f.shl(kept, _KEPT_SHIFT), f.shl(i, _LINE_SHIFT)), far)
        # An address that is not mapped would cost a walk through the page tables.
        line = f.select(f.compare("eq", kept, const(64, 0)), near, line)
        at = f.value(f"inttoptr {line.typed} to ptr")
        f.line(f"call void @llvm.prefetch.p0(ptr {at}, i32 1, i32 3, i32 1)")

    loop(f, const(64, slots.TRAIL), ask)
