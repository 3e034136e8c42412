// SPDX-License-Identifier: Apache-2.0
// What simple_switch answers by aborting, loops in actions, messages.
#include "frame.p4"

header op_t   { bit<8> op; bit<8> a; bit<8> b; bit<32> r; int<8> s; }
header item_t { bit<8> v; }
struct headers_t { op_t op; item_t[3] items; }
struct meta_t { }

PARSER { state start { packet.extract(hdr.op); transition accept; } }

INGRESS {
    action sum() {
        for (bit<8> i = 0; i <= hdr.op.a; i = i + 1) {
            if (i == 5) { continue; }
            if (i == 9) { break; }
            hdr.op.r = hdr.op.r + (bit<32>)i;
        }
    }
    action endless() {
        for (bit<8> i = 0; i < 10; i = i + hdr.op.b) { hdr.op.r = hdr.op.r + 1; }
    }
    apply {
        std.egress_spec = 1;
        if (hdr.op.op == 1) { assert(hdr.op.a != 3); }
        else if (hdr.op.op == 2) { hdr.op.r = (bit<32>)hdr.op.a * (bit<32>)hdr.op.b; /* the test makes this a division */ }
        else if (hdr.op.op == 3) { hdr.op.r = (bit<32>)hdr.op.a | (bit<32>)hdr.op.b; /* and this a modulo */ }
        else if (hdr.op.op == 4) { hdr.op.r = (bit<32>)hdr.items[hdr.op.a].v; }
        else if (hdr.op.op == 5) { hdr.items[hdr.op.a].v = hdr.op.b; }
        else if (hdr.op.op == 6) { sum(); }
        else if (hdr.op.op == 7) { endless(); }
        else if (hdr.op.op == 8) { log_msg("a = {}, s = {}, r = {}", { hdr.op.a, hdr.op.s, hdr.op.r }); }
        else if (hdr.op.op == 9) { log_msg("plain"); }
        else if (hdr.op.op == 10) { assume(hdr.op.a == 1 || hdr.op.b == 1); }
    }
}

NOTHING(TheVerify)
NO_EGRESS
NOTHING(TheUpdate)
EMIT_ALL
V1Switch(TheParser(), TheVerify(), TheIngress(), TheEgress(), TheUpdate(), TheDeparser()) main;
