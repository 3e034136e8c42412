# SPDX-License-Identifier: Apache-2.0
"""The destination address of a packet at each hop of its path, as uSIDs are shifted out."""

from __future__ import annotations

from collections.abc import Sequence

from detour.topo import address


def addresses_on(usids: Sequence[int], nodes: Sequence[int]) -> list[str]:
    """The address with which a packet comes to each switch of its path. `usids`: its list, the host's last; `nodes`:
    node ids of the switches, in order. A switch whose uSID is the active one shifts it out (RFC 9800, 4.1.1), and so it
    does with that of one of its links (uA), which is known to nobody else."""
    left, found = list(usids), []
    for node in nodes:
        found.append(address.ipv6_text(address.usid_address(left)))
        while len(left) > 1 and (left[0] == node or left[0] >= address.FIRST_FUNCTION):
            left.pop(0)
    return found
