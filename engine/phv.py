# SPDX-License-Identifier: Apache-2.0
"""The fixed part of a packet header vector (PHV): byte offsets, instance types, port numbers.

Every PHV begins with these 128 bytes; the program's own fields follow (`Program.field_offset`). The loop
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

INGRESS_PORT: Final = 0
EGRESS_SPEC: Final = 4
EGRESS_PORT: Final = 8
INSTANCE_TYPE: Final = 12
PACKET_LENGTH: Final = 16
ENQ_TIMESTAMP: Final = 20
ENQ_QDEPTH: Final = 24
DEQ_TIMEDELTA: Final = 28
DEQ_QDEPTH: Final = 32
MCAST_GRP: Final = 36
EGRESS_RID: Final = 40
CHECKSUM_ERROR: Final = 44
PARSER_ERROR: Final = 48
PRIORITY: Final = 52
INGRESS_GLOBAL_TIMESTAMP: Final = 56  # u64
EGRESS_GLOBAL_TIMESTAMP: Final = 64  # u64
PAYLOAD_OFFSET: Final = 72  # bytes that the parser consumed
TRUNCATE: Final = 76  # length to which the whole packet is cut, 0 = no
CLONE_SESSION: Final = 80  # session + 1, 0 = no clone
CLONE_FIELDS: Final = 84  # field list + 1
RESUBMIT: Final = 88  # field list + 1, 0 = no
RECIRCULATE: Final = 92  # field list + 1, 0 = no
DIGEST_LIST: Final = 96  # learn list + 1, 0 = no
EXITED: Final = 100
PAYLOAD_PTR: Final = 104  # u64
PAYLOAD_LEN: Final = 112
ERROR: Final = 116  # one of the ERROR_ values below
LENGTH_REGISTER: Final = 120  # length as changed by setValid and setInvalid; becomes packet_length in egress
INGRESS_LENGTH: Final = 124  # length that was parsed; what counters and meters count
FIXED_SIZE: Final = 128

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

STANDARD_FIELDS: Final[dict[str, tuple[int, int]]] = {
    # field of v1model's standard_metadata: (offset, bytes)
    "ingress_port": (INGRESS_PORT, 4),
    "egress_spec": (EGRESS_SPEC, 4),
    "egress_port": (EGRESS_PORT, 4),
    "instance_type": (INSTANCE_TYPE, 4),
    "packet_length": (PACKET_LENGTH, 4),
    "enq_timestamp": (ENQ_TIMESTAMP, 4),
    "enq_qdepth": (ENQ_QDEPTH, 4),
    "deq_timedelta": (DEQ_TIMEDELTA, 4),
    "deq_qdepth": (DEQ_QDEPTH, 4),
    "mcast_grp": (MCAST_GRP, 4),
    "egress_rid": (EGRESS_RID, 4),
    "checksum_error": (CHECKSUM_ERROR, 4),
    "parser_error": (PARSER_ERROR, 4),
    "priority": (PRIORITY, 4),
    "ingress_global_timestamp": (INGRESS_GLOBAL_TIMESTAMP, 8),
    "egress_global_timestamp": (EGRESS_GLOBAL_TIMESTAMP, 8),
}
