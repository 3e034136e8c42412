# SPDX-License-Identifier: Apache-2.0
"""Congestion control, by name. What transports call is in `control`, how an algorithm is written in `own`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from detour.base import doors
from detour.base.errors import DetourError
from detour.hosts.cc.own import CongestionAlgorithm


def _adopt(name: str, found: Any) -> CongestionAlgorithm:
    if not isinstance(found, CongestionAlgorithm):
        raise DetourError(f"{name} is a {type(found).__name__}, and not a CongestionAlgorithm")
    return replace(found, name=doors.pinned(name))


CC_REGISTRY: doors.Registry[CongestionAlgorithm] = doors.Registry(
    "congestion_control",
    "congestion control",
    {
        "dctcp": "detour.hosts.cc.dctcp:DCTCP",
        "dcqcn": "detour.hosts.cc.dcqcn:DCQCN",
        "fixed": "detour.hosts.cc.fixed:FIXED",
        "newreno": "detour.hosts.cc.newreno:NEWRENO",
        "cubic": "detour.hosts.cc.cubic:CUBIC",
        "nscc": "detour.hosts.cc.nscc:NSCC",
    },
    _adopt,
    any_case=True,
)


def algorithm(text: str) -> CongestionAlgorithm:
    """The congestion control that a text names: `dctcp`, `dcqcn`, `fixed`, `newreno`, `cubic`, `nscc`, one of an
    installed package (group `detour.congestion_control`), or `FILE.py:NAME`; with other parameters
    `FILE.py:NAME:target_us=30`.

    Raises:
        DetourError: there is none, or no such parameter.
    """
    name, rest = doors.split(text)
    return CC_REGISTRY.find(name).with_values(doors.values_of(text, rest))


def pinned(text: str) -> str:
    """The same text, checked, with a digest of the file that it names, if it does (`doors.pinned`).

    Raises:
        DetourError: see `algorithm`.
    """
    algorithm(text)
    name, rest = doors.split(text)
    return doors.pinned(name) + (f":{rest}" if rest else "")
