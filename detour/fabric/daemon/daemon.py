# SPDX-License-Identifier: Apache-2.0
"""A fabric that stays up: in the foreground until Ctrl-C, or detached until `detour down`.

`run` is the process itself; `client.spawn` starts `python -m detour.fabric.daemon.daemon` in a session of its own.
However it ends, it takes everything with it that it started. A detached fabric keeps a log in the state folder: its
standard error and what modules log.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from detour.base import descriptors
from detour.base.errors import DetourError
from detour.base.interrupting import Interrupted, interruptible
from detour.base.progress import Progress, silent
from detour.base.records import as_json
from detour.base.reports import need_address_space, report
from detour.control.graph_files import open_topology
from detour.control.p4runtime.pipeline import PipelineConfig
from detour.fabric.backends.settings import BackendChanges
from detour.fabric.backends.targets import choose, make_fabric
from detour.fabric.daemon import log
from detour.fabric.daemon.control_socket import ControlServer
from detour.fabric.daemon.options import UpOptions as UpOptions
from detour.fabric.daemon.state_dir import StateDir
from detour.fabric.linux.hosts import request
from detour.fabric.operations.registry import OPERATIONS
from detour.fabric.operations.results import Status
from detour.fabric.operations.session import Session
from detour.fabric.traffic.workload import load_pairs

_LOOK_S = 1.0


class EndedByDown(DetourError):
    """`detour down` has ended the fabric of this process, which has cleaned up. That is what was asked for, so the exit
    code is 0."""

    exit_code = 0

    def __init__(self) -> None:
        super().__init__("`detour down` has ended this fabric")


def boot(options: UpOptions, progress: Progress = silent, scratch: Path | None = None) -> Session:
    """A fabric with its pipeline set and all tables written. Raises DetourError: something is wrong or missing; nothing
    is left running."""
    topology = open_topology(options.topology)
    pipeline = None if options.program is None else PipelineConfig.given(options.program)
    changes = BackendChanges(
        options.rate_bps, options.delay_ps, options.queue_packets, options.loss, pipeline, options.routing
    )
    if options.coverage is not None and choose(options.target) == "bmv2":
        raise DetourError("--coverage needs --target engine or virtual")
    if options.load is not None:
        load_pairs(topology, options.load, seed=1)  # what is wrong with it is told before anything is up
    fabric = make_fabric(
        options.target,
        topology,
        scratch=scratch,
        grpc_address=options.grpc,
        grpc_tls=options.grpc_tls,
        changes=changes,
        linux=request(topology, options.linux, options.netns, options.mtu, options.queue_packets),
        pace=options.pace,
        progress=progress,
    )
    progress("setting pipelines")
    session = Session(fabric)
    try:
        if options.pcap is not None:
            session.capture(options.pcap)
        progress("writing tables")
        session.provision()
        if options.load is not None:
            session.load(options.load)
    except BaseException:
        session.close()
        raise
    return session


def run(
    options: UpOptions,
    progress: Progress = silent,
    ready: Callable[[Any], None] = lambda status: None,
    state: StateDir | None = None,
    detached: bool = False,
) -> None:
    """Run a fabric, or a lab, in this (main) thread until `detour down` or a signal. `ready` gets its status once it
    is up (of a lab a `LabStatus`). `detached`: with a log in the state folder, to which standard error goes as well.
    Raises DetourError: it cannot be started. Interrupted: a signal ended it; everything has been cleaned up."""
    descriptors.require(descriptors.PROCESS, "a fabric")
    need_address_space()
    state = state or StateDir()
    with interruptible():
        state.lock()
        died = is_up = False

        def now_up(status: Any) -> None:
            nonlocal is_up
            is_up = True
            ready(status)

        try:
            state.forget_last_log()
            if detached:
                progress = log.begin(state, progress)
            with _covered(options):
                run_it = _run_fabric if options.lab is None else _run_lab
                run_it(options, progress, state, now_up, detached)
        except Interrupted:
            if state.is_to_end:
                raise EndedByDown from None
            raise
        except BaseException as error:
            died = is_up or not isinstance(error, DetourError)  # otherwise the user is told at once
            if detached:
                log.failed(error)
            raise
        finally:
            state.release(died)


def _covered(options: UpOptions) -> AbstractContextManager[object]:
    """Collect coverage meanwhile if that is wanted. Raises DetourError: the file cannot be written."""
    if options.coverage is None:
        return nullcontext()
    from detour.engine.coverage.document import collecting  # takes half a second

    return collecting(Path(options.coverage))


def _run_fabric(
    options: UpOptions, progress: Progress, state: StateDir, ready: Callable[[Any], None], detached: bool
) -> None:
    state.record({"target": options.target, "topology": options.topology})
    session = boot(options, progress, state.scratch)
    try:
        state.record({"target": session.fabric.target, "topology": session.topology.spec})
        _serve(session, state, ready, detached)
    finally:
        session.close()


def _run_lab(
    options: UpOptions, progress: Progress, state: StateDir, ready: Callable[[Any], None], detached: bool
) -> None:
    from detour.fabric.daemon.lab import boot_lab, serve_lab

    state.record({"target": "lab", "topology": options.lab})
    lab = boot_lab(options, progress)
    try:
        serve_lab(lab, state, ready, detached)
    finally:
        lab.close()


def _serve(session: Session, state: StateDir, ready: Callable[[Status], None], detached: bool) -> None:
    def status() -> Status:
        return replace(session.status(), log=str(state.log) if detached and state.log.exists() else None)

    end = threading.Event()
    with _answering(session, state, status, end.set):
        session.fabric.first_step()
        if detached:
            log.up()
        ready(status())
        while not end.wait(_LOOK_S):
            session.fabric.check()


def _answering(
    session: Session, state: StateDir, status: Callable[[], Status], down: Callable[[], None]
) -> ControlServer:
    """Return the server that answers commands at the control socket. `down`: the action of `detour down`."""
    operations: dict[str, Any] = {name: getattr(session, name) for name in OPERATIONS}
    return ControlServer(state.socket, operations | {"down": down, "status": status}, warning=session.warning)


@contextmanager
def found_by_others(options: UpOptions) -> Iterator[Callable[[Session], AbstractContextManager[object]]]:
    """For a fabric that this process runs for itself: yields what lets commands elsewhere find a session, once there is
    one. `detour down` ends it as a signal would (`interruptible`), and raises `EndedByDown` here. Where a fabric is up
    already that one is found and this one is not; nor is it where the state folder cannot be used."""
    state = StateDir()
    try:
        state.lock()
    except DetourError:
        yield lambda session: nullcontext()
        return
    try:
        state.record({"target": options.target, "topology": options.topology})

        def answering(session: Session) -> AbstractContextManager[object]:
            state.record({"target": session.fabric.target, "topology": session.topology.spec})

            def end() -> None:
                state.ask_to_end()
                os.kill(os.getpid(), signal.SIGTERM)

            return _answering(session, state, lambda: replace(session.status(), log=None), end)

        yield answering
    except Interrupted:
        if state.is_to_end:
            raise EndedByDown from None
        raise
    finally:
        state.release()


def _main() -> int:
    """The detached process. Reports to the pipe until it is ready, then to nobody."""
    options, fd = UpOptions(**json.loads(sys.argv[1])), int(sys.argv[2])
    pipe = os.fdopen(fd, "w", buffering=1)

    def say(key: str, value: Any) -> None:
        try:
            print(json.dumps({key: value}), file=pipe)
        except BrokenPipeError:
            raise Interrupted("the client that waited for the fabric has gone") from None

    def ready(status: Any) -> None:
        say("ready", as_json(status))
        pipe.close()

    try:
        run(options, lambda text: say("tell", text), ready, detached=True)
    except DetourError as error:
        if not pipe.closed:
            with suppress(Interrupted):
                say("error", [str(error), error.exit_code])
        return 2
    except Interrupted:
        return 0
    except Exception as error:
        return report(error)
    return 0


if __name__ == "__main__":
    sys.exit(_main())
