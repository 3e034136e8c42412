// SPDX-License-Identifier: Apache-2.0
// Unaligned headers, and a header longer than a cache line.
#include "lib.p4"

header head_t { bit<1> a; bit<2> b; bit<5> c; bit<11> d; bit<13> e; }
header big_t { bit<320> x; bit<7> y; bit<249> z; }
struct headers_t { head_t h; big_t big; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a) {
            1: big;
            default: accept;
        }
    }

    state big {
        packet.extract(hdr.big);
        transition accept;
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hdr.h.c = (bit<5>)hdr.h.b ^ hdr.h.c;
            hdr.h.d = hdr.h.e[12:2];
        }
        if (hdr.big.isValid()) {
            hdr.big.y = hdr.big.x[319:313];
            hdr.big.x = hdr.big.x << 8;
            hdr.big.z = ~hdr.big.z;
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
