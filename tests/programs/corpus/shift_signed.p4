// SPDX-License-Identifier: Apache-2.0
// Shifts of signed values: to the right the sign comes in, however far.
#include "lib.p4"

header head_t {
    bit<8>  amount;
    bit<8>  far;
    int<8>  a;
    int<32> b;
    int<64> c;
    int<5>  d;
    bit<3>  pad;
    int<32> e;
}
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hdr.h.e = hdr.h.b << hdr.h.amount;
            hdr.h.a = hdr.h.a >> 3;
            hdr.h.b = hdr.h.b >> hdr.h.amount;
            hdr.h.c = hdr.h.c >> hdr.h.far;
            hdr.h.d = (hdr.h.d >> (hdr.h.amount & 7)) << 1;
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
