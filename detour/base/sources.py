# SPDX-License-Identifier: Apache-2.0
"""A digest of the source files that a module is made of: its own and those of all that it imports, directly or not.

It is what native code is found by, so it is computed without importing anything: imports are found by their text, and
so are modules that are named in quotes.
What comes from the standard library and from installed packages does not count.
"""

from __future__ import annotations

import hashlib
import re
import sys
import sysconfig
from functools import cache
from pathlib import Path

import numpy

from detour.base.places import PACKAGE

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]*)|import[ \t]+([^\n#]+))", re.MULTILINE
)
_NAMED = re.compile(rb'"(detour(?:\.\w+)+)"')
_WORD = re.compile(rb"[\w.]+")
_STANDARD = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib"))
_INSTALLED = ("/site-packages/", "/dist-packages/", f"{Path(numpy.__file__).parents[1]}/")
"""folders of packages: also the one of `pip install --target`"""


def files(*modules: str) -> dict[Path, bytes]:
    """The files that modules are made of, with digests of their contents."""
    contents: dict[Path, bytes] = {}
    pending = list(modules)
    while pending:
        path = _path(pending.pop())
        if path is not None and path not in contents:
            contents[path], imported = _file(path)
            pending += imported
    return contents


def digest(*modules: str) -> str:
    """Return one digest of all the modules, 40 hexadecimal digits."""
    total, contents = hashlib.sha256(), files(*modules)
    for path in sorted(contents, key=str):
        name = path.relative_to(PACKAGE) if path.is_relative_to(PACKAGE) else path
        total.update(f"{name}\0".encode() + contents[path])
    return total.hexdigest()[:40]


def _path(module: str) -> Path | None:
    """Return the module's file; None if it is not a module, or belongs to an installed package."""
    if module.partition(".")[0] == PACKAGE.name:
        return _of_detour(module)
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or file.startswith(_STANDARD) or any(folder in file for folder in _INSTALLED):
        return None
    return Path(file)


@cache
def _of_detour(module: str) -> Path | None:
    rest = module.split(".")[1:]
    at = PACKAGE.joinpath(*rest)
    files = (at.with_suffix(".py"), at / "__init__.py") if rest else (at / "__init__.py",)
    return next((path for path in files if path.is_file()), None)


def _file(path: Path) -> tuple[bytes, list[str]]:
    """The digest of its content, and what it may import: names of modules, and of other things."""
    return _unchanging(path) if path.is_relative_to(PACKAGE) else _read(path)


def _read(path: Path) -> tuple[bytes, list[str]]:
    content = path.read_bytes()
    names: list[str] = []
    for module, imported, plain in _IMPORT.findall(content):
        names.append(module.decode())
        names += [f"{module.decode()}.{name.decode()}" for name in _WORD.findall(imported)]
        names += [name.decode() for name in _WORD.findall(plain)]
    names += [name.decode() for name in _NAMED.findall(content)]
    return hashlib.sha256(content).digest(), names


_unchanging = cache(_read)  # detour itself, while a process runs; files of users may change
