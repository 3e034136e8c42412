# SPDX-License-Identifier: Apache-2.0
"""Compiles all native code by using it: a small fabric on the engine, a message, a verification, a socket driver."""

from __future__ import annotations

import socket

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.engine import warm as loop
from detour.fabric.daemon.daemon import UpOptions, boot
from detour.hosts.driver import Driver
from detour.hosts.state import make_hosts

_TOPOLOGY = "dragonfly:p=1,a=2,h=1"


def warm(tell: Progress = silent) -> None:
    """Fills the caches. Takes under a second if they are full.

    Raises:
        DetourError: what was tried does not work.
    """
    tell("compiling native code (once, less than a minute)")
    loop.ensure(silent)
    session = boot(UpOptions("engine", _TOPOLOGY))
    try:
        if not session.verify()["verified"]:
            raise DetourError("the tables of a small fabric are wrong")
        session.probe("h0", "h5")
        session.send("h0", "h5", 100_000)
    finally:
        session.close()
    _warm_driver()


def _warm_driver() -> None:
    """Lets the socket driver read a frame, write nothing, and end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, Driver(make_hosts(1, 1, 64, window=1, sq_depth=1, cq_depth=1, max_candidates=1)) as driver:
        driver.call(lambda: None)
    theirs.close()
