// SPDX-License-Identifier: Apache-2.0
// Saturating addition and subtraction, unsigned, of five widths side by side.
#include "lib.p4"

header h_t {
    bit<8> op;
    bit<8> a8;
    bit<8> b8;
    bit<8> r8;
    bit<13> a13;
    bit<13> b13;
    bit<13> r13;
    bit<32> a32;
    bit<32> b32;
    bit<32> r32;
    bit<48> a48;
    bit<48> b48;
    bit<48> r48;
    bit<64> a64;
    bit<64> b64;
    bit<64> r64;
    bit<1> pad;
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
            hdr.h.r8 = hdr.h.a8 |+| hdr.h.b8;
            hdr.h.r13 = hdr.h.a13 |+| hdr.h.b13;
            hdr.h.r32 = hdr.h.a32 |+| hdr.h.b32;
            hdr.h.r48 = hdr.h.a48 |+| hdr.h.b48;
            hdr.h.r64 = hdr.h.a64 |+| hdr.h.b64;
        } else if (hdr.h.op == 1) {
            hdr.h.r8 = hdr.h.a8 |-| hdr.h.b8;
            hdr.h.r13 = hdr.h.a13 |-| hdr.h.b13;
            hdr.h.r32 = hdr.h.a32 |-| hdr.h.b32;
            hdr.h.r48 = hdr.h.a48 |-| hdr.h.b48;
            hdr.h.r64 = hdr.h.a64 |-| hdr.h.b64;
        }
        std.egress_spec = 2;
    }
}
NO_EGRESS
SWITCH
