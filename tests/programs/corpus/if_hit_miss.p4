// SPDX-License-Identifier: Apache-2.0
// Branches on hit and miss; a table in the branch of another one.
#include "lib.p4"

header head_t { bit<8> a; bit<8> b; bit<8> path; }
struct headers_t { head_t h; }
struct meta_t { bool kept; }

PLAIN_PARSER

INGRESS {
    action mark(bit<8> bits) { hdr.h.path = hdr.h.path | bits; }

    table first {
        key = { hdr.h.a: exact; }
        actions = { mark; NoAction; }
        default_action = NoAction();
    }

    table second {
        key = { hdr.h.b: exact; }
        actions = { mark; NoAction; }
        const default_action = mark(0x80);
    }

    table third {
        key = { hdr.h.a: exact; hdr.h.b: exact; }
        actions = { mark; @defaultonly NoAction; }
        default_action = NoAction();
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hdr.h.path = 0;
            if (first.apply().hit) {
                if (second.apply().miss) {
                    hdr.h.path = hdr.h.path | 0x40;
                }
            } else {
                meta.kept = third.apply().hit;
                if (meta.kept && hdr.h.a != hdr.h.b) {
                    hdr.h.path = hdr.h.path | 0x20;
                }
            }
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
