# SPDX-License-Identifier: Apache-2.0
"""The cyclic collector is off while a batch is worked on, and afterwards what it was before."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from detour.base.garbage import HELD_OFF


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_on else gc.disable)()


def test_the_collector_comes_back_when_the_last_one_leaves() -> None:
    with HELD_OFF:
        with HELD_OFF:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_comes_back_after_an_error() -> None:
    with pytest.raises(ValueError, match="of the batch"), HELD_OFF:
        raise ValueError("of the batch")
    assert gc.isenabled()


def test_a_thread_that_leaves_first_does_not_switch_it_on_for_another() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with HELD_OFF:
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    with HELD_OFF:
        leave.set()
        thread.join(10)
        assert not thread.is_alive()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with HELD_OFF:
        pass
    assert not gc.isenabled()
