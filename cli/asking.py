# SPDX-License-Identifier: Apache-2.0
"""Who answers commands: the fabric that is up, over its control socket, or a session in this process (the prompt)."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from detour.base.progress import Progress, silent

_session: ContextVar[Any] = ContextVar("session", default=None)


def ask(do: str, tell: Progress = silent, **arguments: Any) -> Any:
    """Has an operation of `fabric/operations/registry.py` carried out.

    Raises:
        DetourError: no fabric is up, or it says why not.
    """
    session = _session.get()
    if session is None:
        from detour.fabric.daemon import daemon

        return daemon.ask(do, tell, **arguments)
    method = getattr(session, do)
    if "tell" in inspect.signature(method).parameters:
        arguments["tell"] = tell
    return method(**arguments)


@contextmanager
def answered_by(session: Any) -> Iterator[None]:
    """Commands are answered by a session of this process meanwhile."""
    before = _session.set(session)
    try:
        yield
    finally:
        _session.reset(before)
