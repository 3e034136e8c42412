// SPDX-License-Identifier: Apache-2.0
// Controls in controls, each instance with a table of its own; constructor arguments.
#include "lib.p4"

header head_t { bit<8> a; bit<8> b; bit<8> out_a; bit<8> out_b; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

control Leaf(in bit<8> value, inout bit<8> result)(bit<8> bonus) {
    action set(bit<8> number) { result = number + bonus; }

    table lookup {
        key = { value: exact @name("value"); }
        actions = { set; @defaultonly NoAction; }
        default_action = NoAction();
    }

    apply {
        lookup.apply();
    }
}

control Branch(inout head_t h) {
    Leaf(1) left;
    Leaf(0x10) right;

    apply {
        left.apply(h.a, h.out_a);
        right.apply(h.b, h.out_b);
    }
}

INGRESS {
    Branch() branch;

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            branch.apply(hdr.h);
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
