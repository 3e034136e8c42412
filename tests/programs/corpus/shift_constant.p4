// SPDX-License-Identifier: Apache-2.0
// Shifts by constants, unsigned, signed and wide.
#include "lib.p4"

header h_t {
    bit<32> a;
    bit<32> left;
    bit<32> right;
    int<32> s;
    int<32> signed_right;
    bit<128> w;
    bit<128> wide_left;
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
        hdr.h.left = hdr.h.a << 7;
        hdr.h.right = hdr.h.a >> 9;
        hdr.h.signed_right = hdr.h.s >> 5;
        hdr.h.wide_left = (hdr.h.w << 17) ^ (hdr.h.w >> 111);
        std.egress_spec = 2;
    }
}
NO_EGRESS
SWITCH
