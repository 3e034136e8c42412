# SPDX-License-Identifier: Apache-2.0
"""Search for a lab's files, also for those without a name of their own."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from pathlib import Path

from detour.base.errors import DetourError


@dataclass(frozen=True)
class LabFolder:
    """A lab's folder, and the topology file if one was named. `solution`: files of the folder `solution`, as exercises
    have it, go before those that they are the solution of."""

    path: Path
    file: Path | None = None
    solution: bool = False
    arguments: tuple[str, ...] = ()
    """of a lab that is a script"""

    @staticmethod
    def given(text: str, solution: bool = False, arguments: str | None = None) -> LabFolder:
        """Find a lab by name: a folder, or a topology in it or in a folder of it. Raises DetourError: neither exists,
        or there is no solution."""
        path = Path(text).absolute()
        try:
            words = tuple(shlex.split(arguments or ""))
        except ValueError as error:
            raise DetourError(f"--lab-args {arguments!r}: {error}") from None
        if path.is_file():
            folder = LabFolder(_home(path), path, solution, words)
        elif path.is_dir():
            folder = LabFolder(path, None, solution, words)
        else:
            raise DetourError(f"{text}: there is no such folder or file; a lab is a folder, or its topology file")
        if solution and not (folder.path / "solution").is_dir():
            raise DetourError(f"{folder.path}: --solution needs a folder solution, which does not exist")
        return folder

    def lab_file(self, usual: str, others: Callable[[Path], Iterable[Path]] = lambda path: ()) -> Path | None:
        """The topology of a format: the file that was named, if its name ends as the `usual` one does, else that one,
        else the only one of `others`. None: the folder is of another format. Raises DetourError: there are several, and
        none is named."""
        if self.file is not None:
            return self.file if self.file.suffix == Path(usual).suffix else None
        if (direct := self.path / usual).is_file():
            return direct
        return self.only(others(self.path), "labs")

    def only(self, paths: Iterable[Path], what: str) -> Path | None:
        """The only one of some files in the folder; None: there is none. Raises DetourError: there are several; their
        names."""
        files = sorted(paths)
        if len(files) > 1:
            listed = ", ".join(str(path.relative_to(self.path)) for path in files)
            raise DetourError(f"{self.path} has several {what}; name one of {listed}")
        return files[0] if files else None

    def find(self, name: str) -> Path | None:
        """A file that the lab names by a path from its folder; None if it is not there."""
        if self.solution and (path := self.path / "solution" / Path(name).name).is_file():
            return path
        path = self.path / name
        return path if path.is_file() else None

    def made_of(self, source: Path | None, made: Path | None) -> Path | None:
        """Return the compiled form of a source, if it exists: not of the unfinished one in place of its solution."""
        if self.solution and source is not None and made is not None and source.parent == self.path / "solution":
            return made if source.parent in made.parents else None
        return made

    def require(self, name: str, where: str, what: str) -> Path:
        """The same for one that must be there. Raises DetourError: it is not; who named it."""
        file = self.find(name)
        if file is None:
            raise DetourError(f"{where}: {what} {name!r} does not exist ({self.path / name})")
        return file


def is_json_with(path: Path, keys: Set[str]) -> bool:
    """Return whether a file is a JSON object that has these keys, among others."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and keys <= document.keys()


def _home(topology: Path) -> Path:
    """The folder from which a topology's paths are meant: its own, or for `pod-topo/topology.json` the one above."""
    above = topology.parent.parent
    if topology.parent.name.endswith("topo") and (list(above.glob("*.p4")) or (above / "Makefile").is_file()):
        return above
    return topology.parent
