// SPDX-License-Identifier: Apache-2.0
// exit and return in controls, in actions of tables and in egress.
#include "lib.p4"

header h_t { bit<8> op; bit<8> a; bit<8> b; bit<8> c; }
struct meta_t { }
struct headers_t { h_t h; }
PLAIN_PARSER
NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER

control Inner(inout headers_t hdr) {
    apply {
        hdr.h.a = 1;
        if (hdr.h.op == 1) { return; }
        if (hdr.h.op == 2) { exit; }
        hdr.h.b = 2;
    }
}

INGRESS {
    Inner() inner;
    action leave() { hdr.h.c = 9; exit; }
    action stay() { hdr.h.c = 8; return; }
    table t {
        key = { hdr.h.op: exact; }
        actions = { leave; stay; NoAction; }
        const entries = {
            3: leave();
            4: stay();
        }
        default_action = NoAction();
    }
    apply {
        if (!hdr.h.isValid()) {
            mark_to_drop(std);
            exit;
        }
        std.egress_spec = 2;
        inner.apply(hdr);
        t.apply();
        hdr.h.c = hdr.h.c + 1;
        if (hdr.h.op == 5) { return; }
        hdr.h.b = hdr.h.b + 0x10;
    }
}

EGRESS {
    apply {
        hdr.h.a = hdr.h.a + 0x80;
        if (hdr.h.op == 6) { exit; }
        hdr.h.b = hdr.h.b + 1;
    }
}
SWITCH
