// SPDX-License-Identifier: Apache-2.0
// A select without default: NoMatch; an explicit reject; parsed headers stay valid.
#include "lib.p4"

header head_t { bit<8> kind; bit<8> seen; }
header more_t { bit<8> value; }
struct headers_t { head_t h; more_t more; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.kind) {
            0: accept;
            1: more;
            2: reject;
        }
    }

    state more {
        packet.extract(hdr.more);
        transition select(hdr.more.value) {
            0x10 &&& 0xf0: accept;
        }
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            if (std.parser_error == error.NoMatch) {
                hdr.h.seen = 1;
            } else if (std.parser_error == error.NoError) {
                hdr.h.seen = 2;
            } else {
                hdr.h.seen = 3;
            }
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
