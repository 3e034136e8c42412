# SPDX-License-Identifier: Apache-2.0
"""Host stacks: what the event loop and drivers have to know of one.

A stack is a record of the address of its state and of functions, which are called by address. So a stack is compiled
when it is used for the first time, and the loop is not compiled anew for it. All arguments and results are `int64`:

    receive(state, host, frame, stored, wire, now)     a frame came in, at that address
    transmit(state, host, frame, room, now) -> both    the next frame; how many bytes were stored << 32 | on the wire
    deadline(state, host) -> ps                        when expire() wants to be called (MAX_TIME = never)
    not_before(state, host) -> ps                      a bound below deadline() that costs next to nothing
    expire(state, host, now)                           that time has passed
    pause(state, host, mask)                           bit p set: priority p must not be sent (PFC)
    prefetch(state, host, frame, step)                 optional: asks the cache for what that frame will touch; in steps
                                                       0 and 1, since what is needed first leads to the rest

`stored` may be less than `wire`: of an elided payload, which is zeros, only the beginning is there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

from detour.base.jit import COMPILED
from detour.base.memory import callback
from detour.base.pointers import record_by_address
from detour.base.structs import Int64, NativeRecord

T = TypeVar("T")

FUNCTIONS = {"receive": 6, "transmit": 5, "deadline": 2, "not_before": 2, "expire": 3, "pause": 3, "prefetch": 4}
"""with their numbers of arguments"""


class StackRecord(NativeRecord):
    """A stack: its state, and where its functions are."""

    state: Int64
    receive: Int64
    transmit: Int64
    deadline: Int64
    not_before: Int64
    expire: Int64
    pause: Int64
    prefetch: Int64


stack_at = record_by_address(StackRecord)
STORED_SHIFT = 32
WIRE_MASK = (1 << STORED_SHIFT) - 1


class Call(Protocol):
    """Runs a function while nothing else touches a stack's state."""

    def __call__(self, function: Callable[[], T], /) -> T: ...


class HostStack(Protocol):
    """A stack that can be attached to a network (`Network.attach_stack`)."""

    @property
    def record(self) -> np.ndarray:
        """A one-element array of `StackRecord`; it and all that it points to must live as long as the network."""
        ...

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        ...

    @property
    def frame_bytes(self) -> int:
        """Bytes of the longest frame, or as many as are stored of one."""
        ...

    def set_jitter(self, jitter_ps: int) -> None:
        """By how much periodic senders may depart from their periods (`detour.engine.jitter`)."""
        ...

    def attached(self, host: int, call: Call, kick: Callable[[], None], now: Callable[[], int]) -> None:
        """A host has a port. `call(function)` runs a function while nothing else touches the stack's state, `kick()`,
        to be called within it, lets the host look for something to send, `now()` is its time in ps."""
        ...


def record_of(functions: Any, state: int) -> tuple[np.ndarray, list[Any]]:
    """The record of a stack whose functions are attributes of `functions`, and what must be kept as long as it is."""
    record = np.zeros(1, StackRecord.dtype)
    kept: list[Any] = []
    record["state"] = state
    for name, arguments in FUNCTIONS.items():
        function = getattr(functions, name, None)
        if function is not None:
            record[name], code = address_of(function, arguments)
            kept.append(code)
    return record, kept


def address_of(function: Any, arguments: int) -> tuple[int, Any]:
    """Address of an entry of `int64`s, and what must be kept for as long as it is called."""
    if COMPILED:
        return function.address, function
    made = callback(function, arguments)
    return ctypes.cast(made, ctypes.c_void_p).value or 0, made
