// SPDX-License-Identifier: Apache-2.0
// Entries in the program: exact, LPM, ternary with priorities by order, ranges; also with priorities given.
#include "lib.p4"

header head_t { bit<8> a; bit<16> b; bit<32> c; bit<8> r1; bit<8> r2; bit<8> r3; bit<8> r4; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    action one(bit<8> v) { hdr.h.r1 = v; }
    action two(bit<8> v) { hdr.h.r2 = v; }
    action three(bit<8> v) { hdr.h.r3 = v; }
    action four(bit<8> v) { hdr.h.r4 = v; }

    table exacts {
        key = { hdr.h.a: exact; }
        actions = { one; }
        const default_action = one(0);
        const entries = {
            0: one(1);
            0x7f: one(2);
            0xff: one(3);
        }
    }

    table prefixes {
        key = { hdr.h.c: lpm; }
        actions = { two; }
        const default_action = two(0);
        const entries = {
            0x01000000 &&& 0xff000000: two(1);
            0x01020000 &&& 0xffff0000: two(2);
            0x01020304: two(3);
            0 &&& 0x80000000: two(4);
        }
    }

    table masked {
        key = { hdr.h.a: ternary; hdr.h.b: range; }
        actions = { three; }
        const default_action = three(0);
        const entries = {
            (1, 0 .. 0xff): three(1);
            (0x01 &&& 0x01, 0 .. 0x1ff): three(2);
            (_, 3): three(3);
            (0 &&& 0xf0, _): three(4);
        }
    }

    table ranked {
        key = { hdr.h.b: ternary; }
        actions = { four; }
        default_action = four(0);
        size = 64;
        entries = {
            const priority=40: 0x0001: four(3);
            priority=30: 0x0000 &&& 0xfff0: four(2);
            const priority=20: 0x0000 &&& 0xff00: four(1);
            priority=10: 0x0000 &&& 0x0000: four(4);
        }
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            exacts.apply();
            prefixes.apply();
            masked.apply();
            ranked.apply();
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
