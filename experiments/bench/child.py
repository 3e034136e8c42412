# SPDX-License-Identifier: Apache-2.0
"""A process of a benchmark's own, apart from the one that measures it: a module that is talked to in lines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError

_PAGE = 4096


def resident(process: int | str = "self") -> int:
    """Bytes of memory of a process that are resident."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE


def told_by(module: str, *arguments: str) -> Any:
    """What `python -m module arguments` prints, as JSON.

    Raises:
        DetourError: it fails.
    """
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DetourError(f"the process that is measured has ended: {' '.join(done.stderr.strip().splitlines()[-1:])}")
    return json.loads(done.stdout)


class Child:
    """`python -m module arguments`; ends with the context."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._module, self._arguments = module, arguments

    def __enter__(self) -> Child:
        command = [sys.executable, "-m", self._module, *self._arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def nudge(self) -> None:
        """A line, which means what the module says."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        """The next line that it prints.

        Raises:
            DetourError: it has ended.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise DetourError(f"{' '.join((self._module, *self._arguments[:1]))}: the process has ended")
        return line
