# SPDX-License-Identifier: Apache-2.0
"""A packet's processing in a switch, in the order of simple_switch's ingress and egress threads.

A packet runs parser and ingress when it arrives, waits in an output queue, and runs egress and deparser when the port
takes it out; a program for PSA writes and parses it once more before egress. Copies lose what simple_switch's copies
lose: pending clone, resubmit, recirculate and truncate.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.engine import phv as fixed
from detour.engine.loop import channels, heap, pfc, pool, queues, replicate
from detour.engine.loop.layout import (
    MAX_TIME,
    PORTS_PER_SWITCH,
    TO_NOWHERE,
    UNLIMITED_PS,
    UP_DIGEST,
    UP_RECEIVED,
    UP_SENT,
    LoopGlobals,
    PortRecord,
    SwitchRecord,
)
from detour.engine.loop.log import log_capture, log_upcall
from detour.engine.loop.native import (
    call2,
    call3,
    call4,
    call5,
    channel_at,
    highest_bit,
    load32,
    move_bytes,
    phv_at,
    port_at,
    queue_at,
    slot_at,
    switch_at,
)

_U32 = 0xFFFFFFFF
_U48 = 0xFFFFFFFFFFFF
_GROUPS = int64(1 << 16)
_SESSIONS = int64(1 << 15)


@inner(forceinline=True)
def arrive(g: LoopGlobals, port_index: int, slot_index: int, traffic_class: int) -> int:
    """A frame arrives at a switch port; `traffic_class` is the priority that it had in the queue that it left. Returns
    the switch if that can take it now, else -1."""
    port = port_at(g.ports, port_index)
    frame = slot_at(g.slots, slot_index)
    switch = switch_at(g.switches, port.switch)
    port.rx_packets += 1
    port.rx_bytes += frame.wire
    switch.packets += 1
    if g.capturing != 0:
        log_capture(g, UP_RECEIVED, port_index, slot_index)
    frame.origin = port.queues + min(traffic_class, port.priorities - 1)
    pool.take_phv(g, slot_index)
    phv = pool.phv_address(g, slot_index)
    pool.clear_fixed(phv)
    std = phv_at(phv, 0)
    std.ingress_port = port.number
    std.packet_length = frame.wire
    std.ingress_global_timestamp = (g.now // g.tick_ps) & _U48
    if switch.piped != 0:
        _enter_pipeline(g, switch, slot_index, switch.pipe_ps)
        return -1
    return port.switch


@inner()
def _enter_pipeline(g: LoopGlobals, switch: SwitchRecord, slot_index: int, latency_ps: int) -> None:
    """The packet waits until the pipeline takes it, and a latency after that what ingress decides is done.

    The pipeline takes one packet in `pipe_gap_ps`; behind `input_limit` that wait there is no room."""
    begin = max(g.now, switch.pipe_free_ps)
    if begin - g.now > switch.input_limit * switch.pipe_gap_ps:
        switch.input_drops += 1
        pool.give_back(g, slot_index)
        return
    switch.pipe_free_ps = begin + switch.pipe_gap_ps
    channels.insert(g, switch.input_channel, slot_index, begin + latency_ps)


@inner(forceinline=True)
def run_ingress(g: LoopGlobals, switch_index: int, slot_index: int) -> int:
    """Parse a packet whose PHV has its standard metadata, run ingress, and do what that decided. Return the port
    that may send now, -1: none."""
    switch = switch_at(g.switches, switch_index)
    if switch.ready == 0:
        switch.no_pipeline_drops += 1
        pool.give_back(g, slot_index)
        return -1
    phv = pool.phv_address(g, slot_index)
    std = phv_at(phv, 0)
    _parse(g, switch, slot_index, switch.parse)
    if std.parser_error != 0:
        switch.parser_errors += 1
    if std.error == 0:
        call2(switch.ingress, switch.state, phv)
    if std.error != 0:
        switch.faults += 1
        pool.give_back(g, slot_index)
        return -1
    std.exited = 0
    return _after_ingress(g, switch, switch_index, slot_index)


@inner(forceinline=True)
def _parse(g: LoopGlobals, switch: SwitchRecord, slot_index: int, parse: int) -> None:
    frame = slot_at(g.slots, slot_index)
    phv = pool.phv_address(g, slot_index)
    call4(parse, switch.state, phv, pool.address(g, slot_index), frame.length)
    if frame.wire != frame.length:
        std = phv_at(phv, 0)
        std.length_register = frame.wire
        std.ingress_length = frame.wire
    pool.point_at_payload(g, slot_index)


@inner(forceinline=True)
def _after_ingress(g: LoopGlobals, switch: SwitchRecord, switch_index: int, slot_index: int) -> int:
    """simple_switch's ingress thread from the end of the ingress control on; the port that may send now, -1: none."""
    std = phv_at(pool.phv_address(g, slot_index), 0)
    if std.clone_session != 0:
        _clone_ingress(g, switch, switch_index, slot_index)
    if std.digest_list != 0:
        _digest(g, switch, switch_index, slot_index)
    if std.resubmit != 0:
        switch.resubmits += 1
        _start_over(g, switch, slot_index, std.resubmit - 1, fixed.TYPE_RESUBMIT)
    elif std.mcast_grp != 0:
        std.instance_type = fixed.TYPE_REPLICATION
        block = replicate.find(switch.groups, switch.replicas, _GROUPS, int64(std.mcast_grp))
        if block == 0:
            switch.unknown_groups += 1
        else:
            switch.multicast_copies += replicate.count(block)
        _multicast(g, switch, switch_index, slot_index, block)
    elif std.egress_spec == switch.drop_port:
        switch.ingress_drops += 1
        pool.give_back(g, slot_index)
    else:
        std.instance_type = fixed.TYPE_NORMAL
        return _enqueue(g, switch, switch_index, slot_index, int64(std.egress_spec))
    return -1


@inner()
def _digest(g: LoopGlobals, switch: SwitchRecord, switch_index: int, slot_index: int) -> None:
    phv = pool.phv_address(g, slot_index)
    std = phv_at(phv, 0)
    number = std.digest_list - 1
    std.digest_list = 0
    if switch.wants_digest == 0:
        switch.digest_drops += 1
        return
    length = call3(switch.digest, number, phv, g.scratch)
    if log_upcall(g, UP_DIGEST, switch_index, number, g.scratch, length, length):
        switch.digests += 1
    else:
        switch.digest_drops += 1


@inner()
def _start_over(g: LoopGlobals, switch: SwitchRecord, slot_index: int, fields: int, instance_type: int) -> None:
    """Send a packet to the parser again with the metadata of a field list and nothing else."""
    channel = channel_at(g.channels, switch.input_channel)
    if switch.piped == 0 and channel.count >= switch.input_limit:
        switch.input_drops += 1
        pool.give_back(g, slot_index)
        return
    phv = pool.phv_address(g, slot_index)
    before = pool.scratch_phv(g)
    move_bytes(before, phv, switch.phv_size)
    pool.clear_fixed(phv)
    call3(switch.preserve, fields, before, phv)
    std = phv_at(phv, 0)
    std.instance_type = instance_type
    std.packet_length = slot_at(g.slots, slot_index).wire
    if switch.piped != 0:
        _enter_pipeline(g, switch, slot_index, max(switch.pipe_ps, UNLIMITED_PS))
    else:
        channels.append(g, switch.input_channel, slot_index, g.now + switch.recirculate_ps)


@inner()
def _reset_standard(g: LoopGlobals, slot_index: int) -> None:
    """Zero the standard metadata of a clone; what was parsed and how long the packet is stays."""
    phv = pool.phv_address(g, slot_index)
    std = phv_at(phv, 0)
    length_register, ingress_length, payload_offset = std.length_register, std.ingress_length, std.payload_offset
    pool.clear_fixed(phv)
    std.length_register = length_register
    std.ingress_length = ingress_length
    std.payload_offset = payload_offset
    pool.point_at_payload(g, slot_index)


@inner()
def _clone_ingress(g: LoopGlobals, switch: SwitchRecord, switch_index: int, slot_index: int) -> None:
    """Clone the packet as it was when ingress began; only a field list of its metadata survives."""
    phv = pool.phv_address(g, slot_index)
    std = phv_at(phv, 0)
    block = replicate.find(switch.sessions, switch.replicas, _SESSIONS, std.clone_session - 1)
    fields = std.clone_fields - 1
    std.clone_session = 0
    std.clone_fields = 0
    if block == 0:
        switch.unknown_sessions += 1
        return
    clone = pool.copy_frame(g, slot_index)
    if clone < 0:
        switch.pool_drops += 1
        return
    pool.take_phv(g, clone)
    clone_phv = pool.phv_address(g, clone)
    pool.clear_fixed(clone_phv)
    clone_std = phv_at(clone_phv, 0)
    clone_std.ingress_port = std.ingress_port
    _parse(g, switch, clone, switch.parse)
    _reset_standard(g, clone)
    call3(switch.preserve, fields, phv, clone_phv)
    clone_std.instance_type = fixed.TYPE_INGRESS_CLONE
    clone_std.truncate = replicate.cut(block)
    switch.clones += 1
    _multicast(g, switch, switch_index, clone, block)


@inner()
def _multicast(g: LoopGlobals, switch: SwitchRecord, switch_index: int, slot_index: int, block: int) -> None:
    """Enqueue a copy for each replica of a block (0: none); the packet itself becomes the last one."""
    replicas = 0 if block == 0 else replicate.count(block)
    if replicas == 0:
        switch.empty_groups += block != 0
        pool.give_back(g, slot_index)
    for number in range(replicas):
        copy = _replica(g, switch, slot_index, block, number, number == replicas - 1)
        if copy >= 0:
            index = _enqueue(g, switch, switch_index, copy, replicate.replica_port(block, number))
            if index >= 0:
                serve(g, index)


@inner()
def _replica(g: LoopGlobals, switch: SwitchRecord, slot_index: int, block: int, number: int, is_last: bool) -> int:
    """The packet for a replica: a copy, or for the last one the packet itself; -1 if the pool is empty."""
    copy = slot_index
    if not is_last:
        copy = pool.copy_packet(g, slot_index, switch.phv_size)
        if copy < 0:
            switch.pool_drops += 1
            return -1
    std = phv_at(pool.phv_address(g, copy), 0)
    std.egress_rid = replicate.replica_rid(block, number)
    std.clone_session = 0
    std.clone_fields = 0
    std.resubmit = 0
    std.recirculate = 0
    std.truncate = replicate.cut(block)
    return copy


@inner(forceinline=True)
def _depth(g: LoopGlobals, switch: SwitchRecord, port_index: int, priority: int, number: int) -> int:
    """Packets that wait in a queue of port `number`. Ports that nothing is attached to share the queues of one."""
    queue = queue_at(g.queues, port_at(g.ports, port_index).queues + priority)
    if port_index != switch.void_port:
        return queue.packets
    depth = 0
    slot_index = queue.head
    for _ in range(queue.packets):
        slot = slot_at(g.slots, slot_index)
        depth += slot.port == number
        slot_index = slot.next
    return depth


@inner(forceinline=True)
def _enqueue(g: LoopGlobals, switch: SwitchRecord, switch_index: int, slot_index: int, number: int) -> int:
    """Put a packet into the output queue of port `number`; the port's index, or -1 if it was dropped."""
    index = switch.void_port
    if number < PORTS_PER_SWITCH:
        mapped = load32(g.port_map + 4 * (switch_index * PORTS_PER_SWITCH + number))
        if mapped >= 0:
            index = mapped
    port = port_at(g.ports, index)
    std = phv_at(pool.phv_address(g, slot_index), 0)
    if std.priority >= port.priorities and switch.egress_parse != 0:
        std.priority = 0  # PSA: classes of service that a target does not have are the default one
    if std.priority >= port.priorities:
        switch.priority_drops += 1
        pool.give_back(g, slot_index)
        return -1
    slot_at(g.slots, slot_index).port = number
    std.enq_timestamp = (g.now // g.tick_ps) & _U32
    std.enq_qdepth = _depth(g, switch, index, std.priority, number)
    if not queues.enqueue(g, index, std.priority, slot_index):
        switch.queue_drops += 1
        return -1
    return index


@inner()
def serve(g: LoopGlobals, port_index: int) -> None:
    """Let a port send the next packet if it is free, and set its event for the one after that."""
    port = port_at(g.ports, port_index)
    if g.now >= port.busy_until:
        if port.signal != 0:
            port.busy_until = pfc.send(g, port_index)
        elif not _send_next(g, port, port_index):
            return
    if port.waiting > 0 or port.signal != 0:
        heap.schedule(g, port.entity, port.busy_until)


@inner(forceinline=True)
def _send_next(g: LoopGlobals, port: PortRecord, port_index: int) -> bool:
    """Take the next packet out of its queue and send it. False: none may leave now, and the port's event is set."""
    priority = queues.choose(g, port_index)
    if priority < 0:
        ready = queues.next_ready(g, port_index)
        if ready < MAX_TIME:
            heap.schedule(g, port.entity, ready)
        return False
    slot = queues.dequeue(g, port_index, priority)
    channels.prefetch_tail(g, port.channel)
    # Even a packet that egress drops takes a turn, so that a clone that clones itself lets time pass.
    port.busy_until = g.now + UNLIMITED_PS
    if _egress(g, port, port_index, priority, slot):
        slot_at(g.slots, slot).port = priority
        _send(g, port, port_index, slot)
    if port.filled > 0 and port.busy_until < g.window_end:
        pool.prefetch_egress(g, queue_at(g.queues, port.queues + highest_bit(port.filled)).head)
    return True


@inner(forceinline=True)
def _send(g: LoopGlobals, port: PortRecord, port_index: int, slot_index: int) -> None:
    if channel_at(g.channels, port.channel).kind == TO_NOWHERE:
        switch_at(g.switches, port.switch).no_port_drops += 1
        pool.give_back(g, slot_index)
        return
    if g.capturing != 0:
        log_capture(g, UP_SENT, port_index, slot_index)
    port.busy_until = max(port.busy_until, channels.send(g, port.channel, slot_index))


@inner(forceinline=True)
def _egress(g: LoopGlobals, port: PortRecord, port_index: int, priority: int, slot_index: int) -> bool:
    """simple_switch's egress thread: egress control, clone, drop, deparser, recirculation. True: to be sent."""
    switch = switch_at(g.switches, port.switch)
    phv = pool.phv_address(g, slot_index)
    std = phv_at(phv, 0)
    ticks = g.now // g.tick_ps
    std.egress_global_timestamp = ticks & _U48
    std.deq_timedelta = (ticks - std.enq_timestamp) & _U32
    std.egress_port = slot_at(g.slots, slot_index).port
    std.deq_qdepth = _depth(g, switch, port_index, priority, std.egress_port)
    if switch.egress_parse != 0 and not _parse_for_egress(g, switch, port.switch, slot_index):
        return False
    call2(switch.egress, switch.state, phv)
    if std.error != 0:
        switch.faults += 1
        pool.give_back(g, slot_index)
        return False
    if std.clone_session != 0:
        _clone_egress(g, switch, port.switch, slot_index)
    if std.egress_spec == switch.drop_port:
        switch.egress_drops += 1
        port.egress_drops += 1
        pool.give_back(g, slot_index)
        return False
    return _deparse(g, switch, slot_index)


@inner()
def _parse_for_egress(g: LoopGlobals, switch: SwitchRecord, switch_index: int, slot_index: int) -> bool:
    """PSA: writes the packet as ingress left it, or a clone as egress left it, and parses it for egress. False: it is
    gone."""
    std = phv_at(pool.phv_address(g, slot_index), 0)
    is_as_it_came = std.instance_type == fixed.TYPE_INGRESS_CLONE
    if not is_as_it_came and not _put_headers(g, switch, slot_index, switch.ingress_deparse):
        return False
    if std.digest_list != 0:
        _digest(g, switch, switch_index, slot_index)
    _parse(g, switch, slot_index, switch.egress_parse)
    return True


@inner(forceinline=True)
def _put_headers(g: LoopGlobals, switch: SwitchRecord, slot_index: int, deparse: int) -> bool:
    """Write the headers; False: the packet is gone."""
    frame = slot_at(g.slots, slot_index)
    phv = pool.phv_address(g, slot_index)
    std = phv_at(phv, 0)
    payload = frame.start + std.payload_offset
    payload_length = frame.length - std.payload_offset
    length = call5(deparse, switch.state, phv, g.scratch, g.slots + payload, payload_length)
    if std.error != 0:
        switch.faults += 1
        pool.give_back(g, slot_index)
        return False
    if not pool.put_headers(g, slot_index, g.scratch, length, payload, payload_length):
        switch.header_drops += 1
        pool.give_back(g, slot_index)
        return False
    return True


@inner(forceinline=True)
def _deparse(g: LoopGlobals, switch: SwitchRecord, slot_index: int) -> bool:
    """Write the headers; True if the packet is to be sent, False if it is gone or recirculates."""
    if not _put_headers(g, switch, slot_index, switch.deparse):
        return False
    frame = slot_at(g.slots, slot_index)
    std = phv_at(pool.phv_address(g, slot_index), 0)
    if std.recirculate != 0:
        switch.recirculations += 1
        _start_over(g, switch, slot_index, std.recirculate - 1, fixed.TYPE_RECIRCULATION)
        return False
    if std.truncate != 0:
        frame.length = min(frame.length, std.truncate)
        frame.wire = min(frame.wire, std.truncate)
    if frame.length == 0:
        # simple_switch hands it to libpcap, which refuses it.
        switch.empty_drops += 1
        pool.give_back(g, slot_index)
        return False
    pool.give_back_phv(g, slot_index)
    return True


@inner()
def _clone_egress(g: LoopGlobals, switch: SwitchRecord, switch_index: int, slot_index: int) -> None:
    """Clone the packet with its headers as egress leaves them; the clones run egress themselves."""
    phv = pool.phv_address(g, slot_index)
    std = phv_at(phv, 0)
    block = replicate.find(switch.sessions, switch.replicas, _SESSIONS, std.clone_session - 1)
    fields = std.clone_fields - 1
    std.clone_session = 0
    std.clone_fields = 0
    if block == 0:
        switch.unknown_sessions += 1
        return
    for number in range(replicate.count(block)):
        clone = pool.copy_packet(g, slot_index, switch.phv_size)
        if clone < 0:
            switch.pool_drops += 1
            return
        _reset_standard(g, clone)
        clone_phv = pool.phv_address(g, clone)
        call3(switch.preserve, fields, phv, clone_phv)
        clone_std = phv_at(clone_phv, 0)
        clone_std.instance_type = fixed.TYPE_EGRESS_CLONE
        clone_std.egress_rid = replicate.replica_rid(block, number)
        clone_std.truncate = replicate.cut(block)
        switch.clones += 1
        index = _enqueue(g, switch, switch_index, clone, replicate.replica_port(block, number))
        if index >= 0:
            wake_later(g, index)


@inner()
def wake_later(g: LoopGlobals, port_index: int) -> None:
    """Set a port's event as early as it may send. Egress clones go this way: a port must not serve itself."""
    port = port_at(g.ports, port_index)
    time = max(g.now, port.busy_until)
    if heap.pending_time(g, port.entity) > time:
        heap.schedule(g, port.entity, time)


@inner()
def flush(g: LoopGlobals, switch_index: int) -> int:
    """Drop what waits in a switch with a PHV of its program (which is about to change); return how many."""
    switch = switch_at(g.switches, switch_index)
    dropped = channels.flush(g, switch.input_channel)
    for number in range(PORTS_PER_SWITCH):
        index = load32(g.port_map + 4 * (switch_index * PORTS_PER_SWITCH + number))
        if index >= 0:
            dropped += queues.flush(g, index)
    dropped += queues.flush(g, switch.void_port)
    switch.pipeline_drops += dropped
    return dropped
