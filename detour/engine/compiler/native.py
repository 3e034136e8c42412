# SPDX-License-Identifier: Apache-2.0
"""IR text to callable machine code, with a cache of object files on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from detour.base import fingerprint
from detour.base.cache import Cache
from detour.base.errors import DetourError, InternalError

_programs = Cache("programs")


@cache
def _start_llvm() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def _source_digest() -> bytes:
    """Of everything that decides what code comes out, but for the program itself."""
    _start_llvm()
    digest = hashlib.sha256(f"llvmlite {llvmlite.__version__} {llvm.llvm_version_info}".encode())
    digest.update(f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}".encode())
    for path in _sources():
        digest.update(path.read_bytes())
    return digest.digest()


@cache
def _sources() -> list[Path]:
    here = Path(__file__).resolve().parent
    return sorted([*here.glob("*.py"), here.parent / "phv.py", here.parent / "tables" / "log.py"])


@cache
def _modules() -> list[str]:
    """Their names; `detour.engine.compiler.native`, say."""
    top = Path(__file__).resolve().parents[3]
    names = [".".join(path.relative_to(top).with_suffix("").parts) for path in _sources()]
    return [name for name in names if not name.endswith("__init__")]


def cache_name(key: bytes) -> str:
    """Under which name the object file of a program with that JSON text is kept."""
    live = fingerprint.of_modules(_modules())  # what a test or a user has replaced counts as well
    return hashlib.sha256(_source_digest() + live + key).hexdigest()[:32]


def _target_machine() -> Any:
    _start_llvm()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="static",
        codemodel="jitdefault",
        jit=True,
    )


def compile_ir(text: str, level: int = 2) -> bytes:
    """Optimises a module and returns its object file."""
    machine = _target_machine()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as e:
        raise InternalError.of("compiling a P4 program (invalid IR)", e) from e
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


class Code:
    """A loaded object file: addresses of its functions. It must live as long as anything calls them."""

    def __init__(self, data: bytes) -> None:
        machine = _target_machine()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function begins."""
        address = self._engine.get_function_address(name)
        if not address:
            raise DetourError(f"the object file has no function {name}")
        return address


def cached(name: str, make: Callable[[], bytes]) -> bytes:
    """What is stored under that name, which is made if it is missing or damaged."""
    stored = _programs.get(name)
    if stored is not None:
        return stored
    data = make()
    _programs.put(name, data)
    return data
