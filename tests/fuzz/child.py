# SPDX-License-Identifier: Apache-2.0
"""The process in which a target runs: `python -m tests.fuzz.child TARGET SEED SECONDS COUNT FIRST BOARD`.

The last line that it prints is JSON: what was done, or `{"finding": ...}`; then it exits with 0 or 1.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import resource
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.fuzz.board import Board
from tests.fuzz.budget import Budget, Finding

TARGETS = ("pipeline", "tables", "json", "p4runtime", "hosts", "usid", "traced")
_MODULES = {"json": "json_loader"}
_MEMORY_BYTES = 8 << 30


def _find(target: str) -> Callable[[Board, int, Budget], dict[str, Any]]:
    """What runs a target; `planted:FAULT` is one that must fail."""
    name, _, fault = target.partition(":")
    module = importlib.import_module(f"tests.fuzz.{_MODULES.get(name, name)}")
    return partial(module.run, fault) if fault else module.run


def main(argv: list[str]) -> int:
    """Runs one target."""
    target, seed, seconds, count, first, path = argv
    faulthandler.enable()
    # A mutant that asks for all of the machine's memory is to get an error.
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    board = Board(Path(path))
    board.beat()
    try:
        result = _find(target)(board, int(seed), Budget(float(seconds), int(count), int(first)))
    except Finding as finding:
        print(json.dumps({"finding": str(finding)}), flush=True)
        return 1
    print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
