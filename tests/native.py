# SPDX-License-Identifier: Apache-2.0
"""Native functions that the product calls from native code only, for tests to call from Python."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from detour.base.jit import COMPILED, Native
from detour.hosts.cc import algorithm, control
from detour.hosts.cc.plugin import CongestionAlgorithm
from detour.hosts.parameters import host_config
from detour.hosts.plugins import Plugin
from detour.hosts.state import Hosts, make_hosts
from detour.hosts.verbs import algorithms


def compiled(function: Any) -> Any:
    """A function as native code, with arguments as Numba takes them: numbers, arrays, records of arrays."""
    if not COMPILED:
        return function
    import numba

    from detour.base.native import building, numba_private

    assert building  # it tells Numba of native functions
    options: Any = numba_private.OPTIONS | {"no_cpython_wrapper": False}
    return numba.njit(function, **options)


def from_python(function: Any) -> Any:
    """A native function that Python can call."""
    return compiled(function.py_func) if COMPILED else function


class FromPython:
    """The native functions of a module, by their names there; everything else as it is."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._module, name)
        if isinstance(member, Native):
            member = from_python(member)
        setattr(self, name, member)
        return member


_control = FromPython(control)


def controlled(chosen: str | CongestionAlgorithm, window: float, *, rows: int = 1, **settings: Any) -> Hosts:
    """QPs that begin with a congestion control and a window."""
    hs = make_hosts(1, rows, 64, config=host_config(**settings))
    control_all(hs, chosen)
    for row in range(rows):
        _control.on_path(hs.cfg[0], hs.qp[row], window, 0)
    return hs


def parameters_of(hs: Hosts, plugin: Plugin) -> Any:
    """Parameters that a plug-in's hooks are given on these hosts."""
    return plugin.on_hosts(hs.plugin_values).parameter_record(lambda name: hs.cfg[0][name])[0]


def control_all(hs: Hosts, chosen: str | CongestionAlgorithm) -> Any:
    """Gives all QPs a congestion control; returns what each has of it."""
    control = algorithm(chosen)
    algorithms.give(hs, np.arange(len(hs.qp)), control)
    return algorithms.state_of(hs, control)


def control_state(hs: Hosts) -> Any:
    """What each QP has of the one congestion control that all of these hosts have."""
    plugins = (bound.algorithm for bound in hs.plugins)
    (chosen,) = (one for one in plugins if isinstance(one, CongestionAlgorithm))
    return algorithms.state_of(hs, chosen)
