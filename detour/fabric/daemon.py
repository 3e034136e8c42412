# SPDX-License-Identifier: Apache-2.0
"""A fabric that stays up: in the foreground until Ctrl-C, or detached until `detour down`.

`run` is the process itself. `spawn` starts `python -m detour.fabric.daemon` in a session of its own and
returns when that is ready. However it ends, it takes everything with it that it started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.reports import need_address_space, report
from detour.fabric.base import Tell, silent
from detour.fabric.control_socket import ControlServer, call
from detour.fabric.session import Session
from detour.fabric.state_dir import StateDir
from detour.fabric.targets import make_fabric
from detour.topo import parse_topology

DOWN_SECONDS = 30.0
_LOOK_S = 1.0

_OPERATIONS = (
    "provision", "verify", "entries", "status", "counters", "watch", "path", "fail", "heal", "send", "probe",
    "flows", "reroute", "place", "placement", "metrics",
    "watch_flows",
)  # fmt: skip


@dataclass(frozen=True)
class UpOptions:
    """What `detour up` can be told."""

    target: str = "auto"
    topology: str = "d1"
    pcap: str | None = None
    grpc: str | None = None


class Interrupted(KeyboardInterrupt):
    """SIGINT, SIGTERM or SIGHUP came."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP end what is inside as Ctrl-C does; once that has begun, no signal disturbs it."""
    chosen = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(number: int, frame: Any) -> None:
        for each in chosen:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    before = {number: signal.signal(number, interrupt) for number in chosen}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def boot(options: UpOptions, tell: Tell = silent, scratch: Path | None = None) -> Session:
    """A fabric with its pipeline set and all tables written.

    Raises:
        DetourError: something is wrong or missing; nothing is left running.
    """
    topology = parse_topology(options.topology)
    fabric = make_fabric(options.target, topology, scratch=scratch, grpc_address=options.grpc)
    fabric.start(tell)
    session = Session(fabric)
    try:
        if options.pcap is not None:
            fabric.capture(Path(options.pcap))
        tell("setting pipelines")
        session.connect()
        tell("writing tables")
        session.provision()
    except BaseException:
        session.close()
        raise
    return session


def run(
    options: UpOptions,
    tell: Tell = silent,
    ready: Callable[[dict[str, Any]], None] = lambda status: None,
    state: StateDir | None = None,
) -> None:
    """Runs a fabric in this (main) thread until `detour down` or a signal. `ready` gets its status once it is up.

    Raises:
        DetourError: it cannot be started.
        Interrupted: a signal ended it; everything has been cleaned up.
    """
    need_address_space()
    state = state or StateDir()
    with interruptible():
        state.lock()
        try:
            state.record({"target": options.target, "topology": options.topology})
            session = boot(options, tell, state.scratch)
            try:
                state.record({"target": session.fabric.target, "topology": session.topology.spec})
                _serve(session, state, ready)
            finally:
                session.close()
        finally:
            state.release()


def _serve(session: Session, state: StateDir, ready: Callable[[dict[str, Any]], None]) -> None:
    end = threading.Event()
    operations: dict[str, Any] = {name: getattr(session, name) for name in _OPERATIONS}
    operations["down"] = end.set
    server = ControlServer(state.socket, operations)
    try:
        server.start()
        ready(session.status())
        while not end.wait(_LOOK_S):
            session.fabric.check()
    finally:
        server.stop()


def ask(do: str, tell: Tell = silent, state: StateDir | None = None, **arguments: Any) -> Any:
    """Asks the fabric that is up for something.

    Raises:
        DetourError: none is up, or it says why not.
    """
    state = state or StateDir()
    stale = state.remove_stale()
    try:
        return call(state.socket, do, arguments, tell)
    except DetourError as error:
        raise DetourError(f"the fabric that was up has died; {error}") if stale else error from None


def down(state: StateDir | None = None) -> bool:
    """Ends the fabric that is up and waits until all of it is gone; False if there was none.

    Raises:
        DetourError: it does not end.
    """
    state = state or StateDir()
    if not state.is_alive():
        state.remove_stale()
        return False
    call(state.socket, "down", {})
    if not state.wait_until_gone(DOWN_SECONDS):
        raise DetourError(f"the fabric has not ended within {DOWN_SECONDS:g} s")
    return True


def spawn(options: UpOptions, tell: Tell = silent) -> dict[str, Any]:
    """Starts a detached fabric; returns its status once it is up.

    Raises:
        DetourError: it cannot be started; nothing is left.
    """
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "detour.fabric.daemon", json.dumps(asdict(options)), str(writer)]
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
                said = json.loads(line)
                if "ready" in said:
                    return said["ready"]
                if "error" in said:
                    process.wait()
                    raise DetourError(said["error"])
                tell(said["tell"])
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    _, errors = process.communicate()
    last = (errors.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
    raise DetourError(f"the fabric's process ended while it started (status {process.returncode}): {last}")


def _main() -> int:
    """The detached process. Reports to the pipe until it is ready, then to nobody."""
    options, fd = UpOptions(**json.loads(sys.argv[1])), int(sys.argv[2])
    pipe = os.fdopen(fd, "w", buffering=1)

    def say(key: str, value: Any) -> None:
        print(json.dumps({key: value}), file=pipe)

    def ready(status: dict[str, Any]) -> None:
        say("ready", status)
        pipe.close()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stderr.fileno())
        os.close(null)

    try:
        run(options, lambda text: say("tell", text), ready)
    except DetourError as error:
        if not pipe.closed:
            say("error", str(error))
        return 2
    except Interrupted:
        return 0
    except Exception as error:
        return report(error)
    return 0


if __name__ == "__main__":
    sys.exit(_main())
