# SPDX-License-Identifier: Apache-2.0
"""What `detour status` says of a fabric that only some footings have. Loads nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType


@dataclass(frozen=True)
class ServedAt:
    """Where the engine serves P4Runtime. `socket`: of this user alone; `address`: the one that others may reach, which
    is the socket too if none was asked for; `reach`: who can."""

    socket: str
    address: str
    tls: bool
    reach: str


@dataclass(frozen=True, kw_only=True)
class FootingDetails:
    """UNSET: this footing has no such thing. `lag_ms`: how far the engine is behind the wall clock. On BMv2 `processes`
    (ids) and `restarts` of switches by name, `namespaces`: of the hosts, and of all `switches`."""

    lag_ms: float | UnsetType = UNSET
    p4runtime: ServedAt | UnsetType = UNSET
    processes: dict[str, int] | UnsetType = UNSET
    restarts: dict[str, int] | UnsetType = UNSET
    namespaces: dict[str, str | None] | UnsetType = UNSET
