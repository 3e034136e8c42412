# SPDX-License-Identifier: Apache-2.0
"""pyright over everything, and the proof that it was everything (`make lint`).

pyright does not look behind the links of `detour/`: told to check that folder, it checks one file and finds no fault.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from detour.base.places import PACKAGE, modules


def source_files() -> list[Path]:
    """What must be checked: all of the packages, of the package itself and of the tests."""
    return [*modules(), *PACKAGE.glob("*.py"), *Path(__file__).parent.rglob("*.py")]


def main() -> int:
    """1 if pyright complains, or looked at fewer files than there are."""
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson"], capture_output=True, text=True, check=False
    )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        sys.exit(f"pyright: {done.stdout}{done.stderr}")
    for each in report["generalDiagnostics"]:
        begin = each.get("range", {}).get("start", {"line": -1, "character": -1})
        print(f"{each['file']}:{begin['line'] + 1}:{begin['character'] + 1}: {each['severity']}: {each['message']}")
    checked, there = report["summary"]["filesAnalyzed"], len(source_files())
    if checked < there:
        sys.exit(f"pyright checked {checked} files of {there}: pyproject.toml must name each package and the tests")
    print(f"{checked} files type-checked, {report['summary']['errorCount']} errors")
    return int(bool(report["summary"]["errorCount"]))


if __name__ == "__main__":
    sys.exit(main())
