# SPDX-License-Identifier: Apache-2.0
"""Start and stop a fabric that stays up. Loads nothing of the fabric itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from typing import Any

from detour.base import descriptors
from detour.base.errors import DetourError, error_of
from detour.base.progress import Progress, silent
from detour.base.records import from_json
from detour.fabric.daemon.control_socket import call
from detour.fabric.daemon.options import UpOptions
from detour.fabric.daemon.state_dir import StateDir

DOWN_SECONDS = 30.0
_ASKED_S = 10.0  # to answer `down`; then it is told by signals
_KILLED_S = 10.0


def down(state: StateDir | None = None) -> bool:
    """End the fabric that is up and wait until all of it is gone; False if there was none. One that does not answer
    is told by SIGTERM, one that does not end by SIGKILL; what it leaves is removed. Raises DetourError: it does not
    end."""
    state = state or StateDir()
    if not state.is_alive():
        state.remove_stale()
        return False
    process = state.process()
    state.ask_to_end()
    try:
        call(state.socket, "down", {}, limit_s=_ASKED_S, silence_s=_ASKED_S)
        patience = DOWN_SECONDS
    except DetourError:
        patience = 0.0  # it has ended just now, or it must be told otherwise
    for number, seconds in ((None, patience), (signal.SIGTERM, DOWN_SECONDS), (signal.SIGKILL, _KILLED_S)):
        if number is not None and process is not None:
            state.signal(process, number)
        if state.wait_until_gone(seconds):
            state.remove_stale()
            return True
    raise DetourError(f"the fabric{f' (process {process})' if process else ''} does not end")


def _status_of(options: UpOptions, status: Any) -> Any:
    if options.lab is None:
        from detour.fabric.operations.results import Status

        return from_json(Status, status)
    from detour.fabric.labs.running import LabStatus

    return from_json(LabStatus, status)


def spawn(options: UpOptions, progress: Progress = silent) -> Any:
    """Start a detached fabric; return its status (of a lab a `LabStatus`) once it is up: after a first step ran.
    Raises DetourError: it cannot be started; nothing is left."""
    descriptors.require(descriptors.PROCESS, "a fabric")
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "detour.fabric.daemon.daemon", json.dumps(asdict(options)), str(writer)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=[writer],
        start_new_session=True,
    )
    os.close(writer)
    try:
        with os.fdopen(reader) as lines:
            for line in lines:
                message = json.loads(line)
                if "ready" in message:
                    return _status_of(options, message["ready"])
                if "error" in message:
                    process.wait()
                    raise error_of(*message["error"])
                progress(message["tell"])
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    _, errors = process.communicate()
    last = (errors.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
    state = StateDir()
    state.remove_stale()  # if it was killed, nobody else has
    words = state.last_words()
    if words:
        last = f"{words[0]} (its log: {words[1]})"
    raise DetourError(f"the fabric's process ended while it started (status {process.returncode}): {last}")
