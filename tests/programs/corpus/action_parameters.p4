// SPDX-License-Identifier: Apache-2.0
// Actions called from the control with arguments, from tables with data of several widths, and from other actions.
#include "lib.p4"

header head_t { bit<8> key; bit<8> x; bit<48> y; bit<128> z; int<16> s; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    action add(in bit<8> left, inout bit<8> result) { result = result + left; }

    action fill(bit<1> flag, bit<48> y, bit<128> z, int<16> s) {
        hdr.h.y = y;
        hdr.h.z = z;
        hdr.h.s = s - 1;
        add(7w0 ++ flag, hdr.h.x);
    }

    action nothing() { }

    table data {
        key = { hdr.h.key: exact; }
        actions = { fill; nothing; }
        default_action = fill(1, 0x0102030405, 0xffff, 0x7ffe);
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            add(hdr.h.key, hdr.h.x);
            data.apply();
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
