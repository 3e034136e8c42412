# SPDX-License-Identifier: Apache-2.0
"""What `detour status` says of a fabric that only some footings have. Loads nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType


@dataclass(frozen=True)
class ServedAt:
    """Where the engine serves P4Runtime. `socket`: of this user alone; `address`: the one that others may reach, which
    is the socket too if none was asked for; `reach`: who can. `thrift`: the socket of BMv2's runtime API of all
    switches, of this user alone."""

    socket: str
    address: str
    tls: bool
    reach: str
    thrift: str


@dataclass(frozen=True)
class LinuxHost:
    """A host that is a namespace of Linux. `process` keeps it, in a user namespace if `user`; `kind`: of its interface,
    tap or veth; `oversized`: frames above the MTU that came out of it and were dropped (None: nobody counts)."""

    host: str
    process: int
    user: bool
    interface: str
    kind: str
    mtu: int
    addresses: list[str]
    oversized: int | None


@dataclass(frozen=True, kw_only=True)
class FootingDetails:
    """UNSET: this footing has no such thing. `lag_ms`: how far the engine is behind the wall clock. On BMv2 `processes`
    (ids) and `restarts` of switches by name, `namespaces`: of the hosts, and of all `switches`. `linux`: hosts
    that are namespaces of Linux."""

    lag_ms: float | UnsetType = UNSET
    p4runtime: ServedAt | UnsetType = UNSET
    processes: dict[str, int] | UnsetType = UNSET
    restarts: dict[str, int] | UnsetType = UNSET
    namespaces: dict[str, str | None] | UnsetType = UNSET
    linux: list[LinuxHost] | UnsetType = UNSET
