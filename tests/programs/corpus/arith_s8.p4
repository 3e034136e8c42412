// SPDX-License-Identifier: Apache-2.0
// Signed arithmetic, two's complement, 8 bits.
#include "lib.p4"

header head_t {
    bit<8> op;
    int<8> a;
    int<8> b;
    int<8> r;
}
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            if (hdr.h.op == 0) { hdr.h.r = hdr.h.a + hdr.h.b; }
            else if (hdr.h.op == 1) { hdr.h.r = hdr.h.a - hdr.h.b; }
            else if (hdr.h.op == 2) { hdr.h.r = hdr.h.a * hdr.h.b; }
            else if (hdr.h.op == 3) { hdr.h.r = hdr.h.a & hdr.h.b; }
            else if (hdr.h.op == 4) { hdr.h.r = hdr.h.a | hdr.h.b; }
            else if (hdr.h.op == 5) { hdr.h.r = hdr.h.a ^ hdr.h.b; }
            else if (hdr.h.op == 6) { hdr.h.r = ~hdr.h.a; }
            else if (hdr.h.op == 7) { hdr.h.r = -hdr.h.a; }
            else if (hdr.h.op == 8) { hdr.h.r = (hdr.h.a + hdr.h.b) * (hdr.h.a - 1); }
            else if (hdr.h.op == 9) { hdr.h.r = ~(hdr.h.a - hdr.h.b) + 1; }
            else if (hdr.h.op == 10) { hdr.h.r = hdr.h.a - (hdr.h.b * hdr.h.b + 3); }
            else if (hdr.h.op == 11) { hdr.h.r = ((-hdr.h.a) & hdr.h.b) | (hdr.h.a ^ ~hdr.h.b); }
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
