// SPDX-License-Identifier: Apache-2.0
// Arithmetic on one to nine bits.
#include "lib.p4"

header h_t {
    bit<8> op;
    bit<1> a1;
    bit<1> b1;
    bit<1> r1;
    bit<2> a2;
    bit<2> b2;
    bit<2> r2;
    bit<3> a3;
    bit<3> b3;
    bit<3> r3;
    bit<7> a7;
    bit<7> b7;
    bit<7> r7;
    bit<9> a9;
    bit<9> b9;
    bit<9> r9;
    bit<6> pad;
}
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
            hdr.h.r1 = hdr.h.a1 + hdr.h.b1;
            hdr.h.r2 = hdr.h.a2 + hdr.h.b2;
            hdr.h.r3 = hdr.h.a3 + hdr.h.b3;
            hdr.h.r7 = hdr.h.a7 + hdr.h.b7;
            hdr.h.r9 = hdr.h.a9 + hdr.h.b9;
        } else if (hdr.h.op == 1) {
            hdr.h.r1 = hdr.h.a1 - hdr.h.b1;
            hdr.h.r2 = hdr.h.a2 - hdr.h.b2;
            hdr.h.r3 = hdr.h.a3 - hdr.h.b3;
            hdr.h.r7 = hdr.h.a7 - hdr.h.b7;
            hdr.h.r9 = hdr.h.a9 - hdr.h.b9;
        } else if (hdr.h.op == 2) {
            hdr.h.r1 = hdr.h.a1 * hdr.h.b1;
            hdr.h.r2 = hdr.h.a2 * hdr.h.b2;
            hdr.h.r3 = hdr.h.a3 * hdr.h.b3;
            hdr.h.r7 = hdr.h.a7 * hdr.h.b7;
            hdr.h.r9 = hdr.h.a9 * hdr.h.b9;
        } else if (hdr.h.op == 3) {
            hdr.h.r1 = hdr.h.a1 |+| hdr.h.b1;
            hdr.h.r2 = hdr.h.a2 |+| hdr.h.b2;
            hdr.h.r3 = hdr.h.a3 |+| hdr.h.b3;
            hdr.h.r7 = hdr.h.a7 |+| hdr.h.b7;
            hdr.h.r9 = hdr.h.a9 |+| hdr.h.b9;
        } else if (hdr.h.op == 4) {
            hdr.h.r1 = -hdr.h.a1;
            hdr.h.r2 = -hdr.h.a2;
            hdr.h.r3 = -hdr.h.a3;
            hdr.h.r7 = -hdr.h.a7;
            hdr.h.r9 = -hdr.h.a9;
        }
        std.egress_spec = 2;
    }
}
NO_EGRESS
SWITCH
