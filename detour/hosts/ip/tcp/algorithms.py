# SPDX-License-Identifier: Apache-2.0
"""Congestion control of connections, by name."""

from __future__ import annotations

from typing import Any

from detour.base import plugins
from detour.base.errors import DetourError
from detour.hosts.cc import algorithm, plugin
from detour.hosts.cc.dctcp_tcp import DCTCP_OF_TCP
from detour.hosts.cc.plugin import HOST_PARAMETERS, CongestionAlgorithm
from detour.hosts.ip.tcp.layout import CC_BYTES, ConnRecord
from detour.hosts.plugins import Bound


def chosen(text: str) -> CongestionAlgorithm:
    """The algorithm that a text names (`hosts.cc.algorithm`). Raises DetourError if there is none, or it is not for
    TCP."""
    name, rest = plugins.split(text)
    if name.casefold() == DCTCP_OF_TCP.name:
        return DCTCP_OF_TCP.with_values(plugins.values_of(text, rest))
    control = algorithm(text)
    if control.parameters is None or control.rate_based:
        raise DetourError(f"{control.name} does not support TCP; use newreno, cubic, dctcp or FILE.py:NAME")
    if control.row.itemsize > CC_BYTES:
        raise DetourError(
            f"{control.name} keeps {control.row.itemsize} bytes per connection; expected at most {CC_BYTES}"
        )
    return control


def is_dctcp(control: CongestionAlgorithm) -> bool:
    """Return whether receivers are to echo every mark."""
    return control.name == DCTCP_OF_TCP.name


def bind(control: CongestionAlgorithm, link_rate_bps: int, mss: int, most: int) -> Bound:
    """Return the algorithm's hooks, compiled for connections."""
    values: dict[str, Any] = dict.fromkeys(HOST_PARAMETERS, 0)
    values |= {"link_rate_bps": link_rate_bps, "payload": mss, "min_cwnd": 1, "max_cwnd": most, "tick_ps": 1}
    return Bound(control, control.parameter_record(values.__getitem__), plugin.entry_of, ConnRecord.dtype)
