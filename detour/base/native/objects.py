# SPDX-License-Identifier: Apache-2.0
"""The text of a module to an object file for this machine, with LLVM; object files to functions, where they can be
loaded (`elf`) without it.

Also a program of its own (`engine.compiler.native.compile_apart`): LLVM cannot be interrupted, takes what memory it
wants and ends its process when there is none, so what strangers send is compiled in a child under limits. That is why
the child needs nothing of detour: it starts in a tenth of a second.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import takewhile
from typing import Any

# The order of LLVM's own pipeline, less what takes most of its time and gains nothing for this code: the generator
# folds constants, and the loops are few and short. With all of it (-O2) programs take six times as long to optimise.
_PASSES = ("sroa", "simplify_cfg", "instruction_combine", "mem_copy_opt", "dead_store_elimination", "simplify_cfg")
INVALID, NO_MEMORY = 3, 4
"""Exit codes of the child: LLVM refused the text; there was no memory."""
COMPILER = __file__
"""the child"""


@cache
def _llvm() -> Any:
    """LLVM, which knows this machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def _target_machine() -> Any:
    """This machine, for code that is loaded right away; or `TARGET`."""
    llvm, chosen = _llvm(), os.environ.get("NUMBA_CPU_NAME")
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    if chosen:
        cpu, features = chosen, os.environ.get("NUMBA_CPU_FEATURES", "")
    return _target().create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="static", codemodel="jitdefault", jit=True
    )


TARGET = "DETOUR_TARGET"
"""environment variable: the triple of another machine (`aarch64-unknown-linux-gnu`) that objects are made for, with
`NUMBA_CPU_NAME`"""


def _target() -> Any:
    llvm, triple = _llvm(), os.environ.get(TARGET)
    if not triple:
        return llvm.Target.from_default_triple()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(triple)


def other_machine() -> Any:
    """LLVM's machine for `TARGET`; None: objects are made for this one."""
    return _target_machine() if os.environ.get(TARGET) else None


def _machine() -> tuple[str, str]:
    architecture, *rest = (os.environ.get(TARGET) or f"{os.uname().machine}-pc-{sys.platform}").split("-")
    return architecture, rest[1]


MACHINE = _machine()
"""architecture and operating system that objects are made for, as this machine's are called"""
BASELINE = {"x86_64": "x86-64-v3"}.get(MACHINE[0], "generic")
"""the processor that a wheel's code is made for; x86-64-v3: AVX2 and FMA, Intel since 2013, AMD since 2015"""
# What LLVM goes by, in Linux's words; `abm` has lzcnt.
_BASELINE_FLAGS = {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"} if BASELINE != "generic" else set[str]()
_PROCESSOR = {
    "x86_64": ("vendor_id", "cpu family", "model", "stepping", "flags"),
    "aarch64": ("CPU implementer", "CPU variant", "CPU part", "CPU revision", "Features"),
}  # fmt: skip


def processors() -> list[tuple[str, str]]:
    """Names and features of processors whose code runs here: what code is made for, then a wheel's if it does."""
    chosen = os.environ.get("NUMBA_CPU_NAME")
    if chosen:
        return [(chosen, os.environ.get("NUMBA_CPU_FEATURES", ""))]
    *names, features = _processor()
    here = ("-".join(names), features)
    return [here, (BASELINE, "")] if set(features.split()) >= _BASELINE_FLAGS else [here]


@cache
def _processor() -> list[str]:
    """Return the name of this processor, then its features. Ask LLVM, which is slow to load, only where Linux does not
    say."""
    with suppress(OSError, KeyError), open("/proc/cpuinfo") as file:
        lines = (line.partition(":") for line in takewhile(str.strip, file))  # of the first one
        about = {name.strip(): value.strip() for name, _, value in lines}
        return [about[name] for name in _PROCESSOR[MACHINE[0]]]
    return [_llvm().get_host_cpu_name(), _llvm().get_host_cpu_features().flatten()]


class NativeCode:
    """A loaded object file: addresses of its functions. It must live as long as anything calls them."""

    def __init__(self, data: bytes) -> None:
        from detour.base.native import elf

        try:
            self._find: Callable[[str], int] = elf.LoadedObject(data).address
        except elf.UnsupportedObject:
            engine = _llvm().create_mcjit_compiler(_llvm().parse_assembly(""), _target_machine())
            engine.add_object_file(_llvm().ObjectFileRef.from_data(data))
            engine.finalize_object()
            self._find = engine.get_function_address

    def address(self, name: str) -> int:
        """Return where a function begins; KeyError if there is none."""
        address = self._find(name)
        if not address:
            raise KeyError(f"the object file has no function {name}")
        return address


def to_object(text: str) -> bytes:
    """Optimise a module and return its object file. RuntimeError if LLVM refuses the text."""
    llvm, machine = _llvm(), _target_machine()
    module = llvm.parse_assembly(text)
    module.verify()
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    for name in _PASSES:
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)
    return machine.emit_object(module)


def _main() -> int:
    """The child: limits as arguments (seconds of processor time, bytes of memory), a module in, an object file out."""
    seconds, memory = (int(each) for each in sys.argv[1:])
    _llvm()  # before the limits: what lacks memory for its library does not say so
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 2))
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY or memory < most:
        resource.setrlimit(resource.RLIMIT_AS, (memory, most))
    try:
        data = to_object(sys.stdin.buffer.read().decode())
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return INVALID
    except MemoryError:
        return NO_MEMORY
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(_main())
