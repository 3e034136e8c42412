// SPDX-License-Identifier: Apache-2.0
// Shifts of unsigned values by constants and by fields, far beyond the width.
#include "lib.p4"

header head_t {
    bit<8>   amount;
    bit<8>   far;
    bit<8>   a;
    bit<32>  b;
    bit<128> c;
    bit<3>   d;
    bit<5>   e;
    bit<32>  f;
}
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hdr.h.a = (hdr.h.a << 3) | (hdr.h.a >> 5);
            hdr.h.f = (hdr.h.b >> hdr.h.amount) ^ (hdr.h.b << (hdr.h.amount & 31));
            hdr.h.b = hdr.h.b << hdr.h.amount;
            hdr.h.c = (hdr.h.c >> hdr.h.far) | (hdr.h.c << (hdr.h.far & 0x7f));
            hdr.h.d = hdr.h.d << (hdr.h.amount & 7);
            hdr.h.e = hdr.h.e >> (hdr.h.amount & 7);
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
