# SPDX-License-Identifier: Apache-2.0
"""Compiles the programs in this folder and in `../portable` with p4c (on PATH) into the files beside them.

python tests/programs/compiler/build.py
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Compiles all programs; lines stay in the JSON for error messages, fragments of the source do not."""
    for source in sorted(HERE.glob("*.p4")):
        if source.name != "frame.p4":
            _compile(source, ["p4c-bm2-ss"])
    for source in sorted((HERE.parent / "portable").glob("*.p4")):
        architecture = source.name[:3]
        _compile(source, [f"p4c-bm2-{architecture}", "--p4runtime-files", f"{source.stem}.p4info.txtpb"])


def _compile(source: Path, command: list[str]) -> None:
    target = source.with_suffix(".json")
    subprocess.run([*command, source.name, "-o", target.name], cwd=source.parent, check=True)
    program = json.loads(target.read_text(), object_hook=_trim)
    program["program"] = source.name
    target.write_text(json.dumps(program, separators=(",", ":")) + "\n")
    for other in source.parent.glob("*.p4i"):
        other.unlink()


def _trim(item: dict) -> dict:
    if "source_fragment" in item:
        return {k: item[k] for k in ("filename", "line") if k in item}
    return item


if __name__ == "__main__":
    main()
