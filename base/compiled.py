# SPDX-License-Identifier: Apache-2.0
"""Numba, as detour uses it: linked once (`linking`), with a cache on disk of what Python calls function by function.

A cached function is found by the digest of the sources that its module is made of (`sources`), its types and the
versions of the compilers. Code that is replaced in a running process takes no effect on what was compiled before.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
import platform
import sys
from dataclasses import dataclass
from itertools import count
from secrets import randbits
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import bytecode, caching, config, serialize
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target

from detour.base import compiling, linking, objects, sources  # noqa: F401  # notices what is compiled from now on
from detour.base.cache import Cache
from detour.base.jit import Native
from detour.base.parts import NATIVE_CACHE, stored

_log = logging.getLogger(__name__)
linking.install()
CONTEXT: Any = cpu_target.target_context
"""of Numba's target, which is this processor"""

# Numba numbers the functions that it compiles from 1 in every process and finds their machine code by that number. A
# function loaded from the cache must not be taken for another one compiled here.
bytecode.FunctionIdentity._unique_ids = count(randbits(40))  # pyright: ignore[reportAttributeAccessIssue]

_SETTINGS = ("OPT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT", "FULL_TRACEBACKS")
_VERSIONS = (numba.__version__, llvmlite.__version__, np.__version__, sys.version_info[:3], platform.machine())


def dispatcher(native: Native) -> Any:
    """Numba's function for one of ours."""
    options = dict(native.options)
    cached, key = options.pop("cache", True), options.pop("key", "")
    made: Any = numba.njit(native.py_func, **options)
    # Sources do not say what is in a closure, and a notebook has none.
    known = (key or native.py_func.__closure__ is None) and sources.files(native.py_func.__module__)
    made._cache = _Stored(made, key, NATIVE_CACHE if cached and known else None)
    return made


def type_of(intrinsic: Any) -> Any:
    """The type of an object of Numba's."""
    typing: Any = cpu_target.typing_context
    typing.refresh()
    return typing.resolve_value_type(intrinsic)


@dataclass
class CachedFunctions:
    """Of cached functions in this process: how many were used, and how many of them compiled."""

    used: int = 0
    compiled: int = 0


CACHED_FUNCTIONS = CachedFunctions()


class _Stored(caching._Cache):  # pyright: ignore[reportPrivateUsage]
    """What Numba asks before it compiles a function, and tells after that."""

    def __init__(self, made: Any, key: str, cache: Cache | None) -> None:
        self._module, self._name, self._key = made.__module__, made.__name__, key
        self._cache = cache

    @property
    def cache_path(self) -> str | None:
        try:
            return str(self._cache.folder().path) if self._cache is not None else None
        except OSError:  # there is nowhere
            return None

    def enable(self) -> None:
        pass

    def disable(self) -> None:
        self._cache = None

    def flush(self) -> None:
        pass

    def _files(self, sig: Any) -> list[str]:
        """Names under which it may be: what is compiled here has the first one."""
        settings = [getattr(config, name, None) for name in _SETTINGS]
        about = (sources.digest(self._module), self._key, repr(getattr(sig, "args", sig)), settings, _VERSIONS)
        keys = [hashlib.sha256(repr((*about, cpu)).encode()).hexdigest()[:40] for cpu in objects.processors()]
        return [f"{self._module}.{self._name}-{key}" for key in keys]

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        """A compiled function from disk; None: compile it."""
        target_context.refresh()
        if self._cache is None:
            return None
        CACHED_FUNCTIONS.used += 1
        data = stored(self._files(sig))
        if data is None:
            CACHED_FUNCTIONS.compiled += 1
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(data))
        except Exception as error:
            _log.debug("%s is compiled anew: %r", self._name, error)
            return None

    def save_overload(self, sig: Any, data: CompileResult) -> None:
        """Keeps a compiled function, unless it holds addresses of this process."""
        if self._cache is None or data.library.has_dynamic_globals or any(not one.can_cache for one in data.lifted):
            return
        self._cache.put(self._files(sig)[0], serialize.dumps(data._reduce()))
