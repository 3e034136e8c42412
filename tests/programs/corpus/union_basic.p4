// SPDX-License-Identifier: Apache-2.0
// A header union: one member at most is valid; making one valid ends the other.
#include "lib.p4"

header kind_t { bit<8> kind; bit<8> op; }
header short_t { bit<16> a; }
header long_t { bit<16> a; bit<32> b; }
header_union body_t { short_t small; long_t large; }
struct headers_t { kind_t h; body_t body; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.kind) {
            1: small;
            2: large;
            default: accept;
        }
    }

    state small {
        packet.extract(hdr.body.small);
        transition accept;
    }

    state large {
        packet.extract(hdr.body.large);
        transition accept;
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (std.parser_error == error.NoError) {
            if (hdr.h.op == 1 && hdr.body.small.isValid()) {
                bit<16> a = hdr.body.small.a;
                hdr.body.large.setValid();
                hdr.body.large.a = a;
                hdr.body.large.b = 0x01020304;
                hdr.h.kind = 2;
            } else if (hdr.h.op == 1 && hdr.body.large.isValid()) {
                hdr.body.large.setInvalid();
                hdr.h.kind = 0;
            } else if (hdr.h.op == 2 && hdr.body.large.isValid()) {
                bit<16> a = hdr.body.large.a;
                hdr.body.small.setValid();
                hdr.body.small.a = a;
                hdr.h.kind = 1;
            } else if (hdr.h.op == 3 && hdr.body.isValid()) {
                hdr.h.op = 0x33;
            }
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
