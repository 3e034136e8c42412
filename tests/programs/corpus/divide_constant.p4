// SPDX-License-Identifier: Apache-2.0
// Division and modulo by constants, as far as p4c lets them through to the switch: powers of two.
#include "lib.p4"

const int EIGHT = 1000 / 120; // evaluated by the compiler

header head_t { bit<32> a; bit<32> quotient; bit<32> rest; bit<16> power; bit<16> power_rest; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hdr.h.quotient = hdr.h.a / EIGHT;
            hdr.h.rest = hdr.h.a % EIGHT;
            hdr.h.power = hdr.h.power / 16;
            hdr.h.power_rest = hdr.h.power_rest % 1024;
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
