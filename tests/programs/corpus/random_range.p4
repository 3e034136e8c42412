// SPDX-License-Identifier: Apache-2.0
// random stays within its bounds, both included; the value itself is nobody's business.
#include "lib.p4"

header head_t { bit<16> low; bit<16> high; bit<8> inside; bit<8> equal; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid() && hdr.h.low <= hdr.h.high) {
            bit<16> value;
            bit<16> same;
            random(value, hdr.h.low, hdr.h.high);
            random(same, hdr.h.low, hdr.h.low);
            hdr.h.inside = (bit<8>)(bit<1>)(value >= hdr.h.low && value <= hdr.h.high);
            hdr.h.equal = (bit<8>)(bit<1>)(same == hdr.h.low);
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
