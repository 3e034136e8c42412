// SPDX-License-Identifier: Apache-2.0
// Signed arithmetic of five widths side by side, unaligned fields among them.
#include "lib.p4"

header h_t {
    bit<8> op;
    int<8> a8;
    int<8> b8;
    int<8> r8;
    int<13> a13;
    int<13> b13;
    int<13> r13;
    int<32> a32;
    int<32> b32;
    int<32> r32;
    int<48> a48;
    int<48> b48;
    int<48> r48;
    int<64> a64;
    int<64> b64;
    int<64> r64;
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
            hdr.h.r8 = hdr.h.a8 + hdr.h.b8;
            hdr.h.r13 = hdr.h.a13 + hdr.h.b13;
            hdr.h.r32 = hdr.h.a32 + hdr.h.b32;
            hdr.h.r48 = hdr.h.a48 + hdr.h.b48;
            hdr.h.r64 = hdr.h.a64 + hdr.h.b64;
        } else if (hdr.h.op == 1) {
            hdr.h.r8 = hdr.h.a8 - hdr.h.b8;
            hdr.h.r13 = hdr.h.a13 - hdr.h.b13;
            hdr.h.r32 = hdr.h.a32 - hdr.h.b32;
            hdr.h.r48 = hdr.h.a48 - hdr.h.b48;
            hdr.h.r64 = hdr.h.a64 - hdr.h.b64;
        } else if (hdr.h.op == 2) {
            hdr.h.r8 = hdr.h.a8 * hdr.h.b8;
            hdr.h.r13 = hdr.h.a13 * hdr.h.b13;
            hdr.h.r32 = hdr.h.a32 * hdr.h.b32;
            hdr.h.r48 = hdr.h.a48 * hdr.h.b48;
            hdr.h.r64 = hdr.h.a64 * hdr.h.b64;
        } else if (hdr.h.op == 3) {
            hdr.h.r8 = hdr.h.a8 & hdr.h.b8;
            hdr.h.r13 = hdr.h.a13 & hdr.h.b13;
            hdr.h.r32 = hdr.h.a32 & hdr.h.b32;
            hdr.h.r48 = hdr.h.a48 & hdr.h.b48;
            hdr.h.r64 = hdr.h.a64 & hdr.h.b64;
        } else if (hdr.h.op == 4) {
            hdr.h.r8 = hdr.h.a8 | hdr.h.b8;
            hdr.h.r13 = hdr.h.a13 | hdr.h.b13;
            hdr.h.r32 = hdr.h.a32 | hdr.h.b32;
            hdr.h.r48 = hdr.h.a48 | hdr.h.b48;
            hdr.h.r64 = hdr.h.a64 | hdr.h.b64;
        } else if (hdr.h.op == 5) {
            hdr.h.r8 = hdr.h.a8 ^ hdr.h.b8;
            hdr.h.r13 = hdr.h.a13 ^ hdr.h.b13;
            hdr.h.r32 = hdr.h.a32 ^ hdr.h.b32;
            hdr.h.r48 = hdr.h.a48 ^ hdr.h.b48;
            hdr.h.r64 = hdr.h.a64 ^ hdr.h.b64;
        } else if (hdr.h.op == 6) {
            hdr.h.r8 = ~hdr.h.a8;
            hdr.h.r13 = ~hdr.h.a13;
            hdr.h.r32 = ~hdr.h.a32;
            hdr.h.r48 = ~hdr.h.a48;
            hdr.h.r64 = ~hdr.h.a64;
        } else if (hdr.h.op == 7) {
            hdr.h.r8 = -hdr.h.a8;
            hdr.h.r13 = -hdr.h.a13;
            hdr.h.r32 = -hdr.h.a32;
            hdr.h.r48 = -hdr.h.a48;
            hdr.h.r64 = -hdr.h.a64;
        }
        std.egress_spec = 2;
    }
}
NO_EGRESS
SWITCH
