# SPDX-License-Identifier: Apache-2.0
"""The log of a switch, its lines as BMv2 writes them: `[06:01:25.762] [bmv2] [I] [thread 28289] text`.
Also what simple_switch would write of every packet (`-L debug|trace`)."""

from __future__ import annotations

import logging
import logging.handlers
import sys
import threading
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.engine.network import Network
from detour.engine.switch.options import SwitchOptions
from detour.engine.trace import LOG_TRACE
from detour.engine.trace.bmv2_lines import PacketLines
from detour.engine.trace.recorder import Recorder, traced

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


# -- what happens to packets: lines as BMv2 writes them

_RING_BYTES = 64 << 20
_MOST_TRACES = 1 << 22
"""then numbers begin anew: headers have room for 24 bits"""


class PacketLog:
    """Of one switch of a network. Whoever changes its pipeline does it between `stop` and `start`."""

    def __init__(self, network: Network, switch: int, log: logging.Logger, drop_port: int) -> None:
        self._network, self._switch, self._log, self._drop_port = network, switch, log, drop_port
        self._lock = threading.RLock()
        self._recorder: Recorder | None = None
        self._lines: PacketLines | None = None
        self._lost = 0
        self._packets = 0

    def start(self, program: Any) -> None:
        """Logs packets through a program from now on, the one that the switch has."""
        traced(program, program.covered)  # compiles, which takes long, and the loop stands while a recorder starts
        with self._lock:
            self._recorder = Recorder(
                self._network, switches=[self._switch], count=_MOST_TRACES, follow=False, ring_bytes=_RING_BYTES
            )
            self._recorder.start()
            self._lines = None
            self._lost = 0

    def stop(self) -> None:
        """Writes what there is, and logs no more packets."""
        with self._lock:
            if self._recorder is None:
                return
            self._recorder.stop()
            self._drain(self._recorder)
            self._packets += self._recorder.ring.begun
            self._recorder = None

    def drain(self) -> None:
        """Writes what packets have done since the last call."""
        with self._lock:
            recorder = self._recorder
            if recorder is None:
                return
            self._drain(recorder)
            if recorder.ring.begun >= _MOST_TRACES:
                program = self._network.state(self._switch).program
                self.stop()
                self.start(program)

    def _drain(self, recorder: Recorder) -> None:
        for run, reader in recorder.executions():
            if self._lines is None:
                model = self._network.state(self._switch).program.model
                self._lines = PacketLines(model, reader, self._drop_port, self._packets)
                self._lines.replication = lambda: self._network.replication(self._switch)
            for level, text in self._lines.lines(run):
                self._log.log(level, "%s", text)
        lost = recorder.ring.missed + recorder.ring.lost
        if lost > self._lost:
            self._log.warning("%d packets came too fast to be logged", lost - self._lost)
            self._lost = lost
