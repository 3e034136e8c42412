// SPDX-License-Identifier: Apache-2.0
// Two range fields, overlapping.
#include "lib.p4"

header h_t {
    bit<8> a;
    bit<16> b;
    bit<32> c;
    bit<48> d;
    bit<128> e;
    bit<8> r;
    bit<16> s;
}
struct meta_t { }
struct headers_t { h_t h; }
PLAIN_PARSER
NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER

INGRESS {
    action set(bit<8> r, bit<16> s) {
        hdr.h.r = r;
        hdr.h.s = s;
    }
    action to(bit<9> port) { std.egress_spec = port; }
    action drop() { mark_to_drop(std); }
    table t {
        key = {
            hdr.h.b: range;
            hdr.h.a: range;
        }
        actions = { set; to; drop; NoAction; }
        default_action = NoAction();
        size = 256;
    }
    apply {
        if (!hdr.h.isValid()) {
            mark_to_drop(std);
            exit;
        }
        std.egress_spec = 2;
        t.apply();
    }
}
NO_EGRESS
SWITCH
