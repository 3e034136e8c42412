# SPDX-License-Identifier: Apache-2.0
"""HiGHS says nothing on standard output, where `--json` is."""

import subprocess
import sys

_PROGRAM = "from detour.control.fors import parse_fabric, solve; print(solve(parse_fabric('ft:m0=2,m1=2')).phases)"


def test_a_solver_leaves_standard_output_alone() -> None:
    """The release 1.16.0 prints two lines in every process, whatever its options are."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"
