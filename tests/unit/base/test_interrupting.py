# SPDX-License-Identifier: Apache-2.0
"""Threads whose start a signal interrupts."""

from __future__ import annotations

import threading
import time

import pytest

from detour.base.addresses import TcpAddress
from detour.base.interrupting import Interrupted, join_thread
from detour.engine.bmv2api.server import ThriftServer


def test_a_thread_that_begins_late_is_waited_for() -> None:
    done: list[int] = []

    def work() -> None:
        time.sleep(0.05)
        done.append(1)

    late = threading.Thread(target=work)
    starter = threading.Timer(0.05, late.start)
    starter.start()
    with pytest.raises(RuntimeError, match="before it is started"):
        late.join()
    join_thread(late)
    assert done == [1]


def test_a_thread_that_never_begins_is_not() -> None:
    join_thread(threading.Thread(target=print))


def test_a_thread_cannot_wait_for_itself() -> None:
    with pytest.raises(RuntimeError, match="current thread"):
        join_thread(threading.current_thread())


@pytest.mark.parametrize("begins", [True, False])
def test_a_server_stops_whose_start_was_interrupted(monkeypatch: pytest.MonkeyPatch, begins: bool) -> None:
    """`detour down` while a fabric boots: it ended with "cannot join thread before it is started"."""
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if begins:
            start(threading.Timer(0.05, start, [thread]))
        raise Interrupted

    with ThriftServer(TcpAddress("localhost", 0)) as server:
        server.bind()
        monkeypatch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(Interrupted):
            server.serve({})
        monkeypatch.undo()
