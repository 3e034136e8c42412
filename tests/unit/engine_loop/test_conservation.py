# SPDX-License-Identifier: Apache-2.0
"""No packet is lost without being counted, and none is kept."""

from __future__ import annotations

import random
import threading

import script_program as script
from hypothesis import given, settings
from hypothesis import strategies as st
from script_program import ScriptProgram, ScriptState, frame
from scripted_networks import Bench

from detour.engine.clock import RealTime, Virtual
from tests.waiting import PATIENCE_S, until

US = 1_000_000
RATE = 64 * 8 * 1_000_000

_operations = st.sampled_from(
    [script.UNICAST, script.DROP, script.MULTICAST, script.CLONE, script.RESUBMIT, script.CLONE_EGRESS,
     script.RECIRCULATE, script.DIGEST, script.DROP_EGRESS, script.TRUNCATE, script.FAULT, script.GROW, script.SHRINK]
)  # fmt: skip
_frames = st.tuples(_operations, st.integers(0, 6), st.integers(0, 3), st.integers(1, 200), st.integers(0, 20))
_DROPS = (
    "faults", "ingress_drops", "egress_drops", "no_pipeline_drops", "no_port_drops", "priority_drops", "queue_drops",
    "pool_drops", "header_drops", "pipeline_drops", "input_drops", "packet_ins", "packet_in_drops",
    "empty_groups", "empty_drops",
)  # fmt: skip


def _two_switches(program: ScriptProgram) -> Bench:
    bench = Bench(program, Virtual(), packets=300, seed=1)
    for device_id in (1, 2):
        bench.switch(device_id)
        bench.net.set_multicast_group(device_id, 1, [(1, 1), (2, 2), (510, 3), (6, 4)])
        bench.net.set_multicast_group(device_id, 2, [])
        bench.net.set_clone_session(device_id, 1, [(2, 1), (510, 0)])
        bench.net.set_clone_session(device_id, 2, [(1, 0)], length=10)
    bench.net.connect((1, 1), (2, 1), RATE, 3 * US, queue_packets=5)
    bench.sink(1, 2, rate_bps=RATE, queue_packets=3)
    bench.sink(2, 2, 3)
    bench.net.set_faults((1, 1), loss=0.1, duplicate=0.1, corrupt=0.1)
    return bench


@settings(max_examples=60, deadline=None)
@given(st.lists(_frames, max_size=60), st.integers(0, 40))
def test_every_packet_is_accounted_for(program, frames, swap_at):
    bench = _two_switches(program)
    with bench.net as net:
        for n, (operation, port, argument, size, when) in enumerate(frames):
            net.inject((1, 2), frame(operation, port, argument, n & 0xFF)[:size], time_ps=when * US)
        net.run(swap_at * US)
        net.set_link((1, 1), False)
        net.set_pipeline(1, ScriptProgram(phv_size=256 + 64 * (swap_at & 3)), ScriptState())
        net.run(swap_at * US + 2 * US)
        net.set_link((1, 1), True)
        # What corruption turned into a loop of packets is cut off by pulling the cable.
        net.run(10_000 * US)
        net.set_link((1, 1), False)
        net.run(20_000 * US)
        _check(bench, len(frames))


def _check(bench: Bench, injected: int) -> None:
    stats = bench.net.switch_stats()
    ports = bench.net.port_stats()
    loop = bench.net.loop_stats()
    looping = int((stats["resubmits"] + stats["recirculations"]).sum() > 5000)
    if not looping:
        assert loop["used"] == 0
    multicast = int(stats["multicast_copies"].sum())
    replicated = multicast > 0 or stats["clones"].sum() > 0 or stats["unknown_groups"].sum() > 0
    if replicated or looping:
        return
    delivered = sum(len(out) for out in bench.out.values())
    dropped = sum(int(stats[name].sum()) for name in _DROPS) + int(ports["link_drops"].sum())
    assert injected + int(ports["duplicated"].sum()) == delivered + dropped


def test_changes_while_traffic_flows(program, make):
    bench = make(RealTime(), packets=2000)
    for device_id in (1, 2):
        bench.switch(device_id)
        bench.net.set_multicast_group(device_id, 1, [(1, 1), (2, 2)])
    bench.net.connect((1, 1), (2, 1), 100_000_000, 20 * US)
    bench.sink(1, 2)
    bench.sink(2, 2)
    bench.net.start()
    rng = random.Random(4)
    programs = [program, ScriptProgram(phv_size=2000)]
    failures: list[BaseException] = []

    def change(kind: int) -> None:
        try:
            for n in range(60):
                device_id = rng.choice((1, 2))
                if kind == 0:
                    bench.net.set_pipeline(device_id, programs[n % 2], ScriptState())
                elif kind == 1:
                    bench.net.set_link((1, 1), n % 3 != 0)
                elif kind == 2:
                    for _ in range(20):
                        bench.net.inject((device_id, 2), frame(rng.choice((0, 2)), rng.choice((1, 2)), 1))
                else:
                    bench.net.set_multicast_group(device_id, 1, [(1, n), (2, n)])
                    bench.net.port_stats()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=change, args=(kind,)) for kind in (0, 1, 2, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not failures
    bench.net.set_link((1, 1), False)
    until(lambda: bench.net.loop_stats()["used"] == 0)
    assert len(bench.frames(2, 1)) > 0
