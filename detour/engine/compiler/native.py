# SPDX-License-Identifier: Apache-2.0
"""IR text to callable machine code, with a cache of object files on disk."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from detour.base.errors import DetourError, InternalError
from detour.base.jit import cache_dir

_DIGEST = 32


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
    here = Path(__file__).resolve().parent
    for path in sorted([*here.glob("*.py"), here.parent / "phv.py", here.parent / "tables" / "log.py"]):
        digest.update(path.read_bytes())
    return digest.digest()


def cache_path(key: bytes) -> Path:
    """Where the object file of a program with that JSON text is kept."""
    name = hashlib.sha256(_source_digest() + key).hexdigest()[:32]
    return cache_dir() / "programs" / name


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


def cached(path: Path, make: Callable[[], bytes]) -> bytes:
    """The content of a cache file, which is made if it is missing or damaged."""
    try:
        stored = path.read_bytes()
    except OSError:
        stored = b""
    if stored and hashlib.sha256(stored[_DIGEST:]).digest() == stored[:_DIGEST]:
        return stored[_DIGEST:]
    data = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Another process may write the same file; a rename is atomic.
        handle, spare = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as f:
            f.write(hashlib.sha256(data).digest() + data)
        Path(spare).replace(path)
    except OSError:
        pass  # a cache that cannot be written costs time, nothing else
    return data
