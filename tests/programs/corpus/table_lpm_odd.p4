// SPDX-License-Identifier: Apache-2.0
// Longest prefix on 128, 48, 12 and 7 bits.
#include "lib.p4"

header head_t { bit<128> a; bit<48> b; bit<12> c; bit<7> d; bit<5> pad; bit<8> r1; bit<8> r2; bit<8> r3; bit<8> r4; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    action one(bit<8> v) { hdr.h.r1 = v; }
    action two(bit<8> v) { hdr.h.r2 = v; }
    action three(bit<8> v) { hdr.h.r3 = v; }
    action four(bit<8> v) { hdr.h.r4 = v; }

    table lpm128 {
        key = { hdr.h.a: lpm; }
        actions = { one; @defaultonly NoAction; }
        default_action = NoAction();
    }

    table lpm48 {
        key = { hdr.h.b: lpm; }
        actions = { two; @defaultonly NoAction; }
        default_action = NoAction();
    }

    table lpm12 {
        key = { hdr.h.c: lpm; }
        actions = { three; @defaultonly NoAction; }
        default_action = NoAction();
    }

    table lpm7 {
        key = { hdr.h.d: lpm; }
        actions = { four; @defaultonly NoAction; }
        default_action = NoAction();
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            lpm128.apply();
            lpm48.apply();
            lpm12.apply();
            lpm7.apply();
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
