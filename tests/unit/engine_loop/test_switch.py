# SPDX-License-Identifier: Apache-2.0
"""What a switch does with a packet: the order and the metadata of simple_switch."""

from __future__ import annotations

import pytest
import script_program as script
from script_program import ScriptProgram, ScriptState, frame

from detour.base.errors import DetourError
from detour.engine import phv

US = 1_000_000
# Where egress of the scripted program reports what it saw.
TYPE, RID, META, ENQ_QDEPTH, DEQ_QDEPTH, EGRESS_PORT = range(8, 14)


def test_unicast(one):
    one.net.inject((1, 1), frame(script.UNICAST, 2, tag=7))
    one.net.run(US)
    [out] = one.frames(2)
    assert out[:4] == bytes([script.UNICAST, 2, 0, 7])
    assert out[16:] == frame(script.UNICAST, 2, tag=7)[16:]
    assert out[TYPE] == phv.TYPE_NORMAL
    assert out[META] == 7
    assert out[EGRESS_PORT] == 2
    assert one.port(1)["rx_packets"] == 1
    assert one.port(2)["tx_bytes"] == 64
    assert one.net.loop_stats()["used"] == 0


def test_drops_are_counted(one):
    one.net.inject((1, 1), frame(script.DROP, 2))
    one.net.inject((1, 1), frame(script.DROP_EGRESS, 2))
    one.net.inject((1, 1), frame(script.FAULT, 2))
    one.net.inject((1, 1), frame(script.UNICAST, 99))
    one.net.run(US)
    assert one.frames(2) == []
    assert one.counter("ingress_drops") == 1
    assert one.counter("egress_drops") == 1
    assert one.port(2)["egress_drops"] == 1
    assert one.counter("faults") == 1
    assert one.counter("no_port_drops") == 1
    assert one.net.loop_stats()["used"] == 0


def test_switch_without_program_drops(make):
    bench = make()
    bench.net.add_switch(5)
    bench.sink(5, 1)
    bench.net.inject((5, 1), frame(script.UNICAST, 1))
    bench.net.run(US)
    assert bench.counter("no_pipeline_drops", 5) == 1
    assert bench.net.loop_stats()["used"] == 0


def test_short_frame_is_a_parser_error_and_goes_on(one):
    one.net.inject((1, 1), bytes([script.UNICAST, 2, 0, 0, 9]))
    one.net.run(US)
    assert one.counter("parser_errors") == 1
    assert [len(f) for f in one.frames(2)] == [5]


def test_multicast(one):
    one.net.set_multicast_group(1, 9, [(2, 5), (3, 6), (2, 7)])
    one.net.inject((1, 1), frame(script.MULTICAST, 1, 9, tag=3))
    one.net.run(US)
    assert [(f[TYPE], f[RID], f[META]) for f in one.frames(2)] == [(5, 5, 3), (5, 7, 3)]
    assert [f[RID] for f in one.frames(3)] == [6]
    assert {f[16:] for port in (2, 3) for f in one.frames(port)} == {frame(0, 0, tag=3)[16:]}
    assert one.counter("multicast_copies") == 3
    assert one.net.loop_stats()["used"] == 0


def test_ports_without_attachment_have_queues_of_their_own(one):
    """Copies to them run egress, as in BMv2, and find those to the same port."""
    one.net.set_multicast_group(1, 9, [(60, 0), (61, 0), (62, 0), (61, 1), (61, 2)])
    one.net.set_clone_session(1, 9, [(2, 0)])
    one.net.inject((1, 1), frame(script.MULTICAST_DEPTH, 1, 9))
    one.net.run(US)
    enqueued, dequeued = zip(*(divmod(f[META], 16) for f in one.frames(2)), strict=True)
    assert (enqueued, dequeued) == ((0, 0, 0, 1, 2), (0, 2, 0, 1, 0))
    one.net.set_multicast_group(1, 9, [(60 + i, i) for i in range(200)])
    one.net.inject((1, 1), frame(script.MULTICAST_DEPTH, 1, 9))
    one.net.run(2 * US)
    assert (one.counter("no_port_drops"), one.counter("queue_drops")) == (205, 0)


def test_multicast_to_unknown_or_empty_group(one):
    one.net.set_multicast_group(1, 8, [])
    for group in (8, 9):
        one.net.inject((1, 1), frame(script.MULTICAST, 1, group))
    one.net.run(US)
    assert one.counter("unknown_groups") == 1
    assert one.net.loop_stats()["used"] == 0
    one.net.set_multicast_group(1, 8, None)
    one.net.inject((1, 1), frame(script.MULTICAST, 1, 8))
    one.net.run(2 * US)
    assert one.counter("unknown_groups") == 2


def test_ingress_clone_is_the_packet_as_it_came(one):
    one.net.set_clone_session(1, 0, [(3, 1), (4, 2)])
    one.net.inject((1, 1), frame(script.CLONE, 2, 0, tag=11))
    one.net.run(US)
    [original] = one.frames(2)
    assert original[4] == 0xEE
    assert original[TYPE] == phv.TYPE_NORMAL
    for port, rid in ((3, 1), (4, 2)):
        [clone] = one.frames(port)
        assert clone[4] == 0
        assert (clone[TYPE], clone[RID], clone[META]) == (phv.TYPE_INGRESS_CLONE, rid, 11)
        assert clone[16:] == original[16:]
    assert one.counter("clones") == 1
    assert one.net.loop_stats()["used"] == 0


def test_clones_are_cut(one):
    one.net.set_clone_session(1, 3, [(3, 0)], length=20)
    one.net.inject((1, 1), frame(script.CLONE, 2, 3))
    one.net.inject((1, 1), frame(script.CLONE_EGRESS, 2, 3))
    one.net.run(US)
    assert [len(f) for f in one.frames(3)] == [20, 20]
    assert [len(f) for f in one.frames(2)] == [64, 64]


def test_clone_of_unknown_session(one):
    one.net.inject((1, 1), frame(script.CLONE, 2, 77))
    one.net.inject((1, 1), frame(script.CLONE_EGRESS, 2, 77))
    one.net.run(US)
    assert len(one.frames(2)) == 2
    assert one.counter("unknown_sessions") == 2


def test_egress_clone_has_headers_of_egress_and_runs_egress(one):
    one.net.set_clone_session(1, 4, [(3, 9)])
    one.net.inject((1, 1), frame(script.CLONE_EGRESS, 2, 4, tag=6))
    one.net.run(US)
    [clone] = one.frames(3)
    assert (clone[TYPE], clone[RID], clone[META], clone[EGRESS_PORT]) == (phv.TYPE_EGRESS_CLONE, 9, 6, 3)
    assert len(one.frames(2)) == 1
    assert one.net.loop_stats()["used"] == 0


def test_egress_clone_to_its_own_port(one):
    one.net.set_clone_session(1, 4, [(2, 0)])
    one.net.inject((1, 1), frame(script.CLONE_EGRESS, 2, 4))
    one.net.run(US)
    assert [f[TYPE] for f in one.frames(2)] == [phv.TYPE_NORMAL, phv.TYPE_EGRESS_CLONE]


def test_resubmit_keeps_field_list(one):
    one.net.inject((1, 1), frame(script.RESUBMIT, 2, tag=0x42))
    one.net.run(10 * US)
    [out] = one.frames(2)
    assert out[META] == 0x42
    assert out[TYPE] == phv.TYPE_NORMAL
    assert one.counter("resubmits") == 1
    assert one.counter("packets") == 1


def test_recirculate_parses_what_was_deparsed(one):
    one.net.inject((1, 1), frame(script.RECIRCULATE, 2, tag=1))
    one.net.run(10 * US)
    [out] = one.frames(2)
    assert out[0] == script.UNICAST  # the second ingress saw instance type 4
    assert out[META] == 2  # and egress's metadata was kept
    assert one.counter("recirculations") == 1


def test_endless_resubmission_lets_time_pass(one):
    one.net.inject((1, 1), frame(script.LOOP, 2))
    assert one.net.run(100_000) == 100_000
    assert one.counter("resubmits") == 101  # once a tick of 1 ns


def test_resubmission_is_bounded(make):
    bench = make(tick_ps=US).single(1)
    for _ in range(1100):
        bench.net.inject((1, 1), frame(script.LOOP, 1))
    bench.net.run(US // 2)
    assert bench.counter("input_drops") == 1100 - 1024


def test_truncate(one):
    one.net.inject((1, 1), frame(script.TRUNCATE, 2, 30))
    one.net.inject((1, 1), frame(script.TRUNCATE, 2, 200))
    one.net.run(US)
    assert [len(f) for f in one.frames(2)] == [30, 64]


def test_headers_grow_and_shrink(one):
    for operation, argument in ((script.GROW, 255), (script.SHRINK, 0)):
        one.net.inject((1, 1), frame(operation, 2, argument, tag=5))
    one.net.run(US)
    grown, shrunk = one.frames(2)
    assert grown[16:271] == b"\xaa" * 255
    assert grown[271:] == shrunk[8:] == frame(0, 0, tag=5)[16:]


def test_headers_that_outgrow_the_slot_are_dropped(make):
    bench = make(frame_bytes=64, packets=2)
    bench.switch(1)
    bench.switch(2)
    bench.net.connect((1, 1), (2, 1))
    # Each hop adds 255 bytes; the slot has 64 + 256 + 512 (rounded up).
    bench.net.inject((1, 1), frame(script.GROW, 1, 255))
    bench.net.run(US)
    assert bench.counter("header_drops", 1) + bench.counter("header_drops", 2) == 1
    assert bench.net.loop_stats()["used"] == 0


def test_digest(one):
    seen = []
    one.net.inject((1, 1), frame(script.DIGEST, 2, 3, tag=4))
    one.net.run(US)
    assert one.counter("digest_drops") == 1
    one.net.on_digest(1, lambda list_id, data, time: seen.append((list_id, data, time)))
    one.net.inject((1, 1), frame(script.DIGEST, 2, 3, tag=4))
    one.net.run(2 * US)
    assert seen == [(2, bytes([script.DIGEST, 2, 3, 4]), US)]
    assert len(one.frames(2)) == 2


def test_packet_in_and_out(one):
    seen = []
    one.net.packet_out(1, frame(script.UNICAST, 3))
    # Port 510 does not fit the scripted header's port field: clone to it.
    one.net.set_clone_session(1, 1, [(510, 0)])
    one.net.inject((1, 1), frame(script.CLONE, 2, 1))
    one.net.run(US)
    assert len(one.frames(3)) == 1
    assert one.counter("packet_in_drops") == 1
    one.net.on_packet_in(1, lambda data, time: seen.append((data, time)))
    one.net.inject((1, 1), frame(script.CLONE, 2, 1, tag=9))
    one.net.run(2 * US)
    [(data, time)] = seen
    assert data[3] == 9
    assert time == US
    assert one.counter("packet_ins") == 1


def test_callbacks_in_virtual_time_act_at_the_event(one):
    one.net.set_clone_session(1, 1, [(510, 0)])
    one.net.on_packet_in(1, lambda data, time: one.net.packet_out(1, frame(script.UNICAST, 3)))
    one.net.inject((1, 1), frame(script.CLONE, 2, 1), time_ps=12_345)
    one.net.run(US)
    [(time, _)] = one.out[1, 3]
    assert time == 12_345


def test_priority_out_of_range(make):
    bench = make().single(2, priorities=3)
    for priority in (0, 2, 3):
        bench.net.inject((1, 2), frame(script.PRIORITY, 2, priority))
    bench.net.run(US)
    assert len(bench.frames(2)) == 2
    assert bench.counter("priority_drops") == 1


def test_pipeline_swap_drops_what_waits_and_keeps_the_rest(make):
    bench = make()
    bench.switch()
    bench.sink(1, 2, rate_bps=64 * 8 * 1_000_000)  # a frame a microsecond
    for tag in range(10):
        bench.net.inject((1, 2), frame(script.UNICAST, 2, tag=tag))
    bench.net.inject((1, 2), frame(script.UNICAST, 2, tag=99), time_ps=5 * US)
    bench.net.run(2 * US + US // 2)
    larger = ScriptProgram(phv_size=4096)
    bench.net.set_pipeline(1, larger, ScriptState())
    bench.net.run(20 * US)
    # Two had left, the third was being sent; seven waited.
    assert bench.counter("pipeline_drops") == 7
    assert [f[3] for f in bench.frames(2)] == [0, 1, 2, 99]
    assert bench.net.loop_stats()["used"] == 0


def test_wrong_switches_and_ports(one):
    net = one.net
    with pytest.raises(DetourError, match="no switch with device id 4"):
        net.packet_out(4, b"x")
    with pytest.raises(DetourError, match="device id 1 already"):
        net.add_switch(1)
    with pytest.raises(DetourError, match="port 2 of switch s1 is already attached"):
        net.attach_sink((1, 2), print)
    with pytest.raises(DetourError, match="cannot have port 512"):
        net.attach_sink((1, 512), print)
    with pytest.raises(DetourError, match="no attachment on port 44"):
        net.inject((1, 44), b"x")
    with pytest.raises(DetourError, match="frame of 0 bytes"):
        net.inject((1, 1), b"")
    with pytest.raises(DetourError, match="need real time"):
        net.attach_unix((1, 7), "/tmp/x")


def test_a_frame_of_nothing_is_not_sent(one):
    one.net.inject((1, 1), frame(script.SHRINK, 2, 1, size=script.HEADER))
    one.net.inject((1, 1), frame(script.SHRINK, 2, 1, size=script.HEADER + 5))
    one.net.run(US)
    assert [len(data) for data in one.frames(2)] == [5]
    assert one.counter("empty_drops") == 1
    assert one.net.loop_stats()["used"] == 0
