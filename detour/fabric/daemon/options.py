# SPDX-License-Identifier: Apache-2.0
"""Options of a fabric that is started, which its process is given as JSON."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class UpOptions:
    """Options of `detour up`."""

    target: str = "engine"
    topology: str = "d1"
    pcap: str | None = None
    grpc: str | None = None
    grpc_tls: dict[str, str] | None = None
    """see `make_fabric`"""
    rate_bps: int | None = None
    delay_ps: int | None = None
    queue_packets: int | None = None
    loss: float | None = None
    """see `BackendChanges`"""
    routing: str | None = None
    """see `BackendSettings`"""
    program: str | None = None
    """see `PipelineConfig.given`"""
    compiler: str = "detour"
    """of a lab's programs: see `p4.build`"""
    load: str | None = None
    """see `Operations.load`"""
    linux: str | None = None
    netns: str | None = None
    mtu: int | None = None
    """see `linux.hosts.request`"""
    lab: str | None = None
    """a P4 lab's folder instead of a topology (`fabric.labs`)"""
    solution: bool = False
    lab_args: str | None = None
    ports: str | None = None
    """see `daemon.lab.with_ports`"""
    pace: str | None = None
    """of virtual time; see `make_fabric`"""
    coverage: str | None = None
    """file for what packets reach of the P4 programs (`engine.coverage`)"""
