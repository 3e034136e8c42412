// SPDX-License-Identifier: Apache-2.0
// Longest prefix on 128, 48, 24 and 8 bits. (PI refuses prefixes of fields that are no whole bytes.)
#include "lib.p4"

header head_t { bit<128> a; bit<48> b; bit<24> c; bit<8> d; bit<8> r1; bit<8> r2; bit<8> r3; bit<8> r4; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    action one(bit<8> v) { hdr.h.r1 = v; }
    action two(bit<8> v) { hdr.h.r2 = v; }
    action three(bit<8> v) { hdr.h.r3 = v; }
    action four(bit<8> v) { hdr.h.r4 = v; }

    table lpm248 {
        key = { hdr.h.a: lpm; }
        actions = { one; @defaultonly NoAction; }
        default_action = NoAction();
    }

    table lpm48 {
        key = { hdr.h.b: lpm; }
        actions = { two; @defaultonly NoAction; }
        default_action = NoAction();
    }

    table lpm24 {
        key = { hdr.h.c: lpm; }
        actions = { three; @defaultonly NoAction; }
        default_action = NoAction();
    }

    table lpm8 {
        key = { hdr.h.d: lpm; }
        actions = { four; @defaultonly NoAction; }
        default_action = NoAction();
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            lpm248.apply();
            lpm48.apply();
            lpm24.apply();
            lpm8.apply();
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
