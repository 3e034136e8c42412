# SPDX-License-Identifier: Apache-2.0
"""Compiles the hooks of a congestion control that is plugged in (`hosts.cc.own`) for what calls them: queue pairs, TCP.

A hook is compiled with what it calls and nothing else, and kept in the cache of native code.
"""

from __future__ import annotations

import types as python
from dataclasses import asdict
from typing import Any

import numpy as np

from detour.base.errors import DetourError
from detour.base.jit import COMPILED, njit
from detour.base.pointers import record_by_address
from detour.hosts.cc import own
from detour.hosts.cc.own import CongestionAlgorithm, hook_name


class Bound:
    """An algorithm for senders of a kind: its parameters, and the addresses of its hooks."""

    def __init__(self, algorithm: CongestionAlgorithm, host_parameters: dict[str, Any], sender: np.dtype) -> None:
        """`host_parameters`: what hooks read beside the algorithm's own; `sender`: the record type of `q`."""
        self.algorithm = algorithm
        self.kept: list[np.ndarray] = []
        self.parameters = _parameters(algorithm, host_parameters)
        self.table = np.zeros(1 + len(own.HOOKS), np.int64)
        self.table[0] = self.parameters.ctypes.data
        by_name = {hook_name(one): one for one in algorithm.hooks}
        self.plain = tuple(by_name.get(name) for name in own.HOOKS)
        self._entries: list[Any] = []
        if COMPILED:
            records = (self.parameters.dtype, algorithm.row, sender, own.PACKET)
            self._entries = [None if one is None else _entry(one, records) for one in self.plain]
            for place, entry in enumerate(self._entries, 1):
                self.table[place] = 0 if entry is None else _address(entry)
        else:
            own.PYTHON_TABLES[self.table.ctypes.data] = (self.plain, self.parameters[0], algorithm.row)


def _parameters(algorithm: CongestionAlgorithm, host_parameters: dict[str, Any]) -> np.ndarray:
    values = host_parameters | asdict(algorithm.parameters)
    dtype = np.dtype([(name, np.float64 if isinstance(v, float) else np.int64) for name, v in values.items()])
    found = np.zeros(1, dtype)
    for name, value in values.items():
        found[name] = value
    return found


def _hook(*arguments: Any) -> None:
    """Stands for the hook in `_entry`."""


def _entry(hook: Any, records: tuple[np.dtype, ...]) -> Any:
    """What is called by address: it makes records of addresses and calls the hook."""
    parameters_at, fields_at, qp_at, packet_at = map(record_by_address, records)

    def entry(parameters: int, fields: int, q: int, now: int) -> int:
        _hook(parameters_at(parameters, 0), fields_at(fields, 0), qp_at(q, 0), packet_at(fields + 8, 0), now)
        return 0

    function = getattr(hook, "py_func", None)
    if function is None:
        raise DetourError(f"the hook {hook_name(hook)} is a plain Python function: mark it with @hook")
    made = python.FunctionType(
        entry.__code__,
        {"_hook": hook, "__name__": function.__module__},
        f"{function.__name__}_by_address",
        None,
        entry.__closure__,
    )
    return njit(made, key=_key(function, records))


def _key(function: Any, records: tuple[np.dtype, ...]) -> str:
    """What decides what comes of a hook beside the sources: records, which function of that name it is, and constants
    of its module, which may be computed. A hook with a closure has none and is not cached."""
    if function.__closure__ is not None:
        return ""
    plain = (int, float, str, bytes, tuple)
    constants = {name: value for name, value in function.__globals__.items() if isinstance(value, plain)}
    place = (function.__qualname__, function.__code__.co_firstlineno)
    return repr((place, [repr(one.fields) for one in records], sorted(constants.items())))


def _address(entry: Any) -> int:
    from numba import types

    signature = (types.int64,) * 4
    entry.dispatcher.compile(signature)
    compiled = entry.dispatcher.overloads[signature]
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)
