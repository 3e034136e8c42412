# SPDX-License-Identifier: Apache-2.0
"""A value of the process that is another one for a while."""

from __future__ import annotations

import threading

import pytest

from detour.base.scoped import Scoped
from detour.cli.asking import ANSWERED_BY, ask


def _look_and_fail(scoped: Scoped[str], found: list[str]) -> None:
    with scoped.set_to("meanwhile"):
        found.append(scoped.value)
        raise KeyError


def test_it_is_back_afterwards_whatever_happened() -> None:
    scoped, found = Scoped("before"), []
    with pytest.raises(KeyError):
        _look_and_fail(scoped, found)
    assert (found, scoped.value) == (["meanwhile"], "before")


def test_another_thread_asks_the_same_session() -> None:
    class Answers:
        def status(self) -> str:
            return "of the session"

    found: list[str] = []
    with ANSWERED_BY.set_to(Answers()):
        thread = threading.Thread(target=lambda: found.append(ask("status")))
        thread.start()
        thread.join()
    assert found == ["of the session"]
