// SPDX-License-Identifier: Apache-2.0
// Relations of 128-bit and 200-bit values, signed values of odd widths, and whole headers.
#include "lib.p4"

header head_t {
    bit<128> a;
    bit<128> b;
    int<33>  c;
    int<33>  d;
    bit<6>   pad;
    bit<200> e;
    bit<200> f;
    bit<8>   wide;
    bit<8>   signed_result;
    bit<8>   huge;
}
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hdr.h.wide = 3w0 ++ (bit<1>)(hdr.h.a == hdr.h.b) ++ (bit<1>)(hdr.h.a != hdr.h.b) ++
                (bit<1>)(hdr.h.a < hdr.h.b) ++ (bit<1>)(hdr.h.a >= hdr.h.b) ++ (bit<1>)(hdr.h.a[127:64] == 0);
            hdr.h.signed_result = 3w0 ++ (bit<1>)(hdr.h.c == hdr.h.d) ++ (bit<1>)(hdr.h.c < 0) ++
                (bit<1>)(hdr.h.c < hdr.h.d) ++ (bit<1>)(hdr.h.c > hdr.h.d) ++ (bit<1>)(hdr.h.c >= -3);
            hdr.h.huge = 5w0 ++ (bit<1>)(hdr.h.e == hdr.h.f) ++ (bit<1>)(hdr.h.e > hdr.h.f) ++
                (bit<1>)(hdr.h.e <= hdr.h.f);
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
