# SPDX-License-Identifier: Apache-2.0
"""Build our P4 and check that the build is current (`make p4`, `python -m detour.p4.checked_in [--check]`; the option
`--compiler p4c` has the reference do it).

JSON and P4Info are checked in under `detour/p4src/build/` with a digest of their sources, so that nothing is compiled
before it is changed, and a forgotten rebuild is noticed.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.places import BUILD, PACKAGE
from detour.base.places import P4SRC as SOURCES
from detour.p4.build import COMPILERS, Build, run_p4c, write

LABS = PACKAGE.parent / "docs" / "labs"
"""labs of ours, each with a program and its build (in a repository only)"""

# p4c cannot see that srh is valid whenever next_segment is, and that indirect tables need no default action.
_P4C_FLAGS = ("--Wdisable=invalid-header", "--Wdisable=unsupported")


def programs() -> list[str]:
    """Names of the P4 programs, without ending."""
    return sorted(path.stem for path in SOURCES.glob("*.p4"))


def sources_digest(program: str) -> str:
    """SHA-256 over the program and all its includes, names and contents."""
    digest = hashlib.sha256()
    for path in [SOURCES / f"{program}.p4", *sorted((SOURCES / "include").glob("*.p4"))]:
        digest.update(f"{path.name}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def lab_sources() -> list[Path]:
    """The programs of our labs."""
    return sorted(LABS.glob("*/*.p4"))


def compile_to(program: str, folder: Path, sources: Path | None = None, compiler: str = COMPILERS[0]) -> None:
    """Compile one program of `p4src/`, or of the folder `sources`. Raises `DetourError`: p4c is wanted and missing, or
    the program is refused."""
    source = (sources or SOURCES) / f"{program}.p4"
    to = Build(folder / f"{program}.json", folder / f"{program}.p4info.txtpb")
    # By names relative to the source: the JSON is then the same on every machine.
    if compiler == "p4c":
        run_p4c(source, to, (), None, *_P4C_FLAGS)
    else:
        write(source, to, name=source.name)


def rebuild(compiler: str = COMPILERS[0]) -> None:
    """Compile every program and write the digests."""
    for program in programs():
        with tempfile.TemporaryDirectory() as folder:
            compile_to(program, Path(folder), None, compiler)
            for path in Path(folder).iterdir():
                shutil.copyfile(path, BUILD / path.name)
        (BUILD / f"{program}.sha256").write_text(sources_digest(program) + "\n")
    for source in lab_sources():
        build = source.parent / "build"
        build.mkdir(exist_ok=True)
        compile_to(source.stem, build, source.parent, compiler)
        (build / f"{source.stem}.sha256").write_text(_digest_of(source) + "\n")


def _digest_of(source: Path) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest()


def stale_labs() -> list[str]:
    """Labs of ours whose checked-in build does not belong to their source as it is."""
    builds = {source: source.parent / "build" / f"{source.stem}.sha256" for source in lab_sources()}
    return [
        source.parent.name
        for source, build in builds.items()
        if not build.exists() or build.read_text().strip() != _digest_of(source)
    ]


def stale() -> list[str]:
    """Programs whose checked-in build does not belong to the sources as they are."""

    def recorded(program: str) -> str:
        path = BUILD / f"{program}.sha256"
        return path.read_text().strip() if path.exists() else ""

    return [program for program in programs() if recorded(program) != sources_digest(program)]


def main() -> int:
    try:
        words = sys.argv[1:]
        if words == ["--check"]:
            old = [*stale(), *(f"docs/labs/{lab}" for lab in stale_labs())]
            if old:
                raise DetourError(f"builds are older than their sources: {', '.join(old)}; run `make p4`")
            return 0
        rebuild("p4c" if words == ["--compiler", "p4c"] else COMPILERS[0])
        print(f"detour/p4src/build: {', '.join(programs())}")
        return 0
    except DetourError as error:
        print(f"detour: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
