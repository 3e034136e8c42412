# SPDX-License-Identifier: Apache-2.0
"""Object files are loaded as LLVM's loader does, or refused; what is damaged is told."""

from __future__ import annotations

import ctypes
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest

from detour.base.errors import InternalError
from detour.base.jit import COMPILED
from detour.base.native import NativeCode, elf, objects, parts
from detour.base.native.elf import LoadedObject, UnsupportedObject
from detour.base.native.parts import stored
from detour.engine.compiler.program import Program
from detour.fabric.warm import ALL_PARTS

pytestmark = pytest.mark.timeout(1800)  # it compiles, on a machine that may be busy
_ROOT = Path(__file__).resolve().parents[4]
_PROGRAMS = sorted(
    path
    for folder in ("tests/programs", "detour/p4src/build")
    for path in (_ROOT / folder).rglob("*.json")
    if "pipelines" in json.loads(path.read_text())
)
_SQUARE = """
@squares = internal constant [4 x i64] [i64 0, i64 1, i64 4, i64 9]
define i64 @square(i64 %n) {
  %at = getelementptr [4 x i64], ptr @squares, i64 0, i64 %n
  %value = load i64, ptr %at
  ret i64 %value
}
"""
_OF_EACH_THREAD = """
@mine = thread_local global i64 1
define ptr @place() {
  ret ptr @mine
}
"""
_SAMPLE = (
    _SQUARE
    + """@calls = internal constant [2 x ptr] [ptr @square, ptr @power]
@count = internal global i64 40
@zeros = internal global [8 x i64] zeroinitializer, align 64
@shared = common global i64 0, align 8

declare double @pow(double, double)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define i64 @power(i64 %n) {
  %x = sitofp i64 %n to double
  %y = call double @pow(double %x, double 3.0)
  %value = fptosi double %y to i64
  ret i64 %value
}
define i64 @either(i64 %which, i64 %n) {
  %at = getelementptr [2 x ptr], ptr @calls, i64 0, i64 %which
  %callee = load ptr, ptr %at
  %value = call i64 %callee(i64 %n)
  ret i64 %value
}
define i64 @counted() {
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  %more = load i64, ptr @shared
  %most = add i64 %more, 100
  store i64 %most, ptr @shared
  %sum = add i64 %new, %most
  ret i64 %sum
}
define i64 @filled(i64 %byte, i64 %size) {
  %small = trunc i64 %byte to i8
  call void @llvm.memset.p0.i64(ptr @zeros, i8 %small, i64 %size, i1 false)
  %at = getelementptr [8 x i64], ptr @zeros, i64 0, i64 1
  %value = load i64, ptr %at
  ret i64 %value
}
define i64 @aligned() {
  %value = ptrtoint ptr @zeros to i64
  %rest = and i64 %value, 63
  ret i64 %rest
}
"""
)


def _machine(codemodel: str, reloc: str) -> Any:
    return llvm.Target.from_default_triple().create_target_machine(codemodel=codemodel, reloc=reloc)


def _call(code: Any, name: str, *arguments: int) -> int:
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(arguments))
    return kind(code.address(name))(*arguments)


def test_constants_variables_calls_and_tables_of_functions() -> None:
    code = LoadedObject(objects.to_object(_SAMPLE))
    assert [_call(code, "square", n) for n in range(4)] == [0, 1, 4, 9]
    assert _call(code, "power", 5) == 125
    assert [_call(code, "either", which, 3) for which in (0, 1)] == [9, 27]
    assert [_call(code, "counted") for _ in range(2)] == [41 + 100, 42 + 200]
    assert _call(code, "filled", 1, 64) == 0x0101010101010101
    assert _call(code, "filled", 2, 8) == 0x0101010101010101
    assert _call(code, "aligned") == 0
    assert code.address("absent") == code.address("pow") == 0


def _protection(address: int) -> str | None:
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(each, 16) for each in line.split()[0].split("-"))
        if first <= address < last:
            return line.split()[1]
    return None


def test_code_cannot_be_written_and_goes_with_its_object() -> None:
    code = LoadedObject(objects.to_object(_SAMPLE))
    address = code.address("square")
    assert _protection(address) == "r-xp"
    del code
    assert _protection(address) != "r-xp"


# -- beside LLVM's loader


def _read(address: int, size: int) -> bytes:
    return ctypes.string_at(address, size)


class _Loaded:
    """One file, loaded both ways: sections that begin at `here` and at `there` are to be the same but for addresses."""

    def __init__(self, data: bytes) -> None:
        self.file: Any = elf.Image(data)
        self.ours = LoadedObject(data)
        objects.to_object("")  # LLVM knows this machine
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine("jitdefault", "static"))
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()
        self.sections: dict[int, tuple[int, int]] = {}
        self.commons: dict[int, tuple[int, int]] = {}
        self.compared = 0

    def compare(self) -> None:
        functions = [one for one in self.file.symbols if one.info & 15 == 2 and one.section and one.info >> 4]
        assert functions
        for symbol in functions:
            name = self.file.name(symbol)
            here, there = (find(name) - symbol.value for find in (self.ours.address, self._engine.get_function_address))
            assert self.sections.setdefault(symbol.section, (here, there)) == (here, there)
        pending = list(self.sections)
        while pending:
            kept = dict(self.sections)
            self._section(pending.pop())
            pending += self.sections.keys() - kept.keys()

    def _section(self, number: int) -> None:
        section = self.file.sections[number]
        here, there = (bytearray(_read(address, section.size)) for address in self.sections[number])
        for relocations in self.file.sections:
            if relocations.type == 4 and relocations.info == number:
                for offset, _, symbol, addend in struct.iter_unpack("<QIIq", self.file.read(relocations)):
                    self._target(symbol, addend, *(struct.unpack_from("<Q", one, offset)[0] for one in (here, there)))
                    here[offset : offset + 8] = there[offset : offset + 8] = bytes(8)
        assert here == there
        self.compared += section.size

    def _target(self, number: int, addend: int, here: int, there: int) -> None:
        symbol = self.file.symbols[number]
        if symbol.section == 0:
            # Numba, once it is loaded, gives LLVM functions of its own in place of some of C's library.
            assert here == there or "numba" in sys.modules
        elif symbol.section == 0xFFF2:
            assert self.commons.setdefault(number, (here, there)) == (here, there)
        else:
            begins = (here - addend - symbol.value, there - addend - symbol.value)
            assert self.sections.setdefault(symbol.section, begins) == begins


def test_the_comparison_sees_the_sample() -> None:
    loaded = _Loaded(objects.to_object(_SAMPLE))
    loaded.compare()
    assert loaded.compared > 200
    assert len(loaded.sections) >= 4
    assert len(loaded.commons) == 1


@pytest.mark.skipif(not COMPILED, reason="NUMBA_DISABLE_JIT is set")
@pytest.mark.parametrize("part", ALL_PARTS, ids=lambda part: part.name)
def test_parts_are_in_memory_as_with_llvm(part: parts.Part) -> None:
    part.load()
    data = stored(part.files)
    assert data is not None
    loaded = _Loaded(data)
    loaded.compare()
    assert loaded.compared > 100
    assert all(loaded.ours.address(f"detour_{name}") for name in part.entries)


@pytest.mark.parametrize("path", _PROGRAMS, ids=lambda path: path.stem)
def test_programs_are_in_memory_as_with_llvm(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data: list[bytes] = []

    def kept(content: bytes) -> NativeCode:
        data.append(content)
        return NativeCode(content)

    monkeypatch.setattr("detour.engine.compiler.native.NativeCode", kept)
    Program.from_json(path)
    (content,) = data
    loaded = _Loaded(content)
    loaded.compare()
    assert loaded.compared > 100


# -- what is refused


def _emitted(text: str, codemodel: str) -> bytes:
    objects.to_object(text)  # LLVM knows this machine
    return _machine(codemodel, "pic").emit_object(llvm.parse_assembly(text))


def _for_arm(data: bytes) -> bytes:
    return data[:18] + b"\xb7" + data[19:]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (lambda: _emitted(_SQUARE, "small"), "a relocation of type"),
        (lambda: _emitted(_OF_EACH_THREAD, "large"), "a relocation of type"),
        (
            lambda: _emitted(_SQUARE, "large")[:18] + b"\xb7" + _emitted(_SQUARE, "large")[19:],
            "an object file for aarch64",
        ),
        (lambda: objects.to_object(_SAMPLE.replace("@pow(", "@no_such_function(")), "no_such_function"),
    ],
    ids=["relocation", "thread", "machine", "symbol"],
)
def test_it_says_what_it_does_not_know(data: Callable[[], bytes], why: str) -> None:
    with pytest.raises(UnsupportedObject, match=why):
        LoadedObject(data())


_ARM = "aarch64-unknown-linux-gnu"


def test_relocations_of_aarch64(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address in four instructions; a call of the C library by way of a trampoline; tables of functions."""
    monkeypatch.setenv(objects.TARGET, _ARM)
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    # LLVM addresses variables of other files by a table that this loader has not; native code has none.
    sample = _SAMPLE.replace("@shared = common", "@shared = internal")
    image, base = elf.Image(objects.to_object(sample)), 0x123456789000
    functions = image.relocate(base)

    def words(name: str, count: int) -> list[int]:
        return list(struct.unpack_from(f"<{count}I", image.content, functions[name] - base))

    moves = [word for word in words("square", 8) if word >> 24 in (0xF2, 0xD2)]
    squares = sum((word >> 5 & 0xFFFF) << 16 * (word >> 21 & 3) for word in moves)
    assert struct.unpack_from("<4Q", image.content, squares - base) == (0, 1, 4, 9)
    ((at, branch),) = [(at, word) for at, word in enumerate(words("power", 16)) if word >> 26 in (0x25, 0x05)]
    distance = ((branch & 0x3FFFFFF) ^ 0x2000000) - 0x2000000
    trampoline = functions["power"] - base + 4 * (at + distance)
    load, jump, pow_at = struct.unpack_from("<IIQ", image.content, trampoline)
    assert (load, jump) == (0x58000050, 0xD61F0200), "ldr x16, .+8; br x16"
    libm: Any = ctypes.CDLL(None)
    assert pow_at == ctypes.cast(libm.pow, ctypes.c_void_p).value
    assert trampoline < image.code
    assert bytes(image.content).count(struct.pack("<QQ", functions["square"], functions["power"])) == 1


def test_what_it_does_not_know_is_loaded_by_llvm() -> None:
    assert [_call(NativeCode(_emitted(_SQUARE, "small")), "square", n) for n in range(4)] == [0, 1, 4, 9]
    with pytest.raises(KeyError, match="absent"):
        NativeCode(_emitted(_SQUARE, "small")).address("absent")


def test_a_file_that_was_cut_is_refused_wherever_it_ends() -> None:
    data = objects.to_object(_SAMPLE)
    for size in range(len(data)):
        with pytest.raises(InternalError, match="loading an object file"):
            NativeCode(data[:size])


# -- what it is for


def test_processors_are_known_without_llvm() -> None:
    """And a wheel's code is taken where LLVM says that it runs."""
    code = "import sys; from detour.base.native import processors; print('llvmlite' in sys.modules, processors())"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.startswith("False ")
    features = llvm.get_host_cpu_features()
    runs = all(features.get(name) for name in ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"))
    assert (objects.BASELINE in output) == runs
