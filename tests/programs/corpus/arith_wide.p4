// SPDX-License-Identifier: Apache-2.0
// Arithmetic on 65 to 512 bits, wider than any machine word.
#include "lib.p4"

header h_t {
    bit<8> op;
    bit<65> a65;
    bit<65> b65;
    bit<65> r65;
    bit<128> a128;
    bit<128> b128;
    bit<128> r128;
    bit<200> a200;
    bit<200> b200;
    bit<200> r200;
    bit<512> a512;
    bit<512> b512;
    bit<512> r512;
    bit<5> pad;
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
            hdr.h.r65 = hdr.h.a65 + hdr.h.b65;
            hdr.h.r128 = hdr.h.a128 + hdr.h.b128;
            hdr.h.r200 = hdr.h.a200 + hdr.h.b200;
            hdr.h.r512 = hdr.h.a512 + hdr.h.b512;
        } else if (hdr.h.op == 1) {
            hdr.h.r65 = hdr.h.a65 - hdr.h.b65;
            hdr.h.r128 = hdr.h.a128 - hdr.h.b128;
            hdr.h.r200 = hdr.h.a200 - hdr.h.b200;
            hdr.h.r512 = hdr.h.a512 - hdr.h.b512;
        } else if (hdr.h.op == 2) {
            hdr.h.r65 = hdr.h.a65 ^ hdr.h.b65;
            hdr.h.r128 = hdr.h.a128 ^ hdr.h.b128;
            hdr.h.r200 = hdr.h.a200 ^ hdr.h.b200;
            hdr.h.r512 = hdr.h.a512 ^ hdr.h.b512;
        } else if (hdr.h.op == 3) {
            hdr.h.r65 = hdr.h.a65 |+| hdr.h.b65;
            hdr.h.r128 = hdr.h.a128 |+| hdr.h.b128;
            hdr.h.r200 = hdr.h.a200 |+| hdr.h.b200;
            hdr.h.r512 = hdr.h.a512 |+| hdr.h.b512;
        } else if (hdr.h.op == 4) {
            hdr.h.r65 = hdr.h.a65 |-| hdr.h.b65;
            hdr.h.r128 = hdr.h.a128 |-| hdr.h.b128;
            hdr.h.r200 = hdr.h.a200 |-| hdr.h.b200;
            hdr.h.r512 = hdr.h.a512 |-| hdr.h.b512;
        } else if (hdr.h.op == 5) {
            hdr.h.r65 = ~hdr.h.a65;
            hdr.h.r128 = ~hdr.h.a128;
            hdr.h.r200 = ~hdr.h.a200;
            hdr.h.r512 = ~hdr.h.a512;
        }
        std.egress_spec = 2;
    }
}
NO_EGRESS
SWITCH
