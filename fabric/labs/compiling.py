# SPDX-License-Identifier: Apache-2.0
"""p4c for other people's programs: what it makes is kept in the cache by what went in."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path

from detour.base.cache import cache_dir
from detour.base.errors import DetourError
from detour.base.private import make_folders
from detour.base.progress import Progress

P4C = "p4c-bm2-ss"
_FLAGS = ("--std", "p4-16")
_PATIENCE_S = 300


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
