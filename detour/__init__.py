# SPDX-License-Identifier: Apache-2.0
"""detour: a data-centre fabric that fits on a laptop and in which the sender picks the path.

What is here is documented in docs/python.md and kept; it is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detour.experiments.api import (
        DetourError,
        Simulation,
        TaskGraph,
        TaskList,
        Topology,
        boot,
        lab,
        names,
        place,
        replay,
        scheme,
        simulate,
        topology,
    )

__version__ = "0.1.0"
__all__ = [
    "DetourError",
    "Simulation",
    "TaskGraph",
    "TaskList",
    "Topology",
    "__version__",
    "boot",
    "lab",
    "names",
    "place",
    "replay",
    "scheme",
    "simulate",
    "topology",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'detour' has no attribute {name!r}; it has {', '.join(__all__)}")
    from detour.experiments import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return __all__
