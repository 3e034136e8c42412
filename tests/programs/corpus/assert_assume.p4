// SPDX-License-Identifier: Apache-2.0
// assert and assume that hold: nothing happens.
#include "lib.p4"

header head_t { bit<8> a; bit<8> b; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        assume(std.ingress_port != 511);
        if (hdr.h.isValid()) {
            assert((hdr.h.a & 0x0f) < 16);
            hdr.h.b = hdr.h.a & hdr.h.b;
            assert(hdr.h.b <= hdr.h.a);
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
