# SPDX-License-Identifier: Apache-2.0
"""Who answers commands: the fabric that is up, over its control socket, or a session in this process (the prompt)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from detour.base.progress import silent
from detour.base.scoped import Scoped
from detour.fabric.operations.registry import OPERATIONS, Operations

if TYPE_CHECKING:
    from detour.fabric.labs.running import LabStatus

ANSWERED_BY: Scoped[Operations | None] = Scoped(None)
"""the session of this process that answers commands; None: the daemon does"""


def running() -> Operations:
    """The fabric that is asked. Its operations raise `DetourError` if none is up, or with what it says."""
    return ANSWERED_BY.value or cast(Operations, _Daemon())


def running_lab() -> LabStatus | None:
    """What is up if it is a lab; None: it is not, or nothing is.

    Raises:
        DetourError: it does not answer.
    """
    if ANSWERED_BY.value is not None:
        return None
    from detour.fabric.daemon import client
    from detour.fabric.daemon.state_dir import StateDir

    state = StateDir()
    if not state.is_alive() or state.known().get("target") != "lab":
        return None
    from detour.base.records import from_json
    from detour.fabric.labs.running import LabStatus

    return from_json(LabStatus, client.ask("lab", warn=_warn))


def _warn(text: str) -> None:
    print(f"detour: {text}", file=sys.stderr, flush=True)


class _Daemon:
    """The daemon's operations."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = OPERATIONS[name]

        def ask(*values: Any, **more: Any) -> Any:
            from detour.base.records import from_json
            from detour.fabric.daemon import client

            arguments = operation.arguments(*values, **more)
            answer = client.ask(name, arguments.pop("progress", silent), warn=_warn, **arguments)
            return from_json(operation.result, answer)

        return ask
