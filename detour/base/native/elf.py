# SPDX-License-Identifier: Apache-2.0
"""Loads object files (ELF for x86-64 and AArch64) without LLVM, which takes 46 MiB and a twentieth of a second to be
there.

Code for addresses of 64 bits, which is what LLVM makes for a process that runs, has few kinds of relocation: the
absolute address; on AArch64 also its quarters in four instructions, and branches. What has others, or is for another
machine, is refused. Nothing unwinds through native code, so `.eh_frame` is left out. Formats: System V ABI, "Object
Files"; its AMD64 supplement, section 4.4; ELF for the Arm 64-bit Architecture, section 5.7.
"""

from __future__ import annotations

import ctypes
import os
import struct
import weakref
from collections import namedtuple
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, PROT_EXEC, PROT_READ, PROT_WRITE
from typing import Any

from detour.base.errors import InternalError

_Section = namedtuple("_Section", "name type flags address offset size link info alignment entry_size")
_Symbol = namedtuple("_Symbol", "name info other section value size")
_SYMBOLS, _RELOCATIONS, _ZEROS = 2, 4, 8  # types of sections
_WRITE, _ALLOC = 1, 2  # flags of sections
_UNDEFINED, _COMMON = 0, 0xFFF2  # in place of a symbol's section: elsewhere in the process; memory to be made for it
_FUNCTION = 2  # type of symbols
_MACHINES = {62: "x86_64", 183: "aarch64"}
_ADDRESS = {"x86_64": 1, "aarch64": 257}  # types of relocations: R_X86_64_64, R_AARCH64_ABS64
_QUARTERS = {264: 0, 266: 16, 268: 32, 269: 48}  # R_AARCH64_MOVW_UABS_G0_NC to _G3: from which bit on
_BRANCHES = (282, 283)  # R_AARCH64_JUMP26, R_AARCH64_CALL26: of 128 MiB at most
_TRAMPOLINE = bytes.fromhex("50000058 00021fd6")  # ldr x16, .+8; br x16; behind it the address

_process: Any = ctypes.CDLL(None, use_errno=True)
_process.mmap.restype = ctypes.c_ssize_t


class UnsupportedObject(Exception):
    """An object file that this loader is not for."""


class LoadedObject:
    """An object file in memory for as long as this lives: code and constants, then pages that can be written.

    Raises `UnsupportedObject` (another loader may know it), `InternalError` (it is damaged), `OSError` (no memory).
    """

    def __init__(self, data: bytes) -> None:
        try:
            image = Image(data)
            if image.machine != os.uname().machine:
                raise UnsupportedObject(f"an object file for {image.machine}")
            base = self._reserve(ctypes.c_size_t(len(image.content)))
            self._functions = image.relocate(base)
        except (struct.error, LookupError, ValueError) as error:
            raise InternalError.of("loading an object file", error) from error
        ctypes.memmove(base, bytes(image.content), len(image.content))
        _checked(_process.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(image.code), PROT_READ | PROT_EXEC))

    def _reserve(self, size: ctypes.c_size_t) -> int:
        kind = MAP_PRIVATE | MAP_ANONYMOUS
        base = _checked(_process.mmap(None, size, PROT_READ | PROT_WRITE, kind, -1, ctypes.c_long(0)))
        # Not at exit: other threads may still run it.
        weakref.finalize(self, _process.munmap, ctypes.c_void_p(base), size).atexit = False
        return base

    def address(self, name: str) -> int:
        """Return where a function begins; 0 if there is none."""
        return self._functions.get(name, 0)


class Image:
    """The content of an object file and its layout in memory: `content`, whose first `code` bytes are read-only."""

    def __init__(self, data: bytes) -> None:
        magic, *kind, machine = struct.unpack_from("<4s2s10xHH", data)
        if magic != b"\x7fELF":
            raise ValueError("no object file")
        if kind != [b"\x02\x01", 1] or machine not in _MACHINES:  # 64 bits, the lowest byte first; relocatable
            raise UnsupportedObject("no object file for x86-64 or AArch64")
        self.machine = _MACHINES[machine]
        self._data, self.content = data, bytearray()
        (at,), (size, count, names) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HHH", data, 58)
        headers = (struct.unpack_from("<IIQQQQIIQQ", data, at + size * each) for each in range(count))
        self.sections = [_Section(*header) for header in headers]
        (table,) = (each for each in self.sections if each.type == _SYMBOLS)
        self.symbols = [_Symbol(*entry) for entry in struct.iter_unpack("<IBBHQQ", self.read(table))]
        self._names = self.read(self.sections[table.link])
        titles = self.read(self.sections[names])
        self._places: dict[Any, int] = {}  # of sections by their number, of common symbols and of trampolines
        for flags in (_ALLOC, _ALLOC | _WRITE):
            self.code = self._append(b"", PAGESIZE)
            for number, each in enumerate(self.sections):
                unwinding = titles.startswith(b".eh_frame\0", each.name)
                if each.flags & (_ALLOC | _WRITE) == flags and not unwinding:
                    self._places[number] = self._append(self.read(each), each.alignment)
            if flags == _ALLOC and self.machine == "aarch64":
                for symbol in self.symbols:
                    if symbol.section == _UNDEFINED and symbol.name:
                        self._places[symbol] = self._append(_TRAMPOLINE + bytes(8), 8)
        for symbol in self.symbols:
            if symbol.section == _COMMON:
                self._places[symbol] = self._append(bytes(symbol.size), symbol.value)

    def read(self, section: _Section) -> bytes:
        end = section.offset + section.size
        return bytes(section.size) if section.type == _ZEROS else self._data[section.offset : end]

    def name(self, symbol: _Symbol) -> str:
        return self._names[symbol.name : self._names.index(0, symbol.name)].decode()

    def _append(self, content: bytes, alignment: int) -> int:
        """Return where it begins."""
        self.content += bytes(-len(self.content) % max(alignment, 1)) + content
        return len(self.content) - len(content)

    def relocate(self, base: int) -> dict[str, int]:
        """Fill in addresses, for an image that begins at `base`; return those of functions by name."""
        for section in self.sections:
            if section.type == _RELOCATIONS and section.info in self._places:
                for offset, kind, symbol, addend in struct.iter_unpack("<QIIq", self.read(section)):
                    self._fill(self._places[section.info] + offset, kind, self.symbols[symbol], addend, base)
        functions = (each for each in self.symbols if each.info & 15 == _FUNCTION and each.section != _UNDEFINED)
        return {self.name(each): self._address(each, base) for each in functions}

    def _fill(self, at: int, kind: int, symbol: _Symbol, addend: int, base: int) -> None:
        """One relocation."""
        target = (self._address(symbol, base) + addend) % (1 << 64)
        if kind == _ADDRESS[self.machine]:
            struct.pack_into("<Q", self.content, at, target)
        elif self.machine == "aarch64" and kind in _QUARTERS:
            self._add_to_instruction(at, ((target >> _QUARTERS[kind]) & 0xFFFF) << 5)
        elif self.machine == "aarch64" and kind in _BRANCHES:
            if symbol.section == _UNDEFINED:
                struct.pack_into("<Q", self.content, self._places[symbol] + len(_TRAMPOLINE), target)
                target = base + self._places[symbol]
            self._add_to_instruction(at, ((target - base - at) >> 2) & 0x3FFFFFF)
        else:
            raise UnsupportedObject(f"a relocation of type {kind}")

    def _add_to_instruction(self, at: int, bits: int) -> None:
        (instruction,) = struct.unpack_from("<I", self.content, at)
        struct.pack_into("<I", self.content, at, instruction | bits)

    def _address(self, symbol: _Symbol, base: int) -> int:
        if symbol.section == _COMMON:
            return base + self._places[symbol]
        if symbol.section != _UNDEFINED:
            return base + self._places[symbol.section] + symbol.value
        name = self.name(symbol)
        try:
            return ctypes.cast(_process[name], ctypes.c_void_p).value or 0
        except AttributeError:
            raise UnsupportedObject(f"this process has no {name}") from None


def _checked(result: int) -> int:
    if result == -1:
        raise OSError(ctypes.get_errno(), f"native code gets no memory: {os.strerror(ctypes.get_errno())}")
    return result
