// SPDX-License-Identifier: Apache-2.0
// Header stacks assigned as a whole and by element, with their validity.
#include "lib.p4"

header first_t { bit<8> op; }
header pair_t { bit<16> x; bit<16> y; }
struct headers_t { first_t first; pair_t[3] a; pair_t[3] b; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.first);
        packet.extract(hdr.a.next);
        packet.extract(hdr.a.next);
        transition select(hdr.first.op) {
            0: accept;
            1: more;
            default: all;
        }
    }
    state more {
        packet.extract(hdr.b.next);
        transition accept;
    }
    state all {
        packet.extract(hdr.a.next);
        packet.extract(hdr.b.next);
        packet.extract(hdr.b.next);
        packet.extract(hdr.b.next);
        transition accept;
    }
}
NO_VERIFY
NO_UPDATE

INGRESS {
    apply {
        if (std.parser_error != error.NoError) {
            mark_to_drop(std);
            exit;
        }
        if (hdr.first.op == 1) {
            hdr.b = hdr.a;
            hdr.a[0].setInvalid();
        } else if (hdr.first.op == 2) {
            hdr.a[1] = hdr.b[2];
            hdr.b[2].setInvalid();
        } else if (hdr.first.op == 3) {
            hdr.a = hdr.b;
            hdr.b[0].x = 0xffff;
        }
        std.egress_spec = 2;
    }
}
NO_EGRESS
DEPARSER { apply { packet.emit(hdr.first); packet.emit(hdr.a); packet.emit(hdr.b); } }
SWITCH
