# SPDX-License-Identifier: Apache-2.0
"""Compiles all native code by using it: a small fabric on the engine, a message, a verification, a socket driver."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from detour.base.errors import DetourError
from detour.base.progress import COMPILING, Progress, silent
from detour.engine import warm as loop
from detour.fabric.daemon.daemon import UpOptions, boot
from detour.hosts.driver import Driver
from detour.hosts.state import make_hosts

_TOPOLOGY = "dragonfly:p=1,a=2,h=1"


def warm(progress: Progress = silent) -> None:
    """Fills the caches of every command that the README names. Takes some seconds if they are full.

    Planners and fabrics share no native code, so two processes compile at the same time.

    Raises:
        DetourError: what was tried does not work.
    """
    COMPILING.hush()
    progress("compiling native code, once on this machine: about a minute on two idle cores")
    with _planners():
        loop.ensure(silent)
        _warm_session()
        _warm_driver()


@contextmanager
def _planners() -> Iterator[None]:
    """Compiles the planners meanwhile."""
    process = subprocess.Popen(
        [sys.executable, "-m", "detour.control.warm"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        yield
        said = process.communicate()[1].strip().splitlines()
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        raise DetourError(f"the planners do not work: {said[-1] if said else process.returncode}")


def _warm_session() -> None:
    session = boot(UpOptions("engine", _TOPOLOGY))
    try:
        if not session.verify().verified:
            raise DetourError("the tables of a small fabric are wrong")
        session.probe("h0", "h5")
        session.send("h0", "h5", 100_000)
    finally:
        session.close()


def _warm_driver() -> None:
    """Lets the socket driver, which runs the hosts of BMv2's fabrics, load all that it needs for one host, and end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    driver = Driver(make_hosts(1, 1, 64, window=1, sq_depth=1, cq_depth=1, max_candidates=1))
    driver.attach(0, ours)
    with theirs, driver:
        driver.call(lambda: None)
