// SPDX-License-Identifier: Apache-2.0
// Conditions in actions: p4c makes jumps of them, and simple_switch logs each jump that it takes.
#include "lib.p4"

header h_t { bit<8> op; bit<8> a; bit<8> b; bit<8> c; }
struct meta_t { }
struct headers_t { h_t h; }
PLAIN_PARSER
NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER

INGRESS {
    action choose(bit<8> least) {
        hdr.h.c = 1;
        if (hdr.h.a >= least) {
            hdr.h.c = 2;
            if (hdr.h.b == 0) { hdr.h.b = 0xb0; } else { hdr.h.b = hdr.h.b + 1; }
        } else if (hdr.h.b == 7) {
            hdr.h.c = 3;
        }
        hdr.h.a = hdr.h.a + 1;
    }
    action keep() { if (hdr.h.b > 1) { hdr.h.c = 4; } }
    table t {
        key = { hdr.h.op: exact; }
        actions = { choose; keep; }
        const entries = {
            1: choose(0x80);
            2: choose(0);
            3: choose(0xff);
        }
        default_action = keep();
    }
    apply {
        std.egress_spec = 2;
        t.apply();
    }
}
SWITCH
