# SPDX-License-Identifier: Apache-2.0
"""detour: a data-centre fabric that fits on a laptop and in which the sender picks the path.

What is here is documented in docs/python.md and kept; it is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

TYPE_CHECKING = False  # `typing` takes longer to load than all else here, which an interrupt must not meet
if TYPE_CHECKING:
    from typing import Any

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

    __version__: str


def _find_all_of(package: str, part: str) -> None:
    """BMv2's Python tools install a package `google` of their own. On PYTHONPATH it hides that of protobuf, unless what
    is looked for in one is looked for in the other as well, protobuf's first."""
    module = import_module(package)
    if find_spec(f"{package}.{part}") is None:
        import pkgutil  # takes as long as all else here

        module.__path__ = [*reversed(pkgutil.extend_path(list(module.__path__), package))]


_find_all_of("google", "protobuf")
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
    if name == "__version__":
        from detour.base.version import VERSION

        return VERSION
    from detour.experiments import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return __all__
