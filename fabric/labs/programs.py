# SPDX-License-Identifier: Apache-2.0
"""Which program each switch runs: compiled where p4c is on PATH, else what p4c left behind. What p4c makes is kept in
the cache by what went in."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from detour.base.cache import cache_dir
from detour.base.errors import DetourError
from detour.base.files import read_bytes
from detour.base.progress import Progress, silent
from detour.base.secure_dir import make_folders
from detour.fabric.labs.folder import is_json_with
from detour.fabric.labs.model import Lab, LabProgram

P4C = "p4c-bm2-ss"
_FLAGS = ("--std", "p4-16")
_PATIENCE_S = 300
_INFO_ENDINGS = (".p4info.txtpb", ".p4info.txt", ".p4.p4info.txtpb", ".p4.p4info.txt", "_p4rt.txt")


@dataclass(frozen=True)
class ProgramFiles:
    """What a switch gets: BMv2 JSON, and P4Info where there is one (without P4Runtime cannot speak to it)."""

    json: Path
    p4info: Path | None

    @cached_property
    def text(self) -> bytes:
        """The JSON.

        Raises:
            DetourError: it cannot be read.
        """
        return read_bytes(self.json)


def programs_of(
    lab: Lab, given: str | None = None, empty: bool = False, progress: Progress = silent
) -> Mapping[str, ProgramFiles | None]:
    """The program of each switch: what was `given` (`P4INFO,JSON` or a P4 source), else the one that the lab names,
    else the only one that lies in the lab's folder or its folder `build`. `empty`: a switch may have none, which a
    controller sets.

    Raises:
        DetourError: there is none or more than one, or p4c refuses it.
    """
    said = None if given is None else _given(given)
    fallback: LabProgram | None = None
    found: dict[str, ProgramFiles | None] = {}
    for switch in lab.switches:
        program = said or switch.program
        if program is None:
            fallback = fallback or _only(lab.folder)
            program = fallback
        if program is None and empty:
            found[switch.name] = None
            continue
        if program is None:
            raise DetourError(
                f"{switch.where}: {switch.name} has no program, and {lab.folder} holds none; name one with "
                "--program P4INFO,JSON or --program NAME.p4"
            )
        found[switch.name] = _files(program, progress)
    return found


def _given(text: str) -> LabProgram:
    if text.endswith(".p4"):
        source = Path(text).absolute()
        if not source.is_file():
            raise DetourError(f"{text}: there is no such file")
        return LabProgram(source, where="--program")
    from detour.control.p4runtime.pipeline import PipelineConfig

    config = PipelineConfig.given(text)
    return LabProgram(None, config.blob, config.p4info, "--program")


def _files(program: LabProgram, progress: Progress) -> ProgramFiles:
    """A program's files, compiled if that is possible."""
    if program.source is not None and shutil.which(P4C) is not None:
        return ProgramFiles(*compiled(program.source, progress))
    if program.json is not None:
        return ProgramFiles(program.json, program.p4info or p4info_beside(program.json))
    if program.source is None:
        raise DetourError(f"{program.where}: neither the program's P4 nor its JSON is there")
    json_beside = _built(program.source)
    if json_beside is None:
        raise DetourError(
            f"{program.where}: {program.source} is not compiled, and {P4C} is not on PATH (p4lang's package p4lang-p4c)"
        )
    return ProgramFiles(json_beside, p4info_beside(json_beside))


def _built(source: Path) -> Path | None:
    """What p4c made of a source earlier."""
    beside = (folder / f"{source.stem}.json" for folder in (source.parent / "build", source.parent))
    return next((path for path in beside if path.is_file() and is_program(path)), None)


def p4info_beside(path: Path) -> Path | None:
    """The P4Info that belongs to a JSON, by its name."""
    names = (path.parent / f"{path.stem}{ending}" for ending in _INFO_ENDINGS)
    return next((name for name in names if name.is_file()), None)


def is_program(path: Path) -> bool:
    """Whether a JSON is BMv2's, and not a topology."""
    return is_json_with(path, {"parsers", "pipelines", "actions"})


def _only(folder: Path) -> LabProgram | None:
    """The only program in a lab's folder; None if there is none.

    Raises:
        DetourError: there are several.
    """
    found = list(_candidates(folder))
    if len(found) > 1:
        named = ", ".join(str(path.relative_to(folder)) for path in found)
        raise DetourError(f"{folder} holds several programs: {named}; name one with --program P4INFO,JSON")
    if not found:
        return None
    source = folder / f"{found[0].stem}.p4"
    return LabProgram(source if source.is_file() else None, found[0], p4info_beside(found[0]), str(folder))


def _candidates(folder: Path) -> Iterator[Path]:
    """Those with a P4Info go first: without them any JSON of BMv2's counts."""
    every = [path for place in (folder, folder / "build") for path in sorted(place.glob("*.json"))]
    programs = [path for path in every if is_program(path)]
    pairs = [path for path in programs if p4info_beside(path) is not None]
    yield from pairs or programs


def compiled(source: Path, progress: Progress) -> tuple[Path, Path]:
    """(JSON, P4Info) of a source.

    Raises:
        DetourError: p4c refuses it; its first error.
    """
    digest = hashlib.sha256("\0".join(_FLAGS).encode())
    digest.update(_run(source, ["--version"]).stdout)
    digest.update(_run(source, [*_FLAGS, "-E", source.name], whatever=True).stdout)  # with all that it includes
    try:
        folder = cache_dir() / "labs" / digest.hexdigest()[:32]
        make_folders(folder)
    except OSError as error:
        raise DetourError(f"{source}: there is no place for what p4c makes of it: {error}") from None
    found = folder / f"{source.stem}.json", folder / f"{source.stem}.p4info.txtpb"
    if not all(path.is_file() for path in found):
        progress(f"compiling {source.name}")
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = [Path(scratch) / path.name for path in found]
            _run(source, [*_FLAGS, "-o", str(made[0]), "--p4runtime-files", str(made[1]), source.name])
            for path, target in zip(made, found, strict=True):
                path.replace(target)
    return found


def _run(source: Path, arguments: list[str], whatever: bool = False) -> subprocess.CompletedProcess[bytes]:
    """`whatever`: if it prints something, its exit code does not count (with -E it is never 0)."""
    try:
        done = subprocess.run(
            [P4C, *arguments], cwd=source.parent, capture_output=True, timeout=_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise DetourError(f"{source}: {P4C} has not ended within {_PATIENCE_S} s") from None
    except OSError as error:
        raise DetourError(f"{source}: {P4C} cannot be run: {error.strerror}") from None
    if done.returncode and not (whatever and done.stdout):
        raise DetourError(f"{source}: {P4C}: {_first_error(done.stderr.decode(errors='replace'))}")
    return done


def _first_error(text: str) -> str:
    """p4c's first error, which names file and line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "ended without a word")
