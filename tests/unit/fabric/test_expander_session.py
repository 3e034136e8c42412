# SPDX-License-Identifier: Apache-2.0
"""An FC+ network booted on each target: verified, and paths that go down and up again change their priority there."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from scapy.layers.inet6 import IPv6
from scapy.utils import PcapNgReader

from detour.control.expander.routes import PathPolicy, compute
from detour.fabric.daemon.daemon import UpOptions, boot
from detour.topo.expander import fcplus

NETWORK = fcplus(8, 4, 3, hosts=1, seed=1)


def turning_path() -> tuple[list[int], list[int]]:
    """The longest path of DF-KSP with two priorities that uses both."""
    routes = compute(NETWORK, PathPolicy(8, 2, max_hops=5))
    paths = [(switches, priorities) for _, _, switches, priorities in routes if priorities[-1] == 1]
    return max(paths, key=lambda path: (len(path[0]), path))


def dscps_on(folder: Path, switch: int, neighbour: int) -> list[int]:
    """DSCPs of the packets with uSID lists on the link from a switch to a neighbour."""
    ports = NETWORK.topology.switches[switch].ports
    port = next(n for n, peer in enumerate(ports, 1) if peer and peer.kind != "host" and peer.index == neighbour)
    own = NETWORK.topology.switches[neighbour].node_id
    with PcapNgReader(str(folder / f"s{switch}-{port}.pcapng")) as packets:
        found = [p[IPv6] for p in packets if IPv6 in p and p[IPv6].dst.startswith(f"fcbb:bb00:{own:x}:")]
    return [packet.tc >> 2 for packet in found]


@pytest.mark.parametrize("target", ["engine", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def test_a_path_that_turns_changes_its_priority_there(target: str, tmp_path: Path) -> None:
    switches, priorities = turning_path()
    assert set(priorities) == {0, 1}
    session = boot(UpOptions(target, NETWORK.spec, pcap=str(tmp_path)))
    try:
        assert session.verify().verified
        usid = ",".join(f"s{switch}" for switch in switches[1:])
        result = session.send(f"h{switches[0]}", f"h{switches[-1]}", 3000, usid=usid)
        assert result.bytes_ok == 3000
        assert result.paths[0].switches == [f"s{switch}" for switch in switches]
    finally:
        session.close()
    for (here, there), priority in zip(pairwise(switches), priorities, strict=True):
        seen = dscps_on(tmp_path, here, there)
        assert len(seen) >= 3
        assert set(seen) == {priority}, f"s{here} to s{there}"
