# SPDX-License-Identifier: Apache-2.0
"""A program that builds parts (`parts.BUILD_COMMAND`), so that it does not matter whether a process that needs one has
used Numba itself.

`NAME MODULE...` builds for the cache and says what that took; `--object` before it prints the object instead.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from importlib.util import find_spec

from detour.base.children import end_with_parent
from detour.base.native.parts import NO_NUMBA, PARENT, PARTS, Part


def _build(part: Part) -> tuple[bytes, bool]:
    if find_spec("numba") is None:
        sys.exit(NO_NUMBA)
    from detour.base.native import building, numba_private

    numba_private.install()  # before any function is compiled

    return building.build(part.name, part.entries.values())


def _main() -> None:
    end_with_parent(int(os.environ.get(PARENT, os.getppid())))  # the LLVM compiler hears no signal but SIGKILL
    answer = os.dup(1)
    os.dup2(2, 1)  # what modules print is not an answer
    whole = sys.argv[1] == "--object"
    name, *modules = sys.argv[1 + whole :]
    for module in modules:
        importlib.import_module(module)
    part, began = PARTS[name], time.monotonic()
    data = _build(part)[0] if whole else part.build(lambda: _build(part))
    taken = {"seconds": round(time.monotonic() - began, 3), "cpu_seconds": round(time.process_time(), 3)}
    report = {"name": name, "functions": part.functions} | taken | {"cached": not part.was_built}
    sys.stdout.flush()
    os.dup2(answer, 1)
    sys.stdout.buffer.write(data if whole else f"{json.dumps(report)}\n".encode())


if __name__ == "__main__":
    _main()
