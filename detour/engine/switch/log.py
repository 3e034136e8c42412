# SPDX-License-Identifier: Apache-2.0
"""The log of a switch, its lines as BMv2 writes them: `[06:01:25.762] [bmv2] [I] [thread 28289] text`."""

from __future__ import annotations

import logging
import logging.handlers
import sys
import threading
from pathlib import Path

from detour.base.errors import DetourError
from detour.engine.switch.options import SwitchOptions
from detour.engine.trace import LOG_TRACE

NAME = "bmv2"
_LEVELS = {
    "trace": LOG_TRACE, "debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}  # fmt: skip


class _Lines(logging.Formatter):
    """BMv2's pattern; harnesses search for what comes after it."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s.%(msecs)03d] [bmv2] [%(letter)s] [thread %(native)d] %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        record.letter = "T" if record.levelno == LOG_TRACE else record.levelname[0]
        record.native = threading.get_native_id()
        return super().format(record)


def _rotated(name: str) -> str:
    """`switch.txt.1` is called `switch.1.txt` in BMv2."""
    stem, _, number = name.rpartition(".txt.")
    return f"{stem}.{number}.txt" if stem else name


def open_log(options: SwitchOptions) -> logging.Logger:
    """The logger of the process, set up as the options say. What it says before that is lost."""
    logging.raiseExceptions = False  # a full disk is no reason to write about it
    logger = logging.getLogger(NAME)
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()
    logger.propagate = False
    logger.setLevel(_LEVELS[options.log_level])
    logger.addHandler(_handler(options))
    return logger


def _handler(options: SwitchOptions) -> logging.Handler:
    handler: logging.Handler
    if options.log_console:
        handler = logging.StreamHandler(sys.stdout)
    elif options.log_file is not None:
        handler = _file(options.log_file, options)
    else:
        return logging.NullHandler()
    handler.setFormatter(_Lines())
    return handler


def _file(path: Path, options: SwitchOptions) -> logging.Handler:
    full = path.with_name(path.name + ".txt")
    try:
        handler = logging.handlers.RotatingFileHandler(
            full, maxBytes=options.log_file_bytes, backupCount=options.log_file_count, encoding="utf-8"
        )
    except OSError as error:
        raise DetourError(f"detour switch: the log {full} cannot be written: {error.strerror}") from None
    handler.namer = _rotated
    return handler
