// SPDX-License-Identifier: Apache-2.0
// Digests with fields of odd widths; the last one asked for wins.
#include "lib.p4"

header head_t { bit<8> op; bit<48> address; bit<3> a; bit<13> b; }
struct headers_t { head_t h; }
struct meta_t { }
struct learn_t { bit<48> address; bit<9> port; bit<3> a; }
struct note_t { bit<13> b; bit<8> op; }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            if (hdr.h.op == 1) {
                digest<learn_t>(1, { hdr.h.address, std.ingress_port, hdr.h.a });
            } else if (hdr.h.op == 2) {
                digest<note_t>(1, { hdr.h.b, hdr.h.op });
                mark_to_drop(std);
            }
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
