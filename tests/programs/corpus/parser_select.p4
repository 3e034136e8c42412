// SPDX-License-Identifier: Apache-2.0
// select over two fields with values, masks, ranges and don't-care; one state leads to the next.
#include "lib.p4"

header h_t { bit<8> a; bit<8> b; bit<8> path; }
struct headers_t { h_t h; }
struct meta_t { bit<8> path; }

PARSER {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a, hdr.h.b) {
            (0, 0): zero;
            (1, _): one;
            (2..5, 8..15): range;
            (8 &&& 0x0c, 1 &&& 0x01): mask;
            (_, 3): three;
            default: accept;
        }
    }
    state zero { meta.path = 1; transition accept; }
    state one { meta.path = 2; transition select(hdr.h.b) { 7: zero; default: accept; } }
    state range { meta.path = 3; transition accept; }
    state mask { meta.path = 4; transition accept; }
    state three { meta.path = 5; transition accept; }
}
NO_VERIFY
NO_UPDATE

INGRESS {
    apply {
        if (!hdr.h.isValid()) {
            mark_to_drop(std);
            exit;
        }
        hdr.h.path = meta.path;
        std.egress_spec = 2;
    }
}
NO_EGRESS
DEPARSER { apply { packet.emit(hdr.h); } }
SWITCH
