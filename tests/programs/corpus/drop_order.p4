// SPDX-License-Identifier: Apache-2.0
// The last word counts: a port after a drop revives, a drop after multicast kills.
#include "lib.p4"

header h_t { bit<8> op; bit<8> x; }
struct meta_t { }
struct headers_t { h_t h; }
PLAIN_PARSER
NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER

INGRESS {
    apply {
        if (!hdr.h.isValid()) {
            mark_to_drop(std);
            exit;
        }
        if (hdr.h.op == 0) {
            mark_to_drop(std);
        } else if (hdr.h.op == 1) {
            mark_to_drop(std);
            std.egress_spec = 3;
        } else if (hdr.h.op == 2) {
            std.mcast_grp = 1;
            mark_to_drop(std);
        } else if (hdr.h.op == 3) {
            std.egress_spec = 511;
        } else {
            std.egress_spec = 2;
        }
    }
}

EGRESS {
    apply {
        if (hdr.h.op == 5) { mark_to_drop(std); }
        hdr.h.x = 1;
    }
}
SWITCH
