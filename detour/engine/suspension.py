# SPDX-License-Identifier: Apache-2.0
"""Links as native code that suspends flows (`loop.suspension`) knows them. Only with the loop's turn."""

from __future__ import annotations

from detour.base.arrays import Int64Array
from detour.engine.wiring import Port, Wiring


def loop_address(wiring: Wiring) -> int:
    """Return the address of the loop's globals."""
    return wiring.memory.address


def frame_places(wiring: Wiring) -> tuple[dict[Port, tuple[int, int]], dict[int, tuple[int, int]]]:
    """Index and outgoing channel of every port that has a cable, and of every host's NIC."""
    nics = wiring.memory.column("nics", "channel")
    ports = {port: (wiring.port_index(port), cable.out_channel) for port, cable in wiring.cables.items()}
    return ports, {host: (nic, int(nics[nic])) for host, nic in wiring.nics.items()}


def link_rates(wiring: Wiring) -> Int64Array:
    """Return the rates of all channels."""
    return wiring.memory.column("channels", "rate_bps")


def link_delays(wiring: Wiring) -> Int64Array:
    """Return the delays of all channels, ps."""
    return wiring.memory.column("channels", "delay_ps")
