# SPDX-License-Identifier: Apache-2.0
"""Sessions on fabrics of each kind, with their tables."""

from __future__ import annotations

import pytest

from detour.fabric.backends.base import Fabric
from detour.fabric.backends.serving import Serving
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import LERP_WITHOUT_PFC, LinkSettings, RunSettings, Scheme
from detour.fabric.daemon.daemon import UpOptions, boot
from detour.fabric.operations.session import Session
from detour.topo import parse_topology

TARGETS = ["engine", "virtual", pytest.param("bmv2", marks=pytest.mark.bmv2)]
IN_REAL_TIME = [TARGETS[0], TARGETS[2]]


def up(fabric: Fabric) -> Session:
    """A session whose tables are written."""
    session = Session(fabric)
    try:
        session.provision()
    except BaseException:
        session.close()
        raise
    return session


def on(target: str, topology: str, scheme: Scheme = LERP_WITHOUT_PFC) -> Session:
    """As `boot`; links in virtual time have 1 Gb/s, so that waiting for half a second is not much work."""
    if target != "virtual":
        return boot(UpOptions(target, topology))
    return up(
        VirtualFabric(parse_topology(topology), scheme, RunSettings(LinkSettings(10**9), payload=True), serving=Serving)
    )
