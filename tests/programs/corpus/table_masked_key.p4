// SPDX-License-Identifier: Apache-2.0
// Keys masked in the program, signed keys, and the same field twice.
#include "lib.p4"

header head_t { bit<16> a; int<8> b; bit<8> r1; bit<8> r2; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    action one(bit<8> v) { hdr.h.r1 = v; }
    action two(bit<8> v) { hdr.h.r2 = v; }

    table masked {
        key = { hdr.h.a & 0x0f0f: exact @name("masked"); }
        actions = { one; @defaultonly NoAction; }
        default_action = NoAction();
    }

    table twice {
        key = { hdr.h.a: exact; hdr.h.a[15:8]: ternary @name("again"); (bit<8>)hdr.h.b: ternary @name("signed"); }
        actions = { two; @defaultonly NoAction; }
        default_action = NoAction();
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            masked.apply();
            twice.apply();
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
