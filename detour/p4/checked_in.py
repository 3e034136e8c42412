# SPDX-License-Identifier: Apache-2.0
"""Compile our P4 to the builds that are checked in (`make p4`), or say which of these are not what the compiler makes
(`python -m detour.p4.checked_in --check`).

A build is JSON and P4Info in the folder `build` beside the source, that of the conformance suite beside the source
itself: nothing is compiled before it is changed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.places import P4SRC, PACKAGE
from detour.p4.build import Build, write

CONFORMANCE = PACKAGE / "conformance" / "data" / "conformance.p4"
LABS = PACKAGE.parent / "docs" / "labs"
"""labs of ours, each with a program (in a repository only)"""


def sources() -> list[Path]:
    """Our programs: the data planes, that of the conformance suite, then those of labs."""
    return [*sorted(P4SRC.glob("*.p4")), CONFORMANCE, *sorted(LABS.glob("*/*.p4"))]


def checked_in(source: Path) -> Build:
    """The build of a program."""
    return _in(source.parent if source == CONFORMANCE else source.parent / "build", source)


def is_current(source: Path) -> bool:
    """Return whether a program's build is what the compiler makes of it. Raises `Refused`: the program has errors."""
    old = checked_in(source)
    with tempfile.TemporaryDirectory() as folder:
        new = _compile(source, _in(Path(folder), source))
        files = ((old.json, new.json), (old.p4info, new.p4info))
        return all(one.is_file() and one.read_bytes() == other.read_bytes() for one, other in files)


def _in(folder: Path, source: Path) -> Build:
    return Build(folder / f"{source.stem}.json", folder / f"{source.stem}.p4info.txtpb")


def _compile(source: Path, to: Build) -> Build:
    # By a name without folders: the JSON is then the same on every machine.
    write(source, to, name=source.name)
    return to


def main() -> int:
    try:
        if sys.argv[1:] == ["--check"]:
            if old := [str(source) for source in sources() if not is_current(source)]:
                raise DetourError(f"builds are not what the compiler makes of {', '.join(old)}; run `make p4`")
            return 0
        for source in sources():
            _compile(source, checked_in(source))
        print(f"compiled {', '.join(source.stem for source in sources())}")
        return 0
    except DetourError as error:
        print(f"detour: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
