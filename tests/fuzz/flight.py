# SPDX-License-Identifier: Apache-2.0
"""The packet path as native code: what the loop does with a packet (`detour/engine/loop/switch.py`), without time.

Between the calls it checks what must hold whatever the packet is. The number of the rule that was broken comes back.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64s1, Int64s2, UInt8s1, UInt8s2
from detour.base.jit import inner
from detour.base.native import Part
from detour.base.pointers import record_by_address
from detour.engine import phv as fixed
from detour.engine.loop.native import call2, call3, call4, call5, load8, load32, move_bytes, phv_at, store64
from tests.fuzz.job import JOB, PATHS
from tests.fuzz.mutate import below, draw, make_packet

FLIGHT = Part("flight", __name__)

MOST_PASSES = 4

_U48 = (1 << 48) - 1
_STAY = 0
_GO = 1
_AGAIN = 2


@inner()
def _check(phv: int, checks: Any) -> int:
    """`checks`: rows of (offset, bytes, limit, rule)."""
    for i in range(len(checks)):
        if checks[i, 1] == 1:
            if load8(phv + checks[i, 0]) > checks[i, 2]:
                return checks[i, 3]
        elif load32(phv + checks[i, 0]) & 0xFFFFFFFF > checks[i, 2]:
            return checks[i, 3]
    return 0


@inner()
def _clear(phv: int) -> None:
    for offset in range(0, 128, 8):
        store64(phv + offset, 0)


@inner()
def _parse(job: Any, phv: int, packet: int, length: int, checks: Any) -> int:
    job.stage = 1
    call4(job.parse, job.state, phv, packet, length)
    std = phv_at(phv, 0)
    if std.payload_offset > length:
        return 1
    if std.parser_error >= job.errors:
        return 2
    std.payload_ptr = packet + std.payload_offset
    std.payload_len = length - std.payload_offset
    return _check(phv, checks)


@inner()
def _preserve(job: Any, fields: int, source: int, target: int) -> None:
    job.stage = 4
    call3(job.preserve, fields, source, target)


@inner()
def _digest(job: Any, phv: int) -> int:
    std = phv_at(phv, 0)
    job.stage = 3
    job.digests += 1
    length = call3(job.digest, std.digest_list - 1, phv, job.digest_out)
    std.digest_list = 0
    return 0 if 0 <= length <= job.max_digest else 7


@inner()
def _begin_clone(job: Any, phv: int, clone: int, fields: int, kind: int) -> None:
    """What is left of the standard metadata of a clone, and the fields of its list."""
    std, copy = phv_at(phv, 0), phv_at(clone, 0)
    register, ingress_length, offset = copy.length_register, copy.ingress_length, copy.payload_offset
    pointer, size = copy.payload_ptr, copy.payload_len
    _clear(clone)
    copy.length_register, copy.ingress_length, copy.payload_offset = register, ingress_length, offset
    copy.payload_ptr, copy.payload_len = pointer, size
    _preserve(job, fields, phv, clone)
    copy.instance_type = kind
    copy.egress_spec = std.egress_spec
    job.clones += 1


@inner()
def _deparse(job: Any, phv: int, length: int, checks: Any) -> int:
    """Length of the headers, or the negative number of a rule."""
    broken = _check(phv, checks)
    if broken:
        return -broken
    std = phv_at(phv, 0)
    job.stage = 6
    count = call5(job.deparse, job.state, phv, job.out, std.payload_ptr, length - std.payload_offset)
    return count if 0 <= count <= job.max_headers else -6


@inner()
def _egress(job: Any, phv: int, rng: Any) -> bool:
    """Runs the egress control; whether the packet is to be sent."""
    std = phv_at(phv, 0)
    std.egress_port = std.egress_spec
    std.enq_timestamp = job.time & 0xFFFFFFFF
    std.deq_timedelta = below(rng, 5) if below(rng, 8) else draw(rng) & 0xFFFFFFFF
    std.deq_qdepth = below(rng, 100)
    std.enq_qdepth = below(rng, 100) if below(rng, 8) else draw(rng) & 0xFFFFFFFF
    std.egress_global_timestamp = job.time
    job.stage = 5
    call2(job.egress, job.state, phv)
    if std.error != 0:
        job.faults += 1
        return False
    return True


@inner()
def _leave(job: Any, phv: int, length: int, checks: Any, rng: Any) -> int:
    """Egress, the clone that it may make, and the deparser; headers' length, or a rule's negative number."""
    std = phv_at(phv, 0)
    if not _egress(job, phv, rng):
        std.recirculate = 0
        return 0
    if std.clone_session != 0:
        fields = std.clone_fields - 1
        std.clone_session = 0
        move_bytes(job.other, phv, job.phv_size)
        _begin_clone(job, phv, job.other, fields, fixed.TYPE_EGRESS_CLONE)
        if _egress(job, job.other, rng):
            count = _deparse(job, job.other, length, checks)
            if count < 0:
                return count
    if std.egress_spec == fixed.DROP_PORT:
        job.dropped += 1
        std.recirculate = 0
        return 0
    count = _deparse(job, phv, length, checks)
    job.sent += 1
    return count


@inner()
def _clone_ingress(job: Any, packet: int, length: int, checks: Any, rng: Any) -> int:
    std = phv_at(job.phv, 0)
    fields = std.clone_fields - 1
    std.clone_session = 0
    std.clone_fields = 0
    _clear(job.other)
    phv_at(job.other, 0).ingress_port = std.ingress_port
    broken = _parse(job, job.other, packet, length, checks)
    if broken:
        return broken
    _begin_clone(job, job.phv, job.other, fields, fixed.TYPE_INGRESS_CLONE)
    if _egress(job, job.other, rng):
        return -min(_deparse(job, job.other, length, checks), 0)
    return 0


@inner()
def _start_over(job: Any, fields: int, kind: int, length: int) -> None:
    move_bytes(job.spare, job.phv, job.phv_size)
    _clear(job.phv)
    _preserve(job, fields, job.spare, job.phv)
    std = phv_at(job.phv, 0)
    std.instance_type = kind
    std.packet_length = length
    job.again += 1


@inner()
def _ingress(job: Any, packet: int, length: int, checks: Any, rng: Any) -> int:
    """Parser, ingress and what it decided: _STAY, _GO (to egress), _AGAIN, or a rule's negative number."""
    std = phv_at(job.phv, 0)
    broken = _parse(job, job.phv, packet, length, checks)
    if broken:
        return -broken
    job.parsed += 1
    if std.parser_error != 0:
        job.parser_errors += 1
    if std.error == 0:
        job.stage = 2
        call2(job.ingress, job.state, job.phv)
    if std.error != 0:
        job.faults += 1
        return _STAY
    std.exited = 0
    if std.clone_session != 0:
        broken = _clone_ingress(job, packet, length, checks, rng)
    if std.digest_list != 0 and broken == 0:
        broken = _digest(job, job.phv)
    if broken:
        return -broken
    if std.resubmit != 0:
        _start_over(job, std.resubmit - 1, fixed.TYPE_RESUBMIT, length)
        return _AGAIN
    std.instance_type = fixed.TYPE_NORMAL
    if std.mcast_grp != 0:
        std.instance_type = fixed.TYPE_REPLICATION
        std.egress_spec = below(rng, 16)
        std.egress_rid = below(rng, 1 << 16)
    elif std.egress_spec == fixed.DROP_PORT:
        job.dropped += 1
        return _STAY
    return _GO


@inner()
def _recirculate(job: Any, headers: int, length: int, fields: int) -> int:
    """The packet as it was deparsed comes in again; its length, -1 if it became too long."""
    std = phv_at(job.phv, 0)
    payload = length - std.payload_offset
    if headers + payload > job.capacity:
        return -1
    move_bytes(job.compose, job.out, headers)
    move_bytes(job.compose + headers, std.payload_ptr, payload)
    _start_over(job, fields, fixed.TYPE_RECIRCULATION, headers + payload)
    return headers + payload


@inner()
def _place(job: Any, data: int, length: int) -> int:
    """Puts a packet where the byte behind it (or in front of it) is forbidden."""
    at = job.packets + (job.capacity - length if job.rear else 0)
    move_bytes(at, data, length)
    return at


@inner()
def _fly(job: Any, data: int, checks: Any, rng: Any) -> int:
    """One packet through the switch; 0 or the rule that was broken."""
    length = job.length
    packet = _place(job, data, length)
    _clear(job.phv)
    std = phv_at(job.phv, 0)
    std.ingress_port = job.port
    std.packet_length = length
    std.ingress_global_timestamp = job.time
    for number in range(MOST_PASSES):
        job.pass_ = number
        decided = _ingress(job, packet, length, checks, rng)
        if decided < 0:
            return -decided
        if decided == _STAY:
            return 0
        if decided == _GO:
            headers = _leave(job, job.phv, length, checks, rng)
            if headers < 0:
                return -headers
            job.octets += headers
            if std.recirculate == 0:
                return 0
            length = _recirculate(job, headers, length, std.recirculate - 1)
            if length < 0:
                return 0
            packet = _place(job, job.compose, length)
    return 0


@inner()
def _path(phv: int, checks: Any) -> int:
    """A number for the way that a packet took: which headers it had, how parsing ended, where it went."""
    std = phv_at(phv, 0)
    h = std.parser_error * 31 + std.egress_spec * 7 + std.error * 3 + std.mcast_grp
    for i in range(len(checks)):
        h = (h * 0x100000001B3 + load8(phv + checks[i, 0])) & 0x7FFFFFFFFFFF
    return (h ^ (h >> 21)) % PATHS


@inner()
def _learn(job: Any, work: Any, seeds: Any, lengths: Any, count: int, seen: Any, checks: Any) -> int:
    """Keeps a packet that went a new way as a seed; the number of seeds."""
    path = _path(job.phv, checks)
    if seen[path]:
        return count
    seen[path] = 1
    job.paths += 1
    if count == len(lengths) or job.length > seeds.shape[1]:
        return count
    for i in range(job.length):
        seeds[count, i] = work[i]
    lengths[count] = job.length
    return count + 1


@inner()
def _port(rng: Any) -> int:
    kind = below(rng, 32)
    if kind == 0:
        return below(rng, 512)
    return fixed.CPU_PORT if kind == 1 else below(rng, 10)


@inner()
def _next_time(job: Any, rng: Any) -> None:
    """Time goes on, seldom by a lot."""
    job.time += below(rng, 3)
    if below(rng, 100_000) == 0:
        job.time += below(rng, 1 << 40)
    job.time &= _U48


_job_at = record_by_address(JOB)


@FLIGHT.entry
def fly(
    jobs: int,
    work: UInt8s1,
    seeds: UInt8s2,
    lengths: Int64s1,
    learnt: Int64s1,
    words: UInt8s2,
    seen: UInt8s1,
    checks: Int64s2,
    rng: Annotated[NDArray[np.uint64], 1],
    packets: int,
) -> int:
    """Sends `packets` mutated packets; 0 or the rule that the last packet broke. `known`: number of seeds, then too."""
    job, count = _job_at(jobs, 0), learnt[0]
    rule = 0
    for _ in range(packets):
        job.stage = 0
        job.length = make_packet(rng, work, seeds, lengths, count, words)
        job.port = _port(rng)
        _next_time(job, rng)
        rule = _fly(job, work.ctypes.data, checks, rng)
        if rule:
            break
        count = _learn(job, work, seeds, lengths, count, seen, checks)
        job.index += 1
    learnt[0] = count
    return rule
