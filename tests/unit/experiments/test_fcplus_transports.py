# SPDX-License-Identifier: Apache-2.0
"""FC+'s routes beside others under real transports: which points there are, and that each does what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from detour import cli
from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.expander.demand import demand_of, hop_distances
from detour.experiments.fcplus import experiment as fcplus
from detour.experiments.fcplus import packet_level, transports
from detour.experiments.fcplus.packets import RATE_BPS
from detour.experiments.fcplus.results import TransportPoint, TransportResult
from detour.experiments.fcplus.tables import tables
from detour.experiments.fcplus.traffic import draw
from detour.topo import expander


def point(routing: str, transport: str = "lossless", pattern: str = "uniform") -> TransportPoint:
    return TransportPoint(
        n=24, s=10, hosts=2, us=400, load=0.5, k=8, routing=routing, transport=transport, pattern=pattern
    )


@pytest.mark.parametrize("transport", packet_level.TRANSPORT_NAMES)
@pytest.mark.parametrize("routing", packet_level.ROUTING_NAMES)
def test_every_routing_delivers_all_messages(routing: str, transport: str) -> None:
    found = transports.run(point(routing, transport))
    assert (found.unfinished, found.deadlock) == (0, False)
    assert 0 < found.goodput_gbps < found.offered_gbps * 1.01
    assert 1 <= found.slowdown.p50 <= found.slowdown.p99
    assert found.buffer_peak_bytes > 0
    assert (found.detours > 0) == (routing == "UGAL-L")
    if transport == "lossless":
        assert (found.drops, found.retransmitted) == (0, 0)
    else:
        assert found.pauses == 0


def test_a_run_is_the_same_again() -> None:
    assert transports.run(point("UGAL-L")) == transports.run(point("UGAL-L"))


def test_paths_are_those_of_the_routing() -> None:
    network = expander.fcplus(24, 10, hosts=2)
    demand = demand_of("uniform", network, 1)
    far = hop_distances(network)
    shortest, union = (transports._routes(point(name), network, demand) for name in ("UGAL-L", "shortest-union"))
    for routes, fractions in (shortest, union):
        assert np.add.reduceat(fractions, routes.first[:-1]) == pytest.approx(1)
    for i, (a, b) in enumerate(demand.pairs.tolist()):
        for (routes, fractions), most in ((shortest, far[a, b]), (union, max(2, far[a, b]))):
            rows = slice(routes.first[i], routes.first[i + 1])
            assert ((fractions[rows] > 0) == (routes.length[rows] <= most)).all()


def test_detours_pass_a_third_switch_and_begin_at_the_ports_that_are_looked_at() -> None:
    network = expander.fcplus(24, 10, hosts=2)
    demand = demand_of("uniform", network, 1)
    messages = draw(network, demand, 0.5, RATE_BPS, 400 * US, "equal", 1)
    pairs = list(zip(messages.source.tolist(), messages.target.tolist(), strict=True))
    ways = transports._ways(point("UGAL-L"), network, demand, messages, pairs)
    assert ways.other_links is not None
    assert ways.ports is not None
    assert (ways.other_links >= ways.links).all()
    assert ways.other_links.max() <= 5
    for (device, port), source in zip(
        ((int(key) // 1024, int(key) % 1024) for key in ways.ports[:, 1]), messages.source.tolist(), strict=True
    ):
        switch = network.topology.switches[device - 1]
        assert switch.index == network.topology.hosts[source].switch
        peer = switch.peer(port)
        assert peer is not None
        assert peer.kind == "local"


def test_which_points_there_are() -> None:
    points = fcplus.select("normal", seeds=2, part="transports")
    assert len(points) == len(set(points)) == 2 * 2 * 2 * len(packet_level.ROUTING_NAMES)
    assert set(packet_level.TRANSPORT_NAMES) == set(transports.TRANSPORTS)
    assert set(packet_level.ROUTING_NAMES) == set(transports.LOSSLESS_PRIORITIES)
    assert not any(isinstance(p, TransportPoint) for p in fcplus.select("full"))
    assert all(0 < fcplus.seconds(p) < 60 for p in points)


def test_unknown_routings_are_refused() -> None:
    network = expander.fcplus(24, 10, hosts=2)
    with pytest.raises(DetourError, match="routing 'RIP'; there are FC"):
        transports._routes(point("RIP"), network, demand_of("uniform", network, 1))


def test_the_table_has_a_row_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    results = [transports.run(point(name)) for name in ("ECMP", "FC+ 2L")]
    found = fcplus.collect(results)
    assert [row.routing for row in found.transports] == ["ECMP", "FC+ 2L"]
    assert all(isinstance(row, TransportResult) for row in found.transports)
    (shown,) = [table for table in tables(found) if table.rows]
    assert [row[2] for row in shown.cells(False)] == ["ECMP", "FC+ 2L"]


def test_its_figures_are_the_papers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot = tmp_path / "none.svg"
    assert cli.main(["reproduce", "fcplus", "--part", "transports", "--plot", str(plot), "--json"]) == 2
    out, err = capsys.readouterr()
    assert "--part transports has none" in err
    assert not out
