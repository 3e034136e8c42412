# SPDX-License-Identifier: Apache-2.0
"""The log of a detached fabric: `daemon.log` in its state folder.

Whatever goes to standard error goes there, the words of a crash of native code among it, and all that modules log. It
ends growing at a megabyte, for it lies in memory, as a rule. Where there is no room for it the fabric goes on without.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys

from detour.base.errors import DetourError
from detour.base.progress import Progress
from detour.fabric.daemon.state_dir import UP, StateDir

_LIMIT_BYTES = 1 << 20
_log = logging.getLogger("detour")


class _Handler(logging.StreamHandler):
    """Writes to standard error until the log is full."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if os.fstat(sys.stderr.fileno()).st_size < _LIMIT_BYTES:
                super().emit(record)
        except (OSError, ValueError):
            return


def begin(state: StateDir, progress: Progress) -> Progress:
    """Start the log and let standard error go there. Return a `progress` that notes in it what it tells."""
    try:
        descriptor = state.open_log()
    except OSError as error:
        progress(f"going on without a log: {error.strerror}")
        descriptor = os.open(os.devnull, os.O_WRONLY)
    sys.stderr.flush()
    os.dup2(descriptor, sys.stderr.fileno())
    os.close(descriptor)
    faulthandler.enable()
    handler = _Handler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.raiseExceptions = False  # a full disk is no reason to write about it
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    _log.setLevel(logging.INFO)
    _log.info("process %d starts", os.getpid())

    def note(text: str) -> None:
        _log.info("%s", text)
        progress(text)

    return note


def up() -> None:
    """Notes that the fabric is up."""
    _log.info(UP)


def failed(error: BaseException) -> None:
    """Note what ended the fabric; the last line says it in a sentence."""
    if not isinstance(error, DetourError):
        _log.error("a defect of detour", exc_info=error)
    _log.error("%s", error if isinstance(error, DetourError) else repr(error))
