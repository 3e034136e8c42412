# SPDX-License-Identifier: Apache-2.0
"""Compiled programs as files, for everything that takes a program: compiled once, kept in the cache by content.

The name in the cache is a digest of the compiler and of all files that the program is made of.
"""

from __future__ import annotations

import atexit
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from detour.base import sources
from detour.base.cache import cache_dir, without
from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.base.progress import Progress, silent
from detour.base.secure_dir import make_folders
from detour.p4.compile import Refused, compiled
from detour.p4.messages import CompileError, Messages
from detour.p4.preprocess import Preprocessor

COMPILERS = ("detour", "p4c")
"""Ours and p4lang's reference."""

_PORTABLE = re.compile(r'^\s*#\s*include\s*[<"][\w/]*\b(psa|pna)\.p4[>"]', re.MULTILINE)
_PATIENCE_S = 300


@dataclass(frozen=True)
class Build:
    """The files of a compiled program. The P4Info is not there if it cannot be made of the program (`build`)."""

    json: Path
    p4info: Path


def build(
    source: Path,
    compiler: str = "detour",
    include: Iterable[Path] = (),
    defines: Mapping[str, str] | None = None,
    progress: Progress = silent,
    *,
    p4info: bool = False,
) -> Build:
    """Compile a program, unless that has been done.

    Args:
        compiler: one of `COMPILERS`.
        p4info: whether it must be there. P4_14 programs that p4c has translated have actions with equal names, which
            JSON may have, and P4Info may not.

    Raises:
        DetourError: the file cannot be read, or p4c is wanted and is not there.
        Refused: the program has errors.
    """
    folders = list(include)
    folder = _folder(_digest(source, compiler, folders, defines or {}))
    done = Build(folder / f"{source.stem}.json", folder / f"{source.stem}.p4info.txtpb")
    if not (done.json.is_file() and (done.p4info.is_file() or not p4info)):
        progress(f"compiling {source.name}")
        if compiler == "p4c":
            run_p4c(source, done, folders, defines or {})
        else:
            write(source, done, folders, defines, p4info=p4info)
    return done


def write(
    source: Path,
    to: Build,
    include: Iterable[Path] = (),
    defines: Mapping[str, str] | None = None,
    name: str | None = None,
    *,
    p4info: bool = True,
) -> None:
    """Compile a program with our compiler to the files of `to`. `name`: see `compile_file`; `p4info`: see `build`.
    Raises `Refused`."""
    try:
        result = compiled(source, None, include, defines=defines, name=name)
    except Refused:
        if p4info:
            raise
        result = compiled(source, None, include, defines=defines, name=name, p4info=False)
    if result.p4info is not None:
        from detour.p4.p4info import as_text

        write_file(to.p4info, as_text(result.p4info))
    write_file(to.json, result.text)


def _folder(digest: str) -> Path:
    try:
        folder = cache_dir() / "p4" / digest
        make_folders(folder)
        return folder
    except OSError as error:
        without(error)
        folder = Path(_scratch()) / digest
        folder.mkdir(exist_ok=True)
        return folder


@cache
def _scratch() -> str:
    """The folder for builds when there is no cache: they last as long as the process."""
    folder = tempfile.mkdtemp(prefix="detour-p4-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _digest(source: Path, compiler: str, include: list[Path], defines: Mapping[str, str]) -> str:
    digest = hashlib.sha256(f"{compiler}\0{source}\0{sorted(defines.items())}\0".encode())
    digest.update(_version(source, compiler))
    reader = Preprocessor(Messages(), include, defines)
    try:
        reader.run(source)
    except CompileError:
        pass  # the compiler will say it
    except OSError as error:
        raise DetourError(f"{source}: {error.strerror}") from None
    for path, content in reader.files.items():
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:32]


def _version(source: Path, compiler: str) -> bytes:
    return sources.digest("detour.p4.build").encode() if compiler == "detour" else _p4c(source, ["--version"])


# ---------------------------------------------------------------- p4c


def p4c_of(source: Path) -> str:
    """p4c's command for the architecture whose file a source includes."""
    text = source.read_text(errors="replace") if source.is_file() else ""
    portable = _PORTABLE.search(text)
    return f"p4c-bm2-{portable[1]}" if portable else "p4c-bm2-ss"


def run_p4c(
    source: Path, to: Build, include: Iterable[Path] = (), defines: Mapping[str, str] | None = None, *flags: str
) -> None:
    """Compile a program with p4c. Raises `DetourError`: it is not there, or refuses the program."""
    folders = [f"-I{Path(folder).absolute()}" for folder in include]
    macros = [f"-D{name}={value}" for name, value in (defines or {}).items()]
    outputs = ["-o", str(to.json.absolute()), "--p4runtime-files", str(to.p4info.absolute())]
    to.json.parent.mkdir(parents=True, exist_ok=True)
    _p4c(source, ["--std", "p4-16", *flags, *folders, *macros, *outputs, source.name])


def _p4c(source: Path, arguments: list[str]) -> bytes:
    """Run p4c; its output. It runs beside the source: the JSON then names files by relative paths."""
    command = p4c_of(source)
    if shutil.which(command) is None:
        raise DetourError(f"{command} is not on PATH: install p4lang's package p4lang-p4c, or leave out --compiler p4c")
    try:
        done = subprocess.run(
            [command, *arguments], cwd=source.parent, capture_output=True, timeout=_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise DetourError(f"{source}: {command} has not ended within {_PATIENCE_S} s") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
        first = next((line for line in lines if "error" in line), lines[0] if lines else "ended without a word")
        raise DetourError(f"{source}: {command}: {first}")
    return done.stdout
