// SPDX-License-Identifier: Apache-2.0
// Casts between widths, signs and bool; sign extension; truncation.
#include "lib.p4"

header h_t {
    bit<8> a;
    bit<16> wider;
    int<8> s;
    int<32> sign_extended;
    bit<32> reinterpreted;
    bit<48> b;
    bit<16> narrower;
    bit<1> flag;
    bit<7> seven;
    int<16> t;
    int<4> u;
    int<4> v;
    bit<72> big;
}
struct meta_t { bool yes; }
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
        hdr.h.wider = (bit<16>)hdr.h.a;
        hdr.h.sign_extended = (int<32>)hdr.h.s;
        hdr.h.reinterpreted = (bit<32>)(int<32>)hdr.h.t;
        hdr.h.narrower = (bit<16>)hdr.h.b;
        meta.yes = (bool)hdr.h.flag;
        if (meta.yes) {
            hdr.h.seven = (bit<7>)(bit<1>)(hdr.h.a > 100);
        }
        hdr.h.v = (int<4>)(hdr.h.s >> 2);
        hdr.h.big = (bit<72>)hdr.h.b + (bit<72>)hdr.h.reinterpreted;
        hdr.h.flag = (bit<1>)(!meta.yes);
        std.egress_spec = 2;
    }
}
NO_EGRESS
SWITCH
