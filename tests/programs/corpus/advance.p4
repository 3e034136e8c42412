// SPDX-License-Identifier: Apache-2.0
// advance over a constant and over a computed number of bits: what is skipped is gone from the packet.
#include "lib.p4"

header head_t { bit<8> skip; }
header after_t { bit<16> value; }
struct headers_t { head_t h; after_t after; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.h);
        packet.advance(8);
        packet.advance((bit<32>)(hdr.h.skip & 7) * 8);
        packet.extract(hdr.after);
        transition accept;
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.after.isValid()) {
            hdr.after.value = hdr.after.value + 1;
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
