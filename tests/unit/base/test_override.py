# SPDX-License-Identifier: Apache-2.0
"""A value of the process that is another one for a while."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from detour.base.override import Override
from detour.cli.asking import ANSWERED_BY, running
from detour.fabric.operations.registry import Operations


def _look_and_fail(override: Override[str], values: list[str]) -> None:
    with override.set_to("meanwhile"):
        values.append(override.value)
        raise KeyError


def test_it_is_back_afterwards_whatever_happened() -> None:
    override, values = Override("before"), []
    with pytest.raises(KeyError):
        _look_and_fail(override, values)
    assert (values, override.value) == (["meanwhile"], "before")


def test_another_thread_asks_the_same_session() -> None:
    class Answers:
        def status(self) -> str:
            return "of the session"

    answers: list[object] = []
    with ANSWERED_BY.set_to(cast(Operations, Answers())):
        thread = threading.Thread(target=lambda: answers.append(running().status()))
        thread.start()
        thread.join()
    assert answers == ["of the session"]
