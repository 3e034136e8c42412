// SPDX-License-Identifier: Apache-2.0
// Saturating addition and subtraction, signed, 8 bits.
#include "lib.p4"

header head_t {
    bit<8> op;
    int<8> a;
    int<8> b;
    int<8> sum;
    int<8> difference;
}
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            if (hdr.h.op == 1) {
                hdr.h.sum = hdr.h.a |+| hdr.h.b |+| 1;
                hdr.h.difference = (hdr.h.a |-| hdr.h.b) |-| 1;
            } else {
                hdr.h.sum = hdr.h.a |+| hdr.h.b;
                hdr.h.difference = hdr.h.a |-| hdr.h.b;
            }
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
