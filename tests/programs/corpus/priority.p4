// SPDX-License-Identifier: Apache-2.0
// Priorities: set from the packet, seen in egress.
#include "lib.p4"

header head_t { bit<8> priority; bit<8> seen; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            std.priority = (bit<3>)hdr.h.priority;
        }
    }
}

EGRESS {
    apply {
        if (hdr.h.isValid()) {
            hdr.h.seen = 5w0 ++ std.priority;
        }
    }
}

NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER
SWITCH
