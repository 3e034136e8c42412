# SPDX-License-Identifier: Apache-2.0
"""Runs p4c, and keeps its results by the content of the program."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

COMPILERS = {"v1model": "p4c-bm2-ss", "psa": "p4c-bm2-psa", "pna": "p4c-bm2-pna"}
CACHE = Path(os.environ.get("DETOUR_P4C_CACHE") or Path.home() / ".cache" / "detour" / "p4c")
_INCLUDE = re.compile(rb"#include.*\b(psa|pna)\.p4")
_INCLUDED = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
_PLACE = re.compile(r"^(.+?)\((\d+)\):\s*(?:\[--Werror=[\w -]+\] error|syntax error|error)", re.MULTILINE)
_WARNING = re.compile(r"^(.+?)\((\d+)\): \[--Wwarn=([\w -]+)\]", re.MULTILINE)
_LOOP = re.compile(r"^    apply \{\n(?:(?!    \}$).*\n)*?\s+for \(", re.MULTILINE)
"""In the apply block of a control, of a program as p4c prints it."""
_SECONDS = 120


def missing() -> str | None:
    """Why there is no p4c here; None if there is one."""
    absent = [name for name in COMPILERS.values() if not shutil.which(name)]
    return f"{', '.join(absent)}: not on PATH" if absent else None


@cache
def architecture(source: Path) -> str:
    """By the file that a program includes, as p4c's own tests are chosen."""
    include = _INCLUDE.search(source.read_bytes())
    return include[1].decode() if include else "v1model"


@dataclass(frozen=True)
class Reference:
    """What p4c made of a program: files in `folder`."""

    folder: Path
    status: int

    @property
    def json(self) -> Path:
        return self.folder / "out.json"

    @property
    def p4info(self) -> Path:
        return self.folder / "p4info.txtpb"

    @property
    def entries(self) -> Path:
        return self.folder / "entries.txtpb"

    @property
    def accepted(self) -> bool:
        return self.status == 0 and self.json.exists()

    @property
    def crashed(self) -> bool:
        """Whether p4c ended by a bug of its own, so that it says nothing about the program."""
        return self.status not in (0, 1) or "Compiler Bug" in self.messages

    @property
    def messages(self) -> str:
        return (self.folder / "stderr").read_text(errors="replace")

    @property
    def leaves_loops(self) -> bool:
        """Whether p4c leaves a loop in a control, where its JSON goes through the body once and ignores the condition.
        In actions, loops become jumps.
        """
        return any(_LOOP.search(dump.read_text()) for dump in self.folder.glob("*MidEndLast.p4"))

    def first_error(self) -> tuple[str, int] | None:
        """Name of the file and line of the first error, if it has a place."""
        place = _PLACE.search(self.messages)
        return (Path(place[1]).name, int(place[2])) if place else None

    @property
    def warnings(self) -> frozenset[tuple[str, str, int]]:
        """Kinds, files and lines."""
        return frozenset((kind, Path(file).name, int(line)) for file, line, kind in _WARNING.findall(self.messages))


def _included(source: Path, include: tuple[Path, ...]) -> list[Path]:
    """The files that a program includes, directly and by others, without those that come with p4c."""
    found: list[Path] = []
    queue = [source]
    while queue:
        file = queue.pop()
        for name in _INCLUDED.findall(file.read_bytes()):
            places = (folder / os.fsdecode(name) for folder in (file.parent, *include))
            path = next((place.resolve() for place in places if place.is_file()), None)
            if path and path not in found:
                found.append(path)
                queue.append(path)
    return found


def _key(source: Path, include: tuple[Path, ...], options: tuple[str, ...]) -> str:
    digest = hashlib.sha256(repr((str(source), [str(one) for one in include], options)).encode())
    for file in (source, *_included(source, include)):
        digest.update(file.read_bytes())
    return f"{source.stem}-{digest.hexdigest()[:12]}"


def compiled(source: Path, include: tuple[Path, ...] = (), options: tuple[str, ...] = ()) -> Reference:
    """What p4c makes of a program, from the cache if it was asked before."""
    folder = CACHE / _key(source, include, options)
    if not (folder / "status").exists():
        folder.mkdir(parents=True, exist_ok=True)
        status = _run(source, include, options, folder, p4runtime=True)
        if status == 1 and "not supported by P4Runtime" in (folder / "stderr").read_text(errors="replace"):
            (folder / "p4info.txtpb").unlink(missing_ok=True)
            status = _run(source, include, options, folder, p4runtime=False)
        (folder / "status").write_text(f"{status}\n")
    return Reference(folder, int((folder / "status").read_text()))


def _run(source: Path, include: tuple[Path, ...], options: tuple[str, ...], folder: Path, *, p4runtime: bool) -> int:
    arch = architecture(source)
    line = [COMPILERS[arch], "--arch", arch, *options, "-o", f"{folder}/out.json"]
    line += ["--top4", "MidEndLast", "--dump", str(folder)]
    line += [word for one in include for word in ("-I", str(one))]
    if p4runtime:
        line += ["--p4runtime-files", f"{folder}/p4info.txtpb", "--p4runtime-entries-files", f"{folder}/entries.txtpb"]
    with (folder / "stderr").open("wb") as errors:
        try:
            run = subprocess.run(
                [*line, str(source)], check=False, stdout=errors, stderr=errors, timeout=_SECONDS, cwd=folder
            )
        except subprocess.TimeoutExpired:
            return 124
    return run.returncode
