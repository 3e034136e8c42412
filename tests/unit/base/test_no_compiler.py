# SPDX-License-Identifier: Apache-2.0
"""Native code is made without any program of the machine (no C compiler, no linker, no assembler), and is loaded
without LLVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.base.native_script import run

pytestmark = pytest.mark.timeout(1800)  # it compiles, on a machine that may be busy

_PROGRAMS = """
import shutil
assert not any(shutil.which(name) for name in ("cc", "gcc", "clang", "ld", "as", "sh", "p4c-bm2-ss"))
from detour.engine.compiler.program import Program
program = Program.from_json(sys.argv[1])
print(size(), loaded(), program.parse_addr != 0, 'llvmlite' in sys.modules)
"""


def test_nothing_on_path(tmp_path: Path) -> None:
    source = Path(__file__).resolve().parents[2] / "programs" / "compiler" / "faults.json"
    script = f"sys.argv.append({str(source)!r})\n{_PROGRAMS}"
    for hits in (0, 1):
        done = run(script, tmp_path, PATH="/nonexistent", XDG_CACHE_HOME=str(tmp_path))
        assert (done.returncode, done.stdout, done.stderr) == (0, f"1102 {hits} True {not hits}\n", "")
