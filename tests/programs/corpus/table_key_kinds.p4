// SPDX-License-Identifier: Apache-2.0
// Exact keys of one bit, booleans, sums, metadata of odd widths; several tables on the same header.
#include "lib.p4"

header head_t { bit<1> a; bit<7> b; bit<32> c; bit<8> r1; bit<8> r2; bit<8> r3; }
struct headers_t { head_t h; }
struct meta_t { bool big; bit<11> odd; }

PLAIN_PARSER

INGRESS {
    action one(bit<8> v) { hdr.h.r1 = v; }
    action two(bit<8> v) { hdr.h.r2 = v; }
    action three(bit<8> v) { hdr.h.r3 = v; }

    table small {
        key = { hdr.h.a: exact; hdr.h.b: exact; }
        actions = { one; @defaultonly NoAction; }
        default_action = NoAction();
    }

    table sums {
        key = { hdr.h.b + 1: exact @name("sum"); meta.odd: ternary; }
        actions = { two; @defaultonly NoAction; }
        default_action = NoAction();
    }

    table truth {
        key = { meta.big: exact @name("big"); hdr.h.a: exact; hdr.h.isValid(): exact @name("valid"); }
        actions = { three; @defaultonly NoAction; }
        default_action = NoAction();
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            meta.big = hdr.h.c > 3;
            meta.odd = hdr.h.c[10:0];
            small.apply();
            sums.apply();
            truth.apply();
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
