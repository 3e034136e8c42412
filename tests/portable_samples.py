# SPDX-License-Identifier: Apache-2.0
"""p4c's own programs for PSA and PNA. `P4C_SAMPLES=FOLDER python -m tests.portable_samples` prints how many of them
load, why the others do not, and how many of their STF tests are as expected. FOLDER is testdata/p4_16_samples of p4c's
repository."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from detour import cli
from detour.base.errors import DetourError
from detour.engine.compiler.program import Program
from detour.p4.build import Build, write

SAMPLES = Path(os.environ.get("P4C_SAMPLES") or "/none")
_INCLUDE = re.compile(rb"#include.*\b(psa|pna)\.p4")


def architecture_included(source: Path) -> str | None:
    """`psa` or `pna`, by the file that a program includes, as p4c's own tests are chosen; None: another one."""
    include = _INCLUDE.search(source.read_bytes()) if source.exists() else None
    return include[1].decode() if include else None


def packet_tests() -> list[Path]:
    """STF files of these architectures."""
    return [stf for stf in sorted(SAMPLES.glob("*.stf")) if architecture_included(stf.with_suffix(".p4"))]


def compiled(source: Path, base: Path) -> bool:
    """Writes BASE.json and BASE.p4info.txtpb; False if the compiler refuses the program."""
    try:
        write(source, Build(Path(f"{base}.json"), Path(f"{base}.p4info.txtpb")))
    except DetourError:
        return False
    return True


def passes(stf: Path, base: Path) -> bool:
    """Whether a packet test of a compiled program is as expected."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return cli.main(["trace", "--program", f"{base}.p4info.txtpb,{base}.json", "--stf", str(stf)]) == 0


def main() -> int:
    counts, reasons = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted(SAMPLES.glob("*.p4")):
            architecture = architecture_included(source)
            base, stf = Path(folder, source.stem), source.with_suffix(".stf")
            if architecture is None or not compiled(source, base):
                continue
            counts["compile"] += 1
            try:
                Program.from_json(f"{base}.json")
            except DetourError as error:
                reasons[re.sub(r"'[^']*'|\(.*\)|\d+", "...", str(error))] += 1
                print(f"{source.stem}: {error}", file=sys.stderr)
            if stf.exists():
                counts[f"{architecture} STF tests"] += 1
                counts[f"{architecture} as expected"] += passes(stf, base)
    print(*(f"{count:4} {what}" for what, count in [*counts.items(), *reasons.most_common()]), sep="\n")
    print(f"{counts['compile'] - reasons.total():4} load")
    return 0


if __name__ == "__main__":
    sys.exit(main())
