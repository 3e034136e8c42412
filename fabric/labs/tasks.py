# SPDX-License-Identifier: Apache-2.0
"""Tasks of Linux hosts of a lab that is up: each begins at its time and is ended at its time."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Sequence

from detour.fabric.labs.model import LabTask
from detour.fabric.linux.hosts import LinuxHosts

_PATIENCE_S = 1.0
_LOOK_S = 0.1
_log = logging.getLogger(__name__)


class LinuxTasks:
    """A thread for each. `close` ends them all."""

    def __init__(self, linux: LinuxHosts, tasks: Sequence[LabTask], folder: os.PathLike[str]) -> None:
        self._linux, self._folder, self._ended = linux, folder, threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(task,), daemon=True) for task in tasks]
        for thread in self._threads:
            thread.start()

    def _run(self, task: LabTask) -> None:
        if self._ended.wait(task.start_s):
            return
        process = self._linux.begin(task.host, f"cd {shlex.quote(os.fspath(self._folder))} && {task.command}")
        left_s = task.duration_s or float("inf")
        while process.poll() is None and left_s > 0 and not self._ended.wait(min(left_s, _LOOK_S)):
            left_s -= _LOOK_S
        if process.returncode is None:
            _end(process)
        elif process.returncode:
            _log.warning("%s: the task %r ended with %d", task.where, task.name, process.returncode)

    def close(self) -> None:
        """Ends what still runs."""
        self._ended.set()
        for thread in self._threads:
            thread.join()


def _end(process: subprocess.Popen[bytes]) -> None:
    """As p4-utils does: SIGTERM, and SIGKILL a second later; with all that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(_PATIENCE_S)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
