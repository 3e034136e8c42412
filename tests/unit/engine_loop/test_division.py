# SPDX-License-Identifier: Apache-2.0
"""A divided fabric does the same as an undivided one, to the last byte."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from script_program import CrossProgram, ScriptState
from test_native_hosts import GBIT, MS, US, Pair

from detour.base.errors import DetourError
from detour.engine import division
from detour.engine.buffers import Buffers, headroom
from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.engine.workers import ranges, shares
from detour.hosts.config import HostConfig
from tests.native import control_state

_TABLES = ("host", "qp", "slot", "arrival", "wqe", "candidate", "cqe", "memory")


def _nodes(net: Network) -> int:
    return int(net._memory.g["node_count"])


def _state(net: Network) -> dict[str, np.ndarray]:
    hosts = {name: getattr(net.hosts, name).copy() for name in _TABLES}
    hosts["control"] = control_state(net.hosts).copy()
    hosts["control"]["table"] = 0
    # Protection domains are numbered throughout a process; the others are addresses.
    for name in ("pd", "cc_row", "path_row", "transport_row"):
        hosts["qp"][name] = 0
    ports = {k: v for k, v in net.port_stats().items() if k != "time_ps"}
    nics = {k: v for k, v in net.host_stats().items() if k != "time_ps"}
    return hosts | ports | nics | {"events": np.array([net.loop_stats()["events"]])}


def _lossy(divide: bool, jitter: bool) -> tuple[dict[str, np.ndarray], int]:
    pair = Pair(Virtual(divide=divide), HostConfig())
    with pair.net as net:
        if jitter:
            net.set_jitter()
        net.set_faults((1, 2), loss=0.03, duplicate=0.03, corrupt=0.03)
        pair.post()
        for until in (3 * US, 3 * US + 1, 50 * US, 100 * MS):
            net.run(until)
        assert pair.done()
        return _state(net), _nodes(net)


@pytest.mark.parametrize("jitter", [False, True])
def test_same_results_with_faults(jitter):
    whole, one = _lossy(False, jitter)
    divided, many = _lossy(True, jitter)
    assert (one, many) == (1, 2)
    for name, table in whole.items():
        assert np.array_equal(table, divided[name]), name


def _congested(divide: bool) -> dict[str, np.ndarray]:
    pair = Pair(Virtual(divide=divide), HostConfig(line_rate_start=True))
    with pair.net as net:
        net.set_rate((1, 2), 25 * GBIT)
        room = headroom(100 * GBIT, US, 1102)
        for device_id in (1, 2):
            net.set_buffers(device_id, Buffers(2 * room + 60_000, lossless=1, headroom_bytes=room))
        pair.post()
        net.run(10 * MS)
        assert pair.done()
        assert net.buffer_stats(1)["pauses_sent"] > 0
        return _state(net)


def test_same_results_under_flow_control():
    whole, divided = _congested(False), _congested(True)
    for name, table in whole.items():
        assert np.array_equal(table, divided[name]), name


def test_whoever_watches_events_sees_them_in_order():
    pair = Pair(Virtual(), HostConfig())
    with pair.net as net:
        net.run(US)
        assert _nodes(net) == 2
        net.on_packet_in(1, lambda frame, time: None)
        net.run(2 * US)
        assert _nodes(net) == 1
        net.on_packet_in(1, None)
        pair.post()
        net.run(200 * US)
        assert _nodes(net) == 2
        assert pair.done()


def test_every_node_knows_one_of_its_switches():
    with Network(Virtual()) as net:
        program = CrossProgram()
        for device_id, domain in enumerate((7, -1, 7), start=1):
            net.add_switch(device_id, domain=domain)
            net.set_pipeline(device_id, program, ScriptState())
        net.connect((1, 2), (2, 1), GBIT, US)
        net.connect((2, 2), (3, 1), GBIT, US)
        net.run(US)
        of_switch = division.divide(net._wiring).of_switch
        switches = net._memory.column("nodes", "switch")[: _nodes(net)]
        assert of_switch[switches].tolist() == [0, 1]


@pytest.mark.parametrize(("domains", "delays", "expected"), [
    ((-1, -1, -1), (2, 3), (3, 2)), ((7, 7, -1), (2, 3), (2, 3)),
    ((7, 7, 7), (2, 3), (1, 0)), ((-1, -1, -1), (0, 3), (3, 0)),
])  # fmt: skip
def test_domains_and_the_shortest_cable_between_them(domains, delays, expected):
    with Network(Virtual()) as net:
        program = CrossProgram()
        for device_id, domain in enumerate(domains, start=1):
            net.add_switch(device_id, domain=domain)
            net.set_pipeline(device_id, program, ScriptState())
        net.connect((1, 2), (2, 1), GBIT, delays[0] * US)
        net.connect((2, 2), (3, 1), GBIT, delays[1] * US)
        divided = division.divide(net._wiring)
        assert (len(set(divided.of_switch.tolist())), divided.lookahead_ps) == (expected[0], expected[1] * US)


def test_switches_at_very_short_cables_are_one_node():
    with Network(Virtual()) as net:
        for device_id in range(1, 12):
            net.add_switch(device_id)
        delays = [0, 50_000, US, US, US, 2 * US, 20_000, US, US, US]
        for device_id, delay_ps in enumerate(delays, start=1):
            net.connect((device_id, 2), (device_id + 1, 1), GBIT, delay_ps)
        divided = division.divide(net._wiring)
    assert divided.of_switch.tolist() == [0, 0, 0, 1, 2, 3, 4, 4, 5, 6, 7]
    assert divided.lookahead_ps == US


def test_a_register_that_two_nodes_would_write_is_an_error():
    program = CrossProgram()
    states: list[Any] = [ScriptState(), ScriptState()]
    shared = np.zeros(4)
    for state in states:
        state.registers = {"loads": SimpleNamespace(memory=shared)}
    with Network(Virtual()) as net:
        for device_id, state in enumerate(states, start=1):
            net.add_switch(device_id)
            net.set_pipeline(device_id, program, state)
        net.connect((1, 2), (2, 1), GBIT, US)
        with pytest.raises(DetourError, match="switches s1 and s2 share register loads"):
            net.run(US)


@pytest.mark.parametrize(
    ("nodes", "cost", "workers"),
    [([0], [5], 2), ([3], [5], 4), ([0, 1, 2], [9, 1, 1], 4), ([0, 2, 5], [1, 1, 9], 4), ([], [], 2)],
)
def test_nodes_are_in_the_range_of_the_worker_that_they_are_given(
    nodes: list[int], cost: list[int], workers: int
) -> None:
    """Also where the first worker has none, since one node costs more than its share."""
    numbers = np.array(nodes, np.int64)
    worker = shares(np.array(cost, np.int64), workers) if nodes else numbers
    begins, ends = ranges(numbers, worker, workers)
    inside = [[node for node in nodes if begin <= node < end] for begin, end in zip(begins, ends, strict=True)]
    assert inside == [numbers[worker == number].tolist() for number in range(workers)]
