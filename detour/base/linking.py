# SPDX-License-Identifier: Apache-2.0
"""Numba, as detour uses it. `install` lets it link once: native code of a part is linked and optimised as a whole.

Numba finishes every function: it links the finished modules of all that the function calls into it, optimises the
result and generates machine code, at each level of the call tree. With `install` a function keeps only its own IR, and
an object links the IR of everything that it reaches, once. (Numba's pull request 9566 proposed the same.) It is for
processes in which nothing that Numba compiles is run; without it objects do the same, and take longer to make.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import codegen, errors, types
from numba.core.registry import cpu_target

from detour.base.errors import DetourError
from detour.base.jit import Native, no_field
from detour.base.places import PACKAGE

NumbaError = errors.NumbaError
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PLACE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)|at (?P<file_>/.+?) \((?P<line_>\d+)\)')


def context() -> Any:
    """Return the context of Numba's target, which is this processor."""
    return cpu_target.target_context


def dispatcher(native: Native) -> Any:
    """Numba's function for one of ours."""
    return numba.njit(native.py_func, **native.options)


def syntax_error(error: NumbaError, otherwise: tuple[str, int]) -> SyntaxError:
    """What Numba says of a function that it cannot compile, in one line, with the innermost place that is not detour's
    own, or `otherwise`."""
    plain = _COLOUR.sub("", str(error))
    lines = [line.strip() for line in plain.splitlines()]
    text = next((line for line in lines if line and not line.startswith("Failed in ")), "it cannot be compiled")
    places = [(m["file"] or m["file_"], int(m["line"] or m["line_"])) for m in _PLACE.finditer(plain)]
    files = [(os.path.abspath(file), line) for file, line in places]
    file, line = next((one for one in files if not Path(one[0]).is_relative_to(PACKAGE)), otherwise)
    return SyntaxError(text, (file, line, None, None))


def _field_type(record: Any, name: str) -> Any:
    """In place of Numba's, which raises a KeyError without the place."""
    if name not in record.fields:
        raise errors.TypingError(no_field(name, record.fields))
    return record.fields[name].type


_record: Any = types.Record
_record.typeof = _field_type


def type_of(intrinsic: Any) -> Any:
    """The type of an object of Numba's."""
    typing: Any = cpu_target.typing_context
    typing.refresh()
    return typing.resolve_value_type(intrinsic)


def reached(library: Any) -> list[Any]:
    """Every library that code of this one may call, directly or not, once."""
    seen: dict[Any, None] = {}
    pending = list(library._linking_libraries)
    while pending:
        one = pending.pop()
        if one is not library and one not in seen:
            seen[one] = None
            pending += one._linking_libraries
    return list(seen)


def object_of(library: Any) -> bytes:
    """The object file of all that a library reaches; it is not to be used in this process. Raises `DetourError`: it
    needs something that only Numba has."""
    for one in reached(library):
        library._final_module.link_in(one._get_module_for_linking(), preserve=True)
    library._optimize_final_module()
    library._final_module.verify()
    declared = [one.name for one in library._final_module.functions if one.is_declaration]
    missing = [name for name in declared if name.startswith(("NRT_", "numba_"))]
    if missing:
        raise DetourError(
            f"{library.name} needs {', '.join(missing)}, which only Numba has: arrays assigned to slices and the axes"
            " of sums bring errors in words (see detour/control/native.py)"
        )
    return library._codegen._tm.emit_object(library._final_module)


class _OneLink(codegen.JITCodeLibrary):  # pyright: ignore[reportPrivateImportUsage]
    """A library that is never finished."""

    _source: Any = None
    """its own IR, for what links it"""

    def add_linking_library(self, library: Any) -> None:
        self._linking_libraries.append(library)

    def get_pointer_to_function(self, name: str) -> int:
        return super().get_pointer_to_function(name) if self._finalized else 0

    def _get_module_for_linking(self) -> Any:
        """Return its IR. Functions may be defined more than once, and are dropped where nothing calls them."""
        if self._source is None:
            self._source = self._final_module.clone()
            for function in self._source.functions:
                if not function.is_declaration and function.linkage == llvm.Linkage.external:
                    function.linkage = "linkonce_odr"
        return self._source


class _CodeGenerator(codegen.JITCPUCodegen):  # pyright: ignore[reportPrivateImportUsage]
    _library_class = _OneLink

    def set_env(self, env_name: str, env: Any) -> None:
        """Would tell code which Python objects it uses."""


def install() -> None:
    """Lets Numba's CPU target, which no function has used yet, link this way."""
    codegen.JITCPUCodegen = _CodeGenerator  # pyright: ignore[reportPrivateImportUsage]
