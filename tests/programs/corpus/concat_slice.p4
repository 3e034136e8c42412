// SPDX-License-Identifier: Apache-2.0
// Concatenation; slices read, written and nested; a slice that crosses 64 bits.
#include "lib.p4"

header head_t {
    bit<8>   a;
    bit<4>   b;
    bit<12>  c;
    bit<24>  joined;
    bit<128> wide;
    bit<48>  cut;
    bit<32>  mixed;
}
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hdr.h.joined = hdr.h.a ++ hdr.h.b ++ hdr.h.c;
            hdr.h.cut = hdr.h.wide[87:40];
            hdr.h.wide[71:56] = hdr.h.joined[23:8];
            hdr.h.wide[0:0] = hdr.h.a[7:7];
            hdr.h.wide[127:120] = hdr.h.wide[7:0];
            hdr.h.mixed[31:16] = hdr.h.mixed[15:0];
            hdr.h.mixed[7:4] = hdr.h.joined[19:4][11:8];
            hdr.h.c = hdr.h.c[3:0] ++ hdr.h.c[11:4];
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
