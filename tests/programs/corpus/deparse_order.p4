// SPDX-License-Identifier: Apache-2.0
// The deparser emits in an order of its own, headers among them that the parser never saw.
#include "lib.p4"

header op_t { bit<8> op; }
header a_t { bit<16> v; }
header b_t { bit<24> v; }
struct headers_t { op_t op; a_t a; b_t b; a_t extra; }
struct meta_t { }

PARSER {
    state start { packet.extract(hdr.op); packet.extract(hdr.a); packet.extract(hdr.b); transition accept; }
}
NO_VERIFY
NO_UPDATE

INGRESS {
    apply {
        if (!hdr.op.isValid()) {
            mark_to_drop(std);
            exit;
        }
        std.egress_spec = 2;
        if (hdr.op.op == 1) {
            hdr.extra.setValid();
            hdr.extra.v = 0xbeef;
        } else if (hdr.op.op == 2) {
            hdr.b.setInvalid();
        } else if (hdr.op.op == 3) {
            hdr.op.setInvalid();
        }
    }
}
NO_EGRESS
DEPARSER { apply { packet.emit(hdr.b); packet.emit(hdr.op); packet.emit(hdr.extra); packet.emit(hdr.a); } }
SWITCH
