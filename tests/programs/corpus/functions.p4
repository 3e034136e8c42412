// SPDX-License-Identifier: Apache-2.0
// Functions with in, out and inout parameters: copied in, copied out, with aliases.
#include "lib.p4"

header head_t { bit<16> a; bit<16> b; bit<16> c; bit<16> d; }
struct headers_t { head_t h; }
struct meta_t { }

bit<16> larger(in bit<16> x, in bit<16> y) {
    if (x > y) {
        return x;
    }
    return y;
}

void swap(inout bit<16> x, inout bit<16> y) {
    bit<16> keep = x;
    x = y;
    y = keep;
}

void split(in bit<16> x, out bit<8> high, out bit<8> low) {
    high = x[15:8];
    low = x[7:0];
}

PLAIN_PARSER

INGRESS {
    action twice(inout bit<16> value) {
        value = value + value;
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hdr.h.d = larger(hdr.h.a, larger(hdr.h.b, 100));
            swap(hdr.h.a, hdr.h.b);
            bit<8> high;
            bit<8> low;
            split(hdr.h.c, high, low);
            hdr.h.c = low ++ high;
            twice(hdr.h.b);
            twice(hdr.h.b);
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
