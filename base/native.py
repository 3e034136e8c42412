# SPDX-License-Identifier: Apache-2.0
"""Native functions that are never stale: neither those on disk nor those in memory.

Numba keys its own cache on a function's file. It sees neither that what was inlined from elsewhere is another function
now nor that a global which it froze has another value, and it keeps what it has compiled for as long as the process
lives. Here the key of a stored function is its fingerprint (`detour.base.fingerprint`), and when something that a
fingerprint covers is replaced, every function compiled from it is dropped, and compiled or loaded anew when it is next
called.

Replacements are noticed at once where they go through a module (`module.name = other`, `monkeypatch`, `mock.patch`); a
write past it, to a module's dictionary or by a script to its own globals, is noticed by the next `notice()`: when
a function is first used, a network is made, or one is run.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import pickle
import platform
import sys
import types as python
import weakref
from itertools import count
from secrets import randbits
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import bytecode, caching, config, serialize
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock

from detour.base.cache import Cache
from detour.base.errors import DetourError
from detour.base.fingerprint import Fingerprints, Unknown, is_foreign

_log = logging.getLogger(__name__)

# Numba numbers the functions that it compiles from 1 in every process and finds their machine code by that number. A
# function loaded from the cache must not be taken for another one compiled here.
bytecode.FunctionIdentity._unique_ids = count(randbits(40))  # pyright: ignore[reportAttributeAccessIssue]

_SETTINGS = ("OPT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT", "FULL_TRACEBACKS")
_VERSIONS = (numba.__version__, llvmlite.__version__, np.__version__, sys.version_info[:3], platform.machine())

_natives: weakref.WeakSet[Any] = weakref.WeakSet()


class _Watched(python.ModuleType):
    """A module that tells when something in it is replaced."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        _replaced(vars(self), name)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        _replaced(vars(self), name)

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


def _watch(namespace: dict[str, Any]) -> None:
    module = sys.modules.get(str(namespace.get("__name__")))
    if type(module) is python.ModuleType and vars(module) is namespace and not is_foreign(namespace):
        module.__class__ = _Watched


def _adopt(dispatcher: Any) -> None:
    """Takes over a function that was decorated with Numba itself; what it compiled before may be out of date."""
    if not isinstance(dispatcher._cache, Native):
        stored = not isinstance(dispatcher._cache, caching.NullCache)
        register(dispatcher, Cache("numba", "other") if stored else None)
        dispatcher._cache.retire()


_fingerprints = Fingerprints(_adopt, _watch)


def _replaced(namespace: dict[str, Any], name: str) -> None:
    if _fingerprints.reads(namespace, name):
        _drop_stale()


def notice(outside: bool = False) -> None:
    """Drops native code that is out of date. `outside`: looks only at what was read from other modules than detour's,
    which takes no time where there is nothing."""
    if not (_fingerprints.current_outside() if outside else _fingerprints.current()):
        _drop_stale()


def _drop_stale() -> None:
    with global_compiler_lock:
        _fingerprints.forget()
        for dispatcher in list(_natives):
            dispatcher._cache.check()


def register(dispatcher: Any, cache: Cache | None) -> Any:
    """Lets a function be compiled anew when it has to be, and stored if `cache` is given. Returns it."""
    dispatcher._cache = Native(dispatcher, cache)
    _natives.add(dispatcher)
    return dispatcher


class Native(caching._Cache):  # pyright: ignore[reportPrivateUsage]
    """What Numba asks before it compiles a function, and tells after that."""

    def __init__(self, dispatcher: Any, cache: Cache | None) -> None:
        self._dispatcher = weakref.ref(dispatcher)
        self._cache = cache
        self._enabled = True
        self._compiled_as: str | None = None
        self._names: dict[Any, str] = {}
        """of overloads that are in use, by their argument types"""
        self._retired: dict[str, list[CompileResult]] = {}
        """by name: what is replaced back needs no compiler, and a thread may still be within it"""

    @property
    def cache_path(self) -> str | None:
        try:
            return str(self._cache.folder().path) if self._cache is not None else None
        except OSError:  # there is nowhere
            return None

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        """Forgets what `recompile()` is to make anew."""
        for name in self._names.values():
            self._retired.pop(name, None)
            if self._cache is not None:
                self._cache.discard(name)

    # -- what is stored ---------------------------------------------------------------------------------

    def _name(self, sig: Any, codegen: Any) -> str:
        """Name of the file of one overload."""
        dispatcher = self._dispatcher()
        assert dispatcher is not None
        settings = [getattr(config, name, None) for name in _SETTINGS]
        kinds = [_fingerprints.type_text(one) for one in _arguments(sig)]
        key = hashlib.sha256(
            repr((self._compiled_as, kinds, codegen.magic_tuple(), settings, _VERSIONS)).encode()
        ).hexdigest()[:40]
        return f"{dispatcher.__module__}.{dispatcher.__name__}-{key}"

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        """A compiled function, from disk or from an earlier state of this process; None: compile it."""
        target_context.refresh()
        notice()
        try:
            self._compiled_as = _fingerprints.of(self._dispatcher())
            name = self._name(sig, target_context.codegen())
        except Unknown as unknown:
            _log.debug("%s cannot be cached: %s", self._dispatcher(), unknown)
            self._compiled_as = None
            return None
        self._names[tuple(_arguments(sig))] = name
        if self._retired.get(name):
            return self._retired[name][-1]._replace(metadata=None)  # timers of Numba note themselves there once
        if self._cache is None or not self._enabled:
            return None
        data = self._cache.get(name)
        if data is None:
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(data))
        except Exception as error:
            _log.debug("%s is compiled anew: %r", name, error)
            self._cache.discard(name)
            return None

    def save_overload(self, sig: Any, data: CompileResult) -> None:
        """Keeps a compiled function, if it is still what the fingerprint says."""
        name = self._names.get(tuple(_arguments(sig)))
        if name is None or self._cache is None or not self._enabled:
            return
        if any(not lifted.can_cache for lifted in data.lifted) or data.library.has_dynamic_globals:
            return  # it holds addresses of this process
        if _fingerprints.current():
            self._cache.put(name, serialize.dumps(data._reduce()))

    # -- what is in use ---------------------------------------------------------------------------------

    def check(self) -> None:
        """Drops what was compiled from something else than what is there now."""
        dispatcher = self._dispatcher()
        if dispatcher is None:
            return
        dispatcher._compiler._failed_cache.clear()
        if not dispatcher.overloads:
            return
        try:
            now = _fingerprints.of(dispatcher)
        except (Unknown, DetourError):
            now = None
        if now is None or now != self._compiled_as:
            self.retire()

    def retire(self) -> None:
        """Drops all that was compiled; the next call compiles."""
        dispatcher = self._dispatcher()
        if dispatcher is None:
            return
        for arguments, result in dispatcher.overloads.items():
            self._retired.setdefault(self._names.pop(arguments, ""), []).append(result)
        dispatcher._make_finalizer()()
        dispatcher._reset_overloads()


def _arguments(sig: Any) -> Any:
    return getattr(sig, "args", sig)
