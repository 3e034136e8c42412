// SPDX-License-Identifier: Apache-2.0
// Shifts by a field, up to 255 places, unsigned and signed.
#include "lib.p4"

header h_t {
    bit<8> op;
    bit<8> by;
    bit<8> a8;
    bit<8> r8;
    bit<32> a32;
    bit<32> r32;
    int<32> s32;
    int<32> q32;
    bit<48> a48;
    bit<48> r48;
}
struct meta_t { }
struct headers_t { h_t h; }
PLAIN_PARSER
NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER

// Counts beyond the width included: by takes any value up to 255.
INGRESS {
    apply {
        if (!hdr.h.isValid()) {
            mark_to_drop(std);
            exit;
        }
        if (hdr.h.op == 0) {
            hdr.h.r8 = hdr.h.a8 << hdr.h.by;
            hdr.h.r32 = hdr.h.a32 << hdr.h.by;
            hdr.h.r48 = hdr.h.a48 << hdr.h.by;
            hdr.h.q32 = hdr.h.s32 << hdr.h.by;
        } else if (hdr.h.op == 1) {
            hdr.h.r8 = hdr.h.a8 >> hdr.h.by;
            hdr.h.r32 = hdr.h.a32 >> hdr.h.by;
            hdr.h.r48 = hdr.h.a48 >> hdr.h.by;
            hdr.h.q32 = hdr.h.s32 >> hdr.h.by;
        } else if (hdr.h.op == 2) {
            hdr.h.r32 = hdr.h.a32 << (hdr.h.by & 0x3f);
            hdr.h.r48 = hdr.h.a48 >> (hdr.h.by & 0x3f);
            hdr.h.q32 = hdr.h.s32 >> (hdr.h.by & 0x1f);
        }
        std.egress_spec = 2;
    }
}
NO_EGRESS
SWITCH
