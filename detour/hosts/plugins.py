# SPDX-License-Identifier: Apache-2.0
"""Plugins of senders: congestion control (`hosts.cc.plugin`) and path schemes (`hosts.paths.plugin`), the built-in ones
too.

A plugin is parameters, fields that every sender has of it, and hooks: native functions that are called by address. So
one that changes is compiled alone, and what calls it is not. A sender has the address of its row: the address of a
table, then what the next hook is told (`NEWS`), then the fields. The table: the address of the parameters, then of the
hooks, 0 for none.

`NUMBA_DISABLE_JIT=1`: the numbers of functions in `PYTHON_HOOKS` stand for addresses.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import types as python
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from detour.base import plugins
from detour.base.errors import DetourError
from detour.base.jit import COMPILED, Native, inner, int64
from detour.base.memory import call4, load64
from detour.base.native import LocalPart, Part
from detour.base.structs import NativeRecord

RecordType = np.dtype[Any]
MakeEntry = Callable[[Any, tuple[RecordType, ...]], Any]
"""makes of a hook, and of the types of parameters, of the sender's row and of the sender, what is called by address"""

hook = inner
"""marks a hook, and what hooks call (`base.jit.inner`)"""

_HEADER = ("table", "packet")
PACKET_AT = 8
"""where in a sender's row the news are"""


@dataclass(frozen=True)
class Plugin(plugins.WithParameters):
    """`parameters`: an instance of a dataclass of numbers (None: it has none, and is given `HostConfig`);
    `fields`: of every sender, 0 at first, by name `int` or `float`, or a `NativeRecord`; `hooks`: native functions that
    are called like one of `HOOKS`."""

    parameters: Any = None
    fields: Mapping[str, type] | type[NativeRecord] = field(default_factory=dict[str, type])
    hooks: tuple[Any, ...] = ()
    name: str = "plugin"
    given: tuple[str, ...] = ()
    """parameters that were given with the name, and so are not the hosts' to change"""
    times: tuple[str, ...] | None = None
    """which fields are times (0 and `MAX_TIME`: none), so that steady phases can be skipped; None: that is not known"""

    HOOKS: ClassVar[tuple[str, ...]] = ()
    TAKES: ClassVar[tuple[str, ...]] = ()
    NEWS: ClassVar[type[NativeRecord]] = NativeRecord
    LEAST_HOOKS: ClassVar[int] = 1
    OF_HOST: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        self.check_parameters()
        for name, kind in () if isinstance(self.fields, type) else self.fields.items():
            if kind not in (int, float) or name in _HEADER:
                raise DetourError(f"the field {name} is of {kind!r}; expected int or float, and not {_HEADER}")
        names = [hook_name(one) for one in self.hooks]
        for name, one in zip(names, self.hooks, strict=True):
            if name not in self.HOOKS:
                raise DetourError(f"{name} is not a hook; there are {', '.join(self.HOOKS)}")
            takes = list(inspect.signature(one).parameters)
            if len(takes) != len(self.TAKES):
                raise _wrong(one, f"{name} takes {', '.join(takes)}; a hook takes {', '.join(self.TAKES)}")
            if COMPILED and not isinstance(one, Native):
                raise _wrong(one, f"the hook {name} is a plain Python function: decorate it with @hook")
        if len(set(names)) < len(names) or len(names) < self.LEAST_HOOKS:
            raise DetourError("expected at least one hook, each a function named on_... once")

    def on_hosts(self, values: Mapping[str, Any]) -> Self:
        """The same with those parameters of hosts (`HostConfig.plugins`) that are its own and were not given with its
        name."""
        own = self.values.keys() - set(self.given)
        return self.with_values({name: value for name, value in values.items() if name in own})

    @property
    def row(self) -> RecordType:
        """The record type of a sender's row."""
        if isinstance(self.fields, type):
            own: list[tuple[str, Any]] = [(name, self.fields.dtype[name]) for name in self.fields.dtype.names or ()]
        else:
            own = [(name, np.int64 if kind is int else np.float64) for name, kind in self.fields.items()]
        return np.dtype([("table", np.int64), ("packet", self.NEWS.dtype), *own])

    @property
    def parameter_type(self) -> RecordType:
        """The record of its own parameters behind the integers `OF_HOST`."""
        own = [(name, np.float64 if isinstance(value, float) else np.int64) for name, value in self.values.items()]
        return np.dtype([*((name, np.int64) for name in self.OF_HOST if name not in self.values), *own])

    def parameter_record(self, host_values: Callable[[str], Any]) -> np.ndarray[Any, RecordType]:
        """Return one record: the host's parameters, then the plug-in's own."""
        record, own = np.zeros(1, self.parameter_type), self.values
        for name in record.dtype.names or ():
            record[name] = own[name] if name in own else host_values(name)
        return record


def hook_name(function: Any) -> str:
    """Return the name of a hook."""
    return getattr(function, "__name__", repr(function))


# -- hooks by address ---------------------------------------------------------------------------------------


class Bound:
    """A plugin for senders of a kind: its parameters, and the addresses of its hooks."""

    def __init__(
        self, plugin: Plugin, parameters: np.ndarray[Any, RecordType], entry_of: MakeEntry, sender: RecordType
    ) -> None:
        self.algorithm, self.parameters = plugin, parameters
        self.kept: list[Any] = []
        self.table = np.zeros(1 + len(plugin.HOOKS), np.int64)
        self.table[0] = parameters.ctypes.data
        records = (parameters.dtype, plugin.row, sender)
        for one in plugin.hooks:
            self.table[1 + plugin.HOOKS.index(hook_name(one))] = self._address(one, records, entry_of)

    def _address(self, one: Any, records: tuple[RecordType, ...], entry_of: MakeEntry) -> int:
        if not COMPILED:
            PYTHON_HOOKS.append(_blamed(self.algorithm.name, entry_of(one, records)))
            return len(PYTHON_HOOKS)
        entry = _BUILT_IN.get((one, records[-1]))
        if entry is None:
            with plugins.blaming(self.algorithm.name):
                _check(one.py_func)
                entry = _compiled(one, records, entry_of)
                _ = entry.address
        self.kept.append(entry)
        return entry.address


_BUILT_IN: dict[tuple[Any, RecordType], Any] = {}
"""by hook and kind of sender: entries of parts"""


def build_in(part: Part, plugin: Plugin, sender: RecordType, entry_of: MakeEntry) -> None:
    """The hooks of a plugin are compiled as entries of a part."""
    for one in plugin.hooks if COMPILED else ():
        if (one, sender) not in _BUILT_IN:
            name = f"{plugin.name}_{hook_name(one)}".replace("-", "_")
            entry = _renamed(one, (plugin.parameter_type, plugin.row, sender), entry_of, name)
            _BUILT_IN[one, sender] = part.entry(entry)


def _renamed(one: Any, records: tuple[RecordType, ...], entry_of: MakeEntry, name: str) -> Any:
    """Return the function that is called by address, as a function of the hook's module."""
    function = one.py_func
    entry = entry_of(one, records)
    renamed = python.FunctionType(
        entry.__code__,
        {**entry.__globals__, "_hook": one, "__name__": function.__module__},
        name,
        None,
        entry.__closure__,
    )
    renamed.__annotations__ = entry.__annotations__
    return renamed


def _blamed(name: str, entry: Callable[..., int]) -> Callable[..., int]:
    """A hook of a file that runs as Python: what goes wrong in it is told with its line."""

    def called(*arguments: int) -> int:
        with plugins.blaming(name):
            return int(entry(*arguments))

    return called if plugins.in_file(name) else entry


def _wrong(function: Any, text: str, line: int | None = None) -> plugins.PlacedError:
    """An error with a place in a hook: a line, or the first one."""
    code = inspect.unwrap(function).__code__
    return plugins.PlacedError(text, code.co_filename, line or code.co_firstlineno)


def _check(function: Any) -> None:
    """Look in a hook, and in what it calls of its file, for what native code does without a word, or refuse without
    the line. Raises `PlacedError`."""
    known = function.__globals__
    for step in dis.get_instructions(function):
        called, text = known.get(step.argval) if step.opname == "LOAD_GLOBAL" else None, ""
        if step.opname == "RAISE_VARARGS":
            text = "a hook cannot raise errors or assert: it is native code"
        elif step.opname == "LOAD_GLOBAL" and step.argval not in known and not hasattr(builtins, step.argval):
            text = f"there is no {step.argval}"
        elif isinstance(called, Native) and called.file == Path(function.__code__.co_filename):
            _check(called.py_func)
        if text:
            raise _wrong(function, text, step.positions.lineno if step.positions else None)


def _compiled(one: Any, records: tuple[RecordType, ...], entry_of: MakeEntry) -> Any:
    """A hook with what it calls and nothing else, as a part of its own."""
    made = _renamed(one, records, entry_of, hook_name(one))
    return LocalPart(f"own-{hook_name(one)}", made.__module__, _key(one.py_func, records)).entry(made)


def _key(function: Any, records: tuple[RecordType, ...]) -> str | None:
    """Return everything that decides the compiled code of a hook beside its sources: records, which function of that
    name it is, and constants of its module, which may be computed. None for a closure, where that is unknown."""
    if function.__closure__ is not None:
        return None
    plain = (int, float, str, bytes, tuple)
    named: dict[str, Any] = function.__globals__
    constants: dict[str, Any] = {name: value for name, value in named.items() if isinstance(value, plain)}
    place = (function.__qualname__, function.__code__.co_firstlineno)
    return repr((place, [repr(one.fields) for one in records], sorted(constants.items())))


# -- for what calls ----------------------------------------------------------------------------------------


PYTHON_HOOKS: list[Callable[..., int]] = []
"""entries that run as Python; the address of the first one is 1"""


def _python_call(address: int, row: int, table: int, i: int, now: int) -> int:
    return PYTHON_HOOKS[address - 1](row, table, i, now)


_call = call4 if COMPILED else _python_call


@inner
def has(row: int, which: int) -> bool:
    """Return whether the plugin of the sender whose row is at `row` has a hook."""
    return load64(load64(row) + 8 * (which + 1)) != 0


@inner
def call(row: int, table: int, i: int, which: int, now: int) -> int:
    """Call a hook of the sender whose row is at `row`, if there is one, else returns 0. `table`, `i`: where the sender
    is, as the entries of its kind (`MakeEntry`) take it."""
    hook = load64(load64(row) + 8 * (which + 1))
    return _call(hook, row, table, i, now) if hook != 0 else int64(0)
