# SPDX-License-Identifier: Apache-2.0
"""Controllers of switches in virtual time: exact times, runs that are the same to the byte, paces."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from finsy.proto import p4r

from detour.base.errors import DetourError
from detour.base.times import MS, US
from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer
from detour.fabric.backends.virtual.pace import PacedClock, TimePace
from tests.unit.p4runtime.harness import Client, Names, Stream, config, digest
from tests.unit.p4runtime.test_p4rt_engine import ethernet
from tests.waiting import until

MAC = 0x020000000000
HOSTS = (1, 2, 3)
VLAN = 0
RATE_BPS = 1_000_000_000


@contextmanager
def switch() -> Iterator[tuple[Network, Client, Stream, list[tuple[int, int, bytes]]]]:
    """A switch in virtual time with sinks at its ports; what leaves them is listed as (time, port, frame)."""
    left: list[tuple[int, int, bytes]] = []
    with Network(Virtual(), 1_000_000) as network:
        network.add_switch(1)
        for port in HOSTS:
            network.attach_sink((1, port), lambda data, at, port=port: left.append((at, port, data)), RATE_BPS)
        with P4RuntimeServer(network) as server:
            server.add_device(1)
            client = Client(server.target)
            stream = client.ready()
            yield network, client, stream, left
            client.close()


def learning(seed: int) -> tuple[list[tuple[int, int, bytes]], list[tuple[int, int]]]:
    """A switch that learns where hosts are by digests: what left it, and (time in ns, source) of what was learnt."""
    rng, learnt = random.Random(seed), []
    with switch() as (network, client, stream, left):
        names = Names(config().p4info)
        client.insert(digest(names.ids["learn_t"], 1))
        for number in range(60):
            source, target = rng.sample(HOSTS, 2)
            frame = ethernet(MAC + target, MAC + source, 0x0801, number.to_bytes(46, "big"))
            network.inject((1, source), frame, time_ps=rng.randrange(500 * US))
        notified = 0
        while network.run_to_event(MS) < MS:
            assert network.notified == notified + 1
            notified = network.notified
            digest_list = stream.next().digest
            at, (source,) = digest_list.timestamp, digest_list.data
            address, port = (int.from_bytes(member.bitstring, "big") for member in source.struct.members)
            assert at == network.now_ps // 1000
            learnt.append((at, address))
            client.insert(
                names.entry("ageing", address, action=("NoAction",)),
                names.entry("exact_two", address, VLAN, action=("forward", port)),
            )
    return left, learnt


def test_a_learning_switch_does_the_same_to_the_byte() -> None:
    first, second = learning(1), learning(1)
    assert first == second
    left, learnt = first
    assert sorted(address - MAC for _, address in learnt) == list(HOSTS), "each is learnt once: time stood still"
    assert [at for at, _ in learnt] == sorted(at for at, _ in learnt)
    assert all(frame[:6] == (MAC + port).to_bytes(6, "big") for _, port, frame in left)
    learnt_at = {address: at for at, address in learnt}
    assert len(left) > 40
    assert all(at // 1000 >= learnt_at[int.from_bytes(frame[:6], "big")] for at, _, frame in left)
    assert learning(2) != first


def test_control_actions_happen_at_the_time_that_was_run_to() -> None:
    with switch() as (network, client, stream, left):
        names = Names(config().p4info)
        client.insert(
            names.entry("ageing", MAC + 2, action=("NoAction",)),  # nothing to learn
            names.entry("exact_two", MAC + 1, VLAN, action=("to_cpu", 7)),
        )
        frame = ethernet(MAC + 1, MAC + 2, 0x0801)
        for at in (100 * US, 200 * US, 300 * US):
            network.inject((1, 2), frame, time_ps=at)
        assert network.run_to_event(MS) == 100 * US
        assert stream.next().packet.payload == frame
        network.run(150 * US)  # and the rule from here on
        client.modify(names.entry("exact_two", MAC + 1, VLAN, action=("forward", 3)))
        assert network.run_to_event(MS) == MS
        assert [(at, port) for at, port, _ in left] == [(200 * US + 480_000, 3), (300 * US + 480_000, 3)]
        out = p4r.PacketOut(payload=frame)
        out.metadata.add(metadata_id=1, value=b"\2")
        out.metadata.add(metadata_id=2, value=b"\0")
        stream.send(packet=out)
        until(lambda: network.loop_stats()["used"] == 1)  # it comes in at the time that has been reached
        network.run(2 * MS)
        assert left[2:] == [(MS + 480_000, 2, frame)]


def test_only_virtual_time_stands_still() -> None:
    with Network() as network, pytest.raises(DetourError, match="real time"):
        network.run_to_event(1)


# -- time that passes by itself -----------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "factor"), [("1x", 1.0), ("10x", 10.0), ("0.25x", 0.25), ("3", 3.0), ("max", None)])
def test_paces(text: str, factor: float | None) -> None:
    assert TimePace.given(text).factor == factor
    assert TimePace.given(str(TimePace.given(text))) == TimePace.given(text)


@pytest.mark.parametrize("text", ["", "fast", "0x", "-1x", "x", "1000000000x"])
def test_no_paces(text: str) -> None:
    with pytest.raises(DetourError, match="is not a pace"):
        TimePace.given(text)


@pytest.mark.parametrize("pace", ["20x", "max"])
def test_a_controller_works_while_time_passes(pace: str) -> None:
    with switch() as (network, client, stream, _):
        names, alarms = Names(config().p4info), []
        client.insert(names.entry("exact_two", MAC + 1, VLAN, action=("to_cpu", 7)))
        frame = ethernet(MAC + 1, MAC + 2, 0x0801)
        network.inject((1, 2), frame, time_ps=5 * MS)
        clock = PacedClock(lambda: network.now_ps, network.run, TimePace.given(pace))
        clock.at(7 * MS, lambda: alarms.append(clock.now_ps))
        begun = time.monotonic()
        clock.start()
        try:
            assert stream.next().packet.payload == frame
            clock.wait(20 * MS)
            passed = clock.now_ps
            given_up = threading.Event()
            given_up.set()
            clock.wait(10**15, given_up)
        finally:
            clock.stop()
        assert passed >= 20 * MS
        assert alarms == [7 * MS]
        if pace != "max":
            assert passed <= (time.monotonic() - begun) * 20 * 1e12
        stood = clock.now_ps
        assert network.now_ps == stood, "it stands still again"
        clock.wait(stood + MS)
        assert clock.now_ps == stood + MS, "and passes as somebody waits"
