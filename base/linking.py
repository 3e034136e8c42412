# SPDX-License-Identifier: Apache-2.0
"""Links, optimises and emits native code once for each function that is called from outside of native code.

Numba finishes every function: it links the finished modules of all that the function calls into it, optimises the
result and generates machine code, at each level of the call tree. Here a function that has no wrapper for Python keeps
only its own IR. A function that has one links the IR of everything that it reaches, once; only that is optimised and
emitted. (Numba's pull request 9566 proposed the same.)
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core import codegen


class OneLink(codegen.JITCodeLibrary):  # pyright: ignore[reportPrivateImportUsage]
    """A library that is finished only where something in it is called from outside of native code."""

    _source: Any = None
    """its own IR before anything was linked into it"""

    def add_linking_library(self, library: Any) -> None:
        self._linking_libraries.append(library)

    def get_pointer_to_function(self, name: str) -> int:
        if not self._finalized and not self._defines(name):
            return 0
        return super().get_pointer_to_function(name)

    def _defines(self, name: str) -> bool:
        try:
            return not self._final_module.get_function(name).is_declaration
        except NameError:
            return False

    def finalize(self) -> None:
        self._codegen._check_llvm_bugs()
        self._raise_if_finalized()
        self._source = _for_linking(self._final_module)
        self._link()
        self._finalize_final_module()

    def emit(self) -> bytes:
        """The object file of what it reaches; the library is not to be used in this process."""
        self._link()
        return self._codegen._tm.emit_object(self._final_module)

    def _link(self) -> None:
        for library in self._reached():
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._source_for_linking(), preserve=True)
        self._optimize_final_module()
        self._final_module.verify()

    def _reached(self) -> list[Any]:
        """Every library that code of this one may call, directly or not, once."""
        seen: dict[Any, None] = {}
        pending = list(self._linking_libraries)
        while pending:
            library = pending.pop()
            if library is not self and library not in seen:
                seen[library] = None
                pending += library._linking_libraries
        return list(seen)

    def _source_for_linking(self) -> Any:
        """What a caller links. Of a library from the cache this is everything that it reaches as well."""
        if self._source is None:
            self._source = self._shared_module if self._finalized else _for_linking(self._final_module)
        return self._source


def _for_linking(module: Any) -> Any:
    """A copy whose functions may be defined more than once, and are dropped where nothing calls them."""
    module = module.clone()
    for function in module.functions:
        if not function.is_declaration and function.linkage == llvm.Linkage.external:
            function.linkage = "linkonce_odr"
    return module


class _CodeGenerator(codegen.JITCPUCodegen):  # pyright: ignore[reportPrivateImportUsage]
    _library_class = OneLink

    def set_env(self, env_name: str, env: Any) -> None:
        """Tells code which Python objects it uses. (Code that was not emitted has no place for them, and nothing of
        detour's that only native code calls uses any.)"""
        if self._engine.is_symbol_defined(env_name):
            super().set_env(env_name, env)


def install() -> None:
    """Lets Numba's CPU target, which no function has used yet, link this way."""
    codegen.JITCPUCodegen = _CodeGenerator  # pyright: ignore[reportPrivateImportUsage]
