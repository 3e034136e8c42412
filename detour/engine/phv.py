# SPDX-License-Identifier: Apache-2.0
"""The fixed part of a packet header vector (PHV): byte offsets, instance types, port numbers.

Every PHV begins with these 128 bytes; the program's own fields follow (`compiler.layout`). The loop
owns the fixed part: it zeroes it for a new packet and writes what the target knows (ports, times, queue
depths). Compiled code writes what the program decides (egress_spec, clones, truncation, ...).

How the native functions and the loop share it, in the order of simple_switch:

- *new packet*: zero bytes 0..128, set ingress_port, packet_length, instance_type, ingress_global_timestamp,
  then `parse`, `ingress`. `parse` itself records `length` in `LENGTH_REGISTER` and `INGRESS_LENGTH`.
- *resubmit, recirculate*: zero the fixed part of the new PHV (simple_switch leaves ingress_port and both
  timestamps 0), set packet_length and instance_type (`TYPE_RESUBMIT` or `TYPE_RECIRCULATION`), call
  `preserve(list, old, new)`, *then* `parse`: with these two instance types `parse` leaves metadata alone,
  because the parser may read what was preserved.
- *clone from ingress*: `parse` the original bytes into a new PHV, zero the fixed part but for the two length
  fields, then `preserve`: it zeroes the program's metadata and copies the fields of the list.
- *clone from egress*: copy the whole PHV, zero the fixed part but for the two length fields, `preserve`.
- *multicast copy*: copy the whole PHV, set egress_rid and instance_type.

`egress` itself sets packet_length from `LENGTH_REGISTER` and makes egress_spec differ from the drop port.
`digest` and `preserve` take the list id as such (the PHV holds it plus one).
"""

from __future__ import annotations

from typing import Final

from detour.base.dataplane import CPU_PORT as CPU_PORT
from detour.base.dataplane import DROP_PORT as DROP_PORT
from detour.base.structs import Int64, NativeRecord, UInt32, offsets


class FixedPhv(NativeRecord):
    """The layout of the fixed fields. (64-bit fields are signed: Numba turns int64 + uint64 into a float.)"""

    # fmt: off
    ingress_port: UInt32; egress_spec: UInt32; egress_port: UInt32; instance_type: UInt32; packet_length: UInt32
    enq_timestamp: UInt32; enq_qdepth: UInt32; deq_timedelta: UInt32; deq_qdepth: UInt32
    mcast_grp: UInt32; egress_rid: UInt32; checksum_error: UInt32; parser_error: UInt32; priority: UInt32
    ingress_global_timestamp: Int64; egress_global_timestamp: Int64
    # up to here v1model's standard_metadata
    payload_offset: UInt32  # bytes that the parser consumed
    truncate: UInt32  # length to which the whole packet is cut, 0 = no
    clone_session: UInt32; clone_fields: UInt32  # session + 1, 0 = no clone; field list + 1
    resubmit: UInt32; recirculate: UInt32  # field list + 1, 0 = no
    digest_list: UInt32  # learn list + 1, 0 = no
    exited: UInt32
    payload_ptr: Int64; payload_len: UInt32
    error: UInt32  # one of the ERROR_ values below
    length_register: UInt32  # length as changed by setValid and setInvalid; becomes packet_length in egress
    ingress_length: UInt32  # length that was parsed; what counters and meters count
    # fmt: on


_PLACES = offsets(FixedPhv)
(
    INGRESS_PORT, EGRESS_SPEC, EGRESS_PORT, INSTANCE_TYPE, PACKET_LENGTH,
    ENQ_TIMESTAMP, ENQ_QDEPTH, DEQ_TIMEDELTA, DEQ_QDEPTH,
    MCAST_GRP, EGRESS_RID, CHECKSUM_ERROR, PARSER_ERROR, PRIORITY,
    INGRESS_GLOBAL_TIMESTAMP, EGRESS_GLOBAL_TIMESTAMP,
    PAYLOAD_OFFSET, TRUNCATE, CLONE_SESSION, CLONE_FIELDS, RESUBMIT, RECIRCULATE, DIGEST_LIST, EXITED,
    PAYLOAD_PTR, PAYLOAD_LEN, ERROR, LENGTH_REGISTER, INGRESS_LENGTH,
) = _PLACES.values()  # fmt: skip
FIXED_SIZE: Final = FixedPhv.dtype.itemsize

ERROR_NONE: Final = 0
ERROR_ASSERT: Final = 1  # assert() or assume() failed: simple_switch would abort
ERROR_DIVISION: Final = 2  # division or modulo by zero: simple_switch would abort
ERROR_INDEX: Final = 3  # header stack index out of bounds: simple_switch would abort
ERROR_LOOP: Final = 4  # a loop in an action did not end

TYPE_NORMAL: Final = 0
TYPE_INGRESS_CLONE: Final = 1
TYPE_EGRESS_CLONE: Final = 2
TYPE_COALESCED: Final = 3
TYPE_RECIRCULATION: Final = 4
TYPE_REPLICATION: Final = 5
TYPE_RESUBMIT: Final = 6

STANDARD_FIELDS: Final = {
    name: (place, FixedPhv.dtype[name].itemsize) for name, place in _PLACES.items() if place < PAYLOAD_OFFSET
}
"""of v1model's standard_metadata: offset, bytes"""
