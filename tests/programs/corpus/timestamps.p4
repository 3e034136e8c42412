// SPDX-License-Identifier: Apache-2.0
// Timestamps and queue depths: what must hold of them whatever the clock says.
#include "lib.p4"

header head_t { bit<8> facts; bit<8> ingress_facts; }
struct headers_t { head_t h; }
struct meta_t { bit<48> arrived; }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        meta.arrived = std.ingress_global_timestamp;
        if (hdr.h.isValid()) {
            hdr.h.ingress_facts = 6w0 ++ (bit<1>)(std.enq_timestamp == 0) ++ (bit<1>)(std.deq_timedelta == 0);
        }
    }
}

EGRESS {
    apply {
        if (hdr.h.isValid()) {
            hdr.h.facts = 4w0 ++
                (bit<1>)(std.egress_global_timestamp >= std.ingress_global_timestamp) ++
                (bit<1>)(std.ingress_global_timestamp == meta.arrived) ++
                (bit<1>)(std.deq_timedelta < 0x80000000) ++
                (bit<1>)(std.enq_qdepth < 64);
        }
    }
}

NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER
SWITCH
