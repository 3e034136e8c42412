// SPDX-License-Identifier: Apache-2.0
// mark_to_drop and what undoes it; port 511 by assignment; drops in egress; ports without an interface.
#include "lib.p4"

header head_t { bit<8> op; bit<8> trace; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            if (hdr.h.op == 1) {
                mark_to_drop(std);
            } else if (hdr.h.op == 2) {
                mark_to_drop(std);
                std.egress_spec = 2;
            } else if (hdr.h.op == 3) {
                std.egress_spec = 511;
            } else if (hdr.h.op == 4) {
                std.egress_port = 4;
            } else if (hdr.h.op == 5) {
                hdr.h.setInvalid();
            }
        }
    }
}

EGRESS {
    apply {
        if (hdr.h.isValid()) {
            hdr.h.trace = (bit<8>)std.egress_port;
            if (hdr.h.op == 6) {
                mark_to_drop(std);
            } else if (hdr.h.op == 7) {
                mark_to_drop(std);
                std.egress_spec = 3;
            } else if (hdr.h.op == 8) {
                std.egress_spec = 3;
            }
        }
    }
}

NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER
SWITCH
