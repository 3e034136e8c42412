// SPDX-License-Identifier: Apache-2.0
// push, pop, an index known only at run time, headers and stacks copied and compared, validity, unions.
#include "frame.p4"

header op_t   { bit<8> op; bit<8> index; bit<8> value; bit<8> result; }
header item_t { bit<8> id; bit<24> data; }
header x_t    { bit<8> v; }
header y_t    { bit<16> v; }
header_union xy_t { x_t x; y_t y; }

struct headers_t { op_t op; item_t[4] items; item_t[4] other; item_t spare; xy_t u; xy_t v; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.op);
        transition items;
    }
    state items {
        transition select(packet.lookahead<bit<8>>()) {
            0: accept;
            default: item;
        }
    }
    state item { packet.extract(hdr.items.next); transition items; }
}

INGRESS {
    apply {
        std.egress_spec = 1;
        if (hdr.op.op == 1) { hdr.items.push_front(1); hdr.items[0].setValid(); hdr.items[0].id = hdr.op.value; }
        else if (hdr.op.op == 2) { hdr.items.pop_front(1); }
        else if (hdr.op.op == 3) { hdr.items.push_front(2); }
        else if (hdr.op.op == 4) { hdr.items.pop_front(3); }
        else if (hdr.op.op == 5) { hdr.op.result = hdr.items[hdr.op.index].id; }
        else if (hdr.op.op == 6) { hdr.items[hdr.op.index].id = hdr.op.value; }
        else if (hdr.op.op == 7) { hdr.other = hdr.items; hdr.items.pop_front(4); }
        else if (hdr.op.op == 8) { hdr.spare = hdr.items[1]; hdr.items[2].setInvalid(); }
        else if (hdr.op.op == 9) { if (hdr.items[0] == hdr.items[1]) { hdr.op.result = 1; } else { hdr.op.result = 2; } }
        else if (hdr.op.op == 10) {
            hdr.u.x.setValid(); hdr.u.x.v = hdr.op.value;
            if (hdr.op.index == 1) { hdr.u.y.setValid(); hdr.u.y.v = 0x1234; }
            hdr.v = hdr.u;
            if (hdr.u.x.isValid()) { hdr.op.result = 1; } else if (hdr.u.y.isValid()) { hdr.op.result = 2; }
        }
        else if (hdr.op.op == 11) { hdr.items[0].setInvalid(); hdr.items[0].setValid(); }
    }
}

NOTHING(TheVerify)
NO_EGRESS
NOTHING(TheUpdate)
EMIT_ALL
V1Switch(TheParser(), TheVerify(), TheIngress(), TheEgress(), TheUpdate(), TheDeparser()) main;
