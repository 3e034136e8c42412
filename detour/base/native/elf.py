# SPDX-License-Identifier: Apache-2.0
"""Loads object files (ELF for x86-64) without LLVM, which takes 46 MiB and a twentieth of a second to be there.

Code for addresses of 64 bits, which is what LLVM makes for a process that runs, has one kind of relocation: the
absolute address. What has others, or is for another machine, is refused. Nothing unwinds through native code, so
`.eh_frame` is left out. Formats: System V ABI, "Object Files"; its AMD64 supplement, section 4.4.
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
_SYMBOLS, _RELOCATIONS, _ZEROS, _UNWIND = 2, 4, 8, 0x70000001  # types of sections
_WRITE, _ALLOC = 1, 2  # flags of sections
_UNDEFINED, _COMMON = 0, 0xFFF2  # in place of a symbol's section: elsewhere in the process; memory to be made for it
_FUNCTION, _R_X86_64_64 = 2, 1  # types of symbols, of relocations

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
            image = _Image(data)
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
        """Where a function begins; 0 if there is none."""
        return self._functions.get(name, 0)


class _Image:
    """The content of an object file and its layout in memory: `content`, whose first `code` bytes are read-only."""

    def __init__(self, data: bytes) -> None:
        magic, *kind = struct.unpack_from("<4s2s10xHH", data)
        if magic != b"\x7fELF":
            raise ValueError("no object file")
        if kind != [b"\x02\x01", 1, 62]:  # 64 bits, the lowest byte first; relocatable; x86-64
            raise UnsupportedObject("no object file for x86-64")
        self._data, self.content = data, bytearray()
        (at,), (size, count) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HH", data, 58)
        headers = (struct.unpack_from("<IIQQQQIIQQ", data, at + size * each) for each in range(count))
        self.sections = [_Section(*header) for header in headers]
        (table,) = (each for each in self.sections if each.type == _SYMBOLS)
        self.symbols = [_Symbol(*entry) for entry in struct.iter_unpack("<IBBHQQ", self.read(table))]
        self._names = self.read(self.sections[table.link])
        self._places: dict[Any, int] = {}  # of sections by their number, and of common symbols
        for flags in (_ALLOC, _ALLOC | _WRITE):
            self.code = self._append(b"", PAGESIZE)
            for number, each in enumerate(self.sections):
                if each.flags & (_ALLOC | _WRITE) == flags and each.type != _UNWIND:
                    self._places[number] = self._append(self.read(each), each.alignment)
        for symbol in self.symbols:
            if symbol.section == _COMMON:
                self._places[symbol] = self._append(bytes(symbol.size), symbol.value)

    def read(self, section: _Section) -> bytes:
        end = section.offset + section.size
        return bytes(section.size) if section.type == _ZEROS else self._data[section.offset : end]

    def name(self, symbol: _Symbol) -> str:
        return self._names[symbol.name : self._names.index(0, symbol.name)].decode()

    def _append(self, content: bytes, alignment: int) -> int:
        """Where it begins."""
        self.content += bytes(-len(self.content) % max(alignment, 1)) + content
        return len(self.content) - len(content)

    def relocate(self, base: int) -> dict[str, int]:
        """Fills in addresses, for an image that begins at `base`; returns those of functions by name."""
        for section in self.sections:
            if section.type == _RELOCATIONS and section.info in self._places:
                for offset, kind, symbol, addend in struct.iter_unpack("<QIIq", self.read(section)):
                    if kind != _R_X86_64_64:
                        raise UnsupportedObject(f"a relocation of type {kind}")
                    target = self._address(self.symbols[symbol], base) + addend
                    struct.pack_into("<Q", self.content, self._places[section.info] + offset, target % (1 << 64))
        functions = (each for each in self.symbols if each.info & 15 == _FUNCTION and each.section != _UNDEFINED)
        return {self.name(each): self._address(each, base) for each in functions}

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
