# SPDX-License-Identifier: Apache-2.0
"""One scenario for all backends: what a fabric must be able to do, whatever it runs on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path as File

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet6 import IPv6
from scapy.utils import PcapNgReader

from detour.base.errors import DetourError
from detour.control.entries import Plan
from detour.fabric.backends.base import Fabric
from detour.fabric.backends.bmv2.fabric import Bmv2Fabric
from detour.fabric.backends.engine import EngineFabric
from detour.fabric.backends.serving import Serving
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import BENCHMARK, LERP_WITHOUT_PFC, RunSettings
from detour.fabric.operations.session import Session
from detour.fabric.traffic.flows import Choice, Flow, PatternSink, PatternSource
from detour.hosts.verbs import Path
from detour.topo import Failure, parse_topology
from detour.topo.failures import NONE
from tests.unit.fabric.sessions import TARGETS, up

TOPOLOGY = parse_topology("leaf-spine:leaves=2,spines=2,hosts=1")
SENDER, RECEIVER = 0, 1
MESSAGE, MESSAGES = 4_000, 5


def virtual() -> VirtualFabric:
    return VirtualFabric(TOPOLOGY, LERP_WITHOUT_PFC, RunSettings(payload=True), queue_pairs=16, serving=Serving)


MAKE: dict[str, Callable[[], Fabric]] = {
    "engine": lambda: EngineFabric(TOPOLOGY),
    "virtual": virtual,
    "bmv2": lambda: Bmv2Fabric(TOPOLOGY),
}


@pytest.fixture(scope="module", params=TARGETS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with up(MAKE[request.param]()) as running:
        yield running


@pytest.fixture
def fabric(session: Session) -> Fabric:
    return session.fabric


def opened(session: Session, messages: int = MESSAGES, seed: int = 1) -> Flow:
    """A connection that has messages to send."""
    stream = PatternSource(seed, messages * MESSAGE), PatternSink(seed)
    return session.pump.open(SENDER, RECEIVER, Choice((Path(1),)), stream, slot_bytes=MESSAGE)


def transfer(session: Session, messages: int = MESSAGES) -> float:
    """Sends messages, which arrive as they were; the seconds of the fabric that it took."""
    flow, begin = opened(session, messages), session.fabric.now_ps
    session.pump.run([flow])
    took = session.fabric.now_ps - begin
    assert (flow.failure, flow.bytes_ok, flow.bytes_wrong) == (None, messages * MESSAGE, 0)
    session.pump.close_flow(flow)
    return took / 1e12


def stuck(session: Session) -> Flow:
    """A connection whose messages do not arrive for now."""
    flow, clock = opened(session), session.fabric.clock
    session.pump.run([flow], seconds=5 * clock.pause_ps / 1e12)
    assert flow.bytes_ok == 0
    return flow


def freed(session: Session, flow: Flow) -> None:
    """Now they do."""
    session.pump.run([flow])
    assert (flow.failure, flow.bytes_ok) == (None, MESSAGES * MESSAGE)
    session.pump.close_flow(flow)


def test_every_switch_is_served_and_every_link_is_up(session: Session, fabric: Fabric) -> None:
    assert [target.device_id for target in fabric.targets()] == [1, 2, 3, 4]
    assert set(fabric.addresses()) == {"s0", "s1", "s2", "s3"}
    ends = {end for link in TOPOLOGY.links for end in fabric.link_ends(link.index)}
    assert set(fabric.ports()) == ends
    assert all(state.up for state in fabric.ports().values())
    fabric.first_step()
    fabric.check()
    assert session.control.policy == fabric.terms.policy


def test_messages_arrive(session: Session) -> None:
    assert transfer(session) > 0


def test_it_has_a_clock(fabric: Fabric) -> None:
    clock, begin = fabric.clock, fabric.now_ps
    heard: list[int] = []
    ticks: list[int] = []
    done = threading.Event()

    def tick() -> None:
        ticks.append(fabric.now_ps)
        if len(ticks) == 3:
            done.set()

    clock.at(begin + clock.pause_ps, lambda: heard.append(fabric.now_ps))
    ticker = clock.every(lambda: clock.pause_ps / 1e12, tick, "test")
    clock.wait(begin + 2 * clock.pause_ps)
    assert fabric.now_ps >= begin + 2 * clock.pause_ps
    assert heard[0] >= begin + clock.pause_ps
    while not done.is_set():
        clock.wait(fabric.now_ps + clock.pause_ps)
    ticker.stop()
    assert ticks == sorted(ticks)


def test_a_link_goes_down_and_up(session: Session, fabric: Fabric) -> None:
    link = TOPOLOGY.link("s1-h1").index
    fabric.set_link(link, False)
    flow = stuck(session)
    fabric.set_link(link, True)
    freed(session, flow)


def test_failures_take_down_what_is_dead_and_nothing_else(session: Session, fabric: Fabric) -> None:
    dead = {TOPOLOGY.link("s0-s2").index, TOPOLOGY.link("s1-s2").index}
    fabric.apply_failures(frozenset({Failure("switch", 2)}))
    ends = {end for link in dead for end in fabric.link_ends(link)}
    assert {end for end, state in fabric.ports().items() if not state.up} == ends
    fabric.apply_failures(NONE)
    assert all(state.up for state in fabric.ports().values())
    transfer(session)


def test_failures_and_what_they_change_in_tables(session: Session) -> None:
    before = session.control.entries
    session.fail("s2")
    assert session.control.entries < before
    transfer(session)
    session.heal()
    assert session.control.entries == before
    transfer(session)


def test_a_throttled_link_carries_its_share(session: Session, fabric: Fabric) -> None:
    link, share = TOPOLOGY.link("s1-h1").index, 0.1
    fabric.throttle(link, share)
    least = MESSAGES * MESSAGE * 8 / (fabric.terms.rate_bps * share)
    assert transfer(session) > 0.8 * least, "the queue at the link's end is emptied at the throttled rate"
    fabric.throttle(link, 1.0)
    transfer(session)


def test_a_link_that_loses_all_looks_as_if_it_were_up(session: Session, fabric: Fabric) -> None:
    link = TOPOLOGY.link("s1-h1").index
    if fabric.target == "bmv2":
        with pytest.raises(DetourError, match="have no random loss"):
            fabric.set_loss(link, 0.5)
        return
    fabric.set_loss(link, 1.0)
    flow = stuck(session)
    assert all(state.up for state in fabric.ports().values())
    fabric.set_loss(link, 0.0)
    freed(session, flow)


def test_captures_can_be_read(session: Session, fabric: Fabric, tmp_path: File) -> None:
    fabric.capture(tmp_path)
    transfer(session)
    fabric.capture(None)
    files = {file.name for file in tmp_path.iterdir()}
    assert files >= {f"s{device - 1}-{port}.pcapng" for device, port in fabric.ports()}
    with PcapNgReader(str(tmp_path / "s0-1.pcapng")) as reader:
        seen = [packet for packet in reader if BTH in packet]
    assert len(seen) > MESSAGES
    assert {packet[IPv6].dst for packet in seen} == {fabric.context(host).address for host in (SENDER, RECEIVER)}


@pytest.mark.parametrize("backend", TARGETS)
def test_nothing_is_left_behind(backend: str) -> None:
    before = set(threading.enumerate())
    session = up(MAKE[backend]())
    transfer(session)
    (address, *_) = {target.address for target in session.fabric.targets()}
    socket = File(address.removeprefix("unix:"))
    assert socket.exists()
    session.close()
    session.close()
    assert not socket.parent.exists()
    assert {thread.name for thread in threading.enumerate() if thread not in before} == set()


# -- what is particular to virtual time ---------------------------------------------------------------------


def test_control_planes_take_no_virtual_time_and_runs_can_be_repeated() -> None:
    def course() -> tuple[float, list[int], int]:
        with up(virtual()) as session:
            return transfer(session, 40), session.fabric.hs.qp["st_packets"].tolist(), session.fabric.now_ps

    with up(virtual()) as session:
        session.verify()
        session.counters()
        assert session.fabric.now_ps == 0
    assert course() == course()


def test_tables_are_the_same_put_in_directly_or_over_p4runtime() -> None:
    """The fabric has its tables when it is made; a controller that reads them finds its plan."""

    def held(session: Session) -> Plan:
        return session.control.read()

    with up(virtual()) as session:
        assert isinstance(session.fabric, VirtualFabric)
        entries = held(session)
        failures = frozenset({Failure("link", TOPOLOGY.link("s0-s2").index)})
        states = session.fabric.states
        assert all(state is session.fabric.network.state(device) for device, state in states.items())
        session.fail("s0-s2")
        without = held(session)
        assert without != entries
        session.heal()
        assert held(session) == entries
    with virtual() as fabric:
        rows = {device: _sizes(fabric, device) for device in fabric.states}
        assert fabric.replan(failures) > 0
        assert {device: _sizes(fabric, device) for device in fabric.states} != rows
        assert fabric.replan(NONE) > 0
        assert {device: _sizes(fabric, device) for device in fabric.states} == rows


def _sizes(fabric: VirtualFabric, device: int) -> dict[str, int]:
    return {name: len(list(table.entries())) for name, table in fabric.states[device].tables.items()}


def test_p4runtime_is_served_where_it_is_wanted() -> None:
    with (
        VirtualFabric(TOPOLOGY, LERP_WITHOUT_PFC) as fabric,
        pytest.raises(DetourError, match="this fabric serves no P4Runtime"),
    ):
        fabric.targets()
    before = set(threading.enumerate())
    with pytest.raises(DetourError, match=r"runs adaptive\.p4"):
        VirtualFabric(parse_topology("dragonfly:p=1,a=2,h=1"), BENCHMARK, queue_pairs=1, serving=Serving)
    assert set(threading.enumerate()) == before


def test_without_payload_there_are_no_bytes() -> None:
    settings = replace(RunSettings(), payload=False)
    with VirtualFabric(TOPOLOGY, LERP_WITHOUT_PFC, settings, queue_pairs=4, serving=Serving) as fabric:
        session = Session(fabric)
        flow = opened(session)
        with pytest.raises(DetourError, match="elide payload have no bytes"):
            session.pump.run([flow])
