# SPDX-License-Identifier: Apache-2.0
"""The process in which a target runs: `python -m tests.fuzz.child TARGET SEED SECONDS COUNT FIRST BOARD`.

The last line that it prints is JSON: what was done, or `{"finding": ...}`; then it exits with 0 or 1.
"""

from __future__ import annotations

import faulthandler
import hashlib
import importlib
import json
import resource
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba

import detour.base.jit  # noqa: F401  (sets the folder of the cache)
from tests.fuzz.board import Board
from tests.fuzz.budget import Budget, Finding

TARGETS = ("pipeline", "tables", "json", "p4runtime", "hosts", "usid")
_MODULES = {"json": "json_loader"}
_OWN_CACHE = ("hosts", "planted:hosts", "usid")
"""targets that run on the engine and hosts as they are, from detour's own cache"""
_MEMORY_BYTES = 8 << 30


def _cache_own_code() -> None:
    """Native code of the fuzzer is cached for the next child; by a digest, since it is inlined across files."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    folder = f"{numba.config.CACHE_DIR}-fuzz-{digest.hexdigest()[:16]}"  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = folder  # type: ignore[attr-defined]


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
    if target not in _OWN_CACHE:
        _cache_own_code()
    try:
        result = _find(target)(board, int(seed), Budget(float(seconds), int(count), int(first)))
    except Finding as finding:
        print(json.dumps({"finding": str(finding)}), flush=True)
        return 1
    print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
