// SPDX-License-Identifier: Apache-2.0
// Relations of unsigned and signed values, slices in conditions, !, && and || and ?:.
#include "lib.p4"

header h_t {
    bit<32> a;
    bit<32> b;
    int<32> s;
    int<32> t;
    bit<16> r;
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
        hdr.h.r = 0;
        if (hdr.h.a < hdr.h.b) { hdr.h.r = hdr.h.r | 1; }
        if (hdr.h.a <= hdr.h.b) { hdr.h.r = hdr.h.r | 2; }
        if (hdr.h.a == hdr.h.b) { hdr.h.r = hdr.h.r | 4; }
        if (hdr.h.s < hdr.h.t) { hdr.h.r = hdr.h.r | 8; }
        if (hdr.h.s >= hdr.h.t) { hdr.h.r = hdr.h.r | 16; }
        if (hdr.h.s < 0) { hdr.h.r = hdr.h.r | 32; }
        if (hdr.h.a[7:0] == hdr.h.b[7:0] || !(hdr.h.a[31:31] == 1 && hdr.h.b[31:31] != 0)) { hdr.h.r = hdr.h.r | 64; }
        hdr.h.r[15:8] = (hdr.h.a > hdr.h.b) ? 8w0x55 : 8w0xaa;
        std.egress_spec = 2;
    }
}
NO_EGRESS
SWITCH
