// SPDX-License-Identifier: Apache-2.0
// lookahead of odd widths and of a header; nothing is consumed, and too short a packet is an error.
#include "lib.p4"

header report_t { bit<3> top; bit<13> rest; bit<48> wide; bit<16> field; }
header peek_t { bit<16> a; bit<16> b; }
struct headers_t { report_t h; peek_t data; }
struct meta_t { bit<3> top; bit<13> rest; bit<48> wide; bit<16> field; }

PARSER {
    state start {
        meta.top = packet.lookahead<bit<3>>();
        meta.rest = packet.lookahead<bit<16>>()[12:0];
        meta.wide = packet.lookahead<bit<48>>();
        peek_t peek = packet.lookahead<peek_t>();
        meta.field = peek.b;
        transition select(packet.lookahead<bit<5>>()) {
            0x1f: accept;
            default: data;
        }
    }

    state data {
        packet.extract(hdr.data);
        transition accept;
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (std.parser_error == error.NoError) {
            hdr.h.setValid();
            hdr.h.top = meta.top;
            hdr.h.rest = meta.rest;
            hdr.h.wide = meta.wide;
            hdr.h.field = meta.field;
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
