# SPDX-License-Identifier: Apache-2.0
"""Packages that only some commands need, the extras of `pyproject.toml`."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.places import PACKAGE

_OF_MAKE = ("plan", "plot")
"""what `make tools` installs"""


def require(module: str, package: str, extra: str, what: str) -> None:
    """See that a module of an extra is there. Raises `DetourError`: `what` needs the package, and how to get it."""
    if find_spec(module) is None:
        raise DetourError(f"{what} needs {package}: {_installing(extra)}")


def _installing(extra: str) -> str:
    """The command that adds an extra to this installation: to a checkout, which is installed as it lies there, or to an
    installed package."""
    pip = Path(sys.executable).with_name("pip")
    command = f"{_shown(pip)} install" if pip.exists() else f"{_shown(Path(sys.executable))} -m pip install"
    checkout = PACKAGE.parent
    if not (checkout / "pyproject.toml").is_file():
        return f"{command} 'detour-fabric[{extra}]'"
    make = f", or `make tools` in {_shown(checkout)}" if extra in _OF_MAKE else ""
    return f"{command} -e '{_shown(checkout)}[{extra}]'{make}"


def _shown(path: Path) -> str:
    """A path from the current folder, if it is in it."""
    near = os.path.relpath(path)
    return os.fspath(path) if near.startswith(os.pardir) else near
