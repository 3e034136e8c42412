# SPDX-License-Identifier: Apache-2.0
"""Congestion control as a part that is plugged in: one file with parameters, fields and hooks, and nothing elsewhere.

    @dataclass(frozen=True)
    class Parameters:
        target_us: float = 20.0

    @hook
    def on_acked(p, s, q, packet, now):
        if packet.delay >= 0:
            q.cwnd = max(q.cwnd + (0.1 if packet.delay < p.target_us * 1e6 else -0.5), 1.0)

    MINE = CongestionAlgorithm(Parameters(), {"last_cut": int}, (on_acked,))

A hook gets the parameters `p` (those of the dataclass, and of the host: `HOST_PARAMETERS`), the fields `s` of its own,
the QP `q` (`cwnd` in packets, `ssthresh`, `pace_next` and `cc_timer` in ps are there to be changed; `inflight`,
`next_txn`, `epoch`, `srtt` to be read), the packet that it is about (`PACKET`) and the time in ps. It is native code,
called by its address, so that a new file takes a second to compile and the rest of the hosts nothing. Which hooks
there are: `HOOKS`; what each is called for: `detour.hosts.cc`.

This module calls; `hosts.verbs.algorithms` compiles hooks and gives QPs their fields.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

from detour.base.errors import DetourError
from detour.base.jit import COMPILED, as_record, inner
from detour.base.pointers import record_address, record_by_address
from detour.base.raw import call4, load64

HOOKS = ("on_path", "on_idle", "on_sent", "on_acked", "on_lost", "on_spurious", "on_rto", "on_timer")
HOOK_PATH, HOOK_IDLE, HOOK_SENT, HOOK_ACKED, HOOK_LOST, HOOK_SPURIOUS, HOOK_RTO, HOOK_TIMER = range(len(HOOKS))

PACKET = np.dtype(
    [
        ("bytes", np.int64),  # payload; of on_sent: the frame's length
        ("txn", np.int64),  # its place in the QP's order of transmissions
        ("rtt", np.int64),  # its round trip, ps
        ("delay", np.int64),  # how long it waited in the queues of its path, ps
        ("hops", np.int64),  # switches that it passed
        ("marked", np.int64),  # it came with a CE mark
        ("congested", np.int64),  # on_lost: in a full queue, as far as the sender knows
        ("lost", np.int64),  # on_rto: packets that count as lost
    ]
)
"""What a hook is told of a packet. `rtt`, `delay` and `hops` are -1 where they are not known: for packets of which an
ACK only says that they have arrived, but did not cause it, and without the Transit Measurement option."""

HOST_PARAMETERS = ("link_rate_bps", "payload", "min_cwnd", "max_cwnd", "tick_ps")
"""of `HostConfig`, beside the algorithm's own"""

hook = inner
"""marks a hook, and what hooks call (`base.jit.inner`)"""


@dataclass(frozen=True)
class CongestionAlgorithm:
    """An algorithm. `parameters`: an instance of a dataclass of numbers; `fields`: of every QP, 0 at first, by name
    `int` or `float`; `hooks`: native functions that are called like one of `HOOKS`.

    `built_in`: number of one whose hooks are compiled into the hosts (`detour.hosts.cc`); it has no hooks here, and its
    parameters are those of `HostConfig`.
    """

    parameters: Any = None
    fields: Mapping[str, type] = field(default_factory=dict)
    hooks: tuple[Any, ...] = ()
    built_in: int | None = None
    name: str = "own"

    def __post_init__(self) -> None:
        if self.built_in is not None:
            return
        if not is_dataclass(self.parameters) or isinstance(self.parameters, type):
            raise DetourError(f"parameters are an instance of a dataclass, not {self.parameters!r:.60}")
        for each in fields(self.parameters):
            value = getattr(self.parameters, each.name)
            if not isinstance(value, (int, float)):
                raise DetourError(f"the parameter {each.name} is no number: {value!r:.60}")
        for name, kind in self.fields.items():
            if kind not in (int, float) or name in _HEADER:
                raise DetourError(f"the field {name} is of {kind!r}; int and float are possible, {_HEADER} are taken")
        for name in map(hook_name, self.hooks):
            if name not in HOOKS:
                raise DetourError(f"{name} is no hook; there are {', '.join(HOOKS)}")
        if len({hook_name(one) for one in self.hooks}) < len(self.hooks) or not self.hooks:
            raise DetourError("hooks are functions called on_..., each once; at least one is needed")

    def with_values(self, values: Mapping[str, Any]) -> CongestionAlgorithm:
        """The same with other parameters.

        Raises:
            DetourError: there is no such parameter, or it is another kind of number.
        """
        if not values:
            return self
        known = [] if self.parameters is None else [each.name for each in fields(self.parameters)]
        for name, value in values.items():
            if name not in known:
                raise DetourError(f"{self.name}: there is no parameter {name}; allowed: {', '.join(known) or 'none'}")
            if isinstance(value, str) or (isinstance(getattr(self.parameters, name), int) and value != int(value)):
                kind = "whole number" if isinstance(getattr(self.parameters, name), int) else "number"
                raise DetourError(f"{self.name}: {name} is a {kind}, not {value!r}")
        before: Any = self.parameters
        typed = {name: type(getattr(before, name))(value) for name, value in values.items()}
        return replace(self, parameters=replace(before, **typed))

    @property
    def row(self) -> np.dtype:
        """What every QP has of it."""
        own = [(name, np.int64 if kind is int else np.float64) for name, kind in self.fields.items()]
        return np.dtype([("table", np.int64), ("packet", PACKET), *own])


_HEADER = ("table", "packet")


def hook_name(function: Any) -> str:
    """What a hook is called."""
    return getattr(function, "__name__", repr(function))


# -- calls ------------------------------------------------------------------------------------------------


PYTHON: dict[int, tuple[tuple[Callable[..., Any] | None, ...], Any, Any]] = {}
"""for NUMBA_DISABLE_JIT=1: by `cc_own` hooks, parameters and row"""


PYTHON_TABLES: dict[int, tuple[tuple[Callable[..., Any] | None, ...], Any, np.dtype]] = {}
"""the same by the address of a table of hooks: for senders that native code makes, with the type of their rows"""


def _python(q: Any) -> tuple[tuple[Callable[..., Any] | None, ...], Any, Any]:
    """Hooks, parameters and row of a sender."""
    address = int(q.cc_own)
    if address in PYTHON:
        return PYTHON[address]
    hooks, parameters, dtype = PYTHON_TABLES[ctypes.c_int64.from_address(address).value]
    raw: Any = (ctypes.c_char * dtype.itemsize).from_address(address)
    return hooks, parameters, np.frombuffer(raw, dtype)[0]


def _python_packet(q: Any) -> Any:
    return as_record(_python(q)[2]["packet"])


def _python_call(q: Any, which: int, now: int) -> None:
    hooks, parameters, row = _python(q)
    chosen = hooks[which]
    if chosen is not None:
        chosen(as_record(parameters), as_record(row), q, as_record(row["packet"]), now)


_packet_at = record_by_address(PACKET)


@inner
def _native_packet(q: Any) -> Any:
    return _packet_at(q.cc_own + 8, 0)


@inner
def _native_call(q: Any, which: int, now: int) -> None:
    """A QP's row begins with its table: address of the parameters, then of the hooks, 0 for none."""
    table = load64(q.cc_own)
    hook_at = load64(table + 8 * (which + 1))
    if hook_at != 0:
        call4(hook_at, load64(table), q.cc_own, record_address(q), now)


packet_of = _native_packet if COMPILED else _python_packet
"""`packet_of(q)`: the record of the packet that the next call of a hook is about"""
call = _native_call if COMPILED else _python_call
"""`call(q, which, now)`: calls a hook of the QP's algorithm, if it has that"""
