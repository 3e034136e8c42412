# SPDX-License-Identifier: Apache-2.0
"""Who answers commands: the fabric that is up, over its control socket, or a session in this process (the prompt)."""

from __future__ import annotations

import inspect
from typing import Any

from detour.base.progress import Progress, silent
from detour.base.scoped import Scoped

ANSWERED_BY: Scoped[Any] = Scoped(None)
"""the session of this process that answers commands; None: the daemon does"""


def ask(do: str, tell: Progress = silent, **arguments: Any) -> Any:
    """Has an operation of `fabric/operations/registry.py` carried out.

    Raises:
        DetourError: no fabric is up, or it says why not.
    """
    session = ANSWERED_BY.value
    if session is None:
        from detour.fabric.daemon import daemon

        return daemon.ask(do, tell, **arguments)
    method = getattr(session, do)
    if "tell" in inspect.signature(method).parameters:
        arguments["tell"] = tell
    return method(**arguments)
