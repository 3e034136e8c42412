# SPDX-License-Identifier: Apache-2.0
"""The trail of a switch: which lines of its tables packets have touched lately.

A packet's entries are found by what it says, so nothing tells beforehand which lines of the processor's cache they are.
But a flow's next packets touch the same ones. So lookups leave their addresses in a part of the state block, each in a
place that its line chooses, and `prefetch` asks for these when the switch's next turn comes. Old addresses stay, as
flows do not send in every turn; they may be of memory that is gone.
"""

from __future__ import annotations

from detour.engine.compiler import slots
from detour.engine.compiler.ir import Function, Value, const
from detour.engine.compiler.runtime import loop
from detour.engine.compiler.slots import Slots

_LINE_SHIFT = 6


def leave(f: Function, own: Slots, address: str, last: int = 0) -> None:
    """Note that a packet touches what is there, up to the word `last` bytes behind."""
    first = Value(64, f.value(f"ptrtoint ptr {address} to i64"))
    for word in (first, f.op("add", first, const(64, last))) if last else (first,):
        place = f.op("and", f.lshr(word, _LINE_SHIFT), const(64, slots.TRAIL - 1))
        f.store(word, f.at(f.at("%sw", 8 * own.trail), f.shl(place, 3)), 8)


def follow(f: Function, own: Slots) -> None:
    """Ask the cache for what has been touched."""
    first = f.at("%sw", 8 * own.trail)

    def ask(i: Value) -> None:
        at = f.at(first, f.shl(i, 3))
        f.line(f"call void @llvm.prefetch.p0(ptr {f.load_pointer(at)}, i32 1, i32 3, i32 1)")

    loop(f, const(64, slots.TRAIL), ask)
