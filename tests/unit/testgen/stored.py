# SPDX-License-Identifier: Apache-2.0
"""The tests of fabric.p4 that `detour test` has generated, for `make check`. Written anew after changes of the program:
`python -m tests.unit.testgen.stored`."""

from __future__ import annotations

import lzma
from pathlib import Path

from detour.base.places import BUILD
from detour.testgen.generate import Plan, generate

FABRIC = BUILD / "fabric.json"
_FILE = Path(__file__).with_name("fabric.stf.xz")
_NEXT = "# the next test\n"


def unpack(folder: Path) -> None:
    """Writes each test into a file of its own, for `--regress`."""
    for number, text in enumerate(lzma.decompress(_FILE.read_bytes()).decode().split(_NEXT)):
        (folder / f"test{number:04}.stf").write_text(text)


if __name__ == "__main__":
    tests = generate(FABRIC, Plan(seconds=600.0), print).tests
    _FILE.write_bytes(lzma.compress(_NEXT.join(test.stf() for test in tests).encode(), preset=9))
