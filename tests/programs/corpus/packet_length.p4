// SPDX-License-Identifier: Apache-2.0
// packet_length in ingress and in egress, with headers added and removed on the way.
#include "lib.p4"

header head_t { bit<8> op; bit<32> at_ingress; bit<32> at_egress; }
header extra_t { bit<40> data; }
struct headers_t { extra_t front; head_t h; extra_t back; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.back);
        transition accept;
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (std.parser_error == error.NoError) {
            hdr.h.at_ingress = std.packet_length;
            if (hdr.h.op == 1) {
                hdr.front.setValid();
                hdr.front.data = 0x0102030405;
            } else if (hdr.h.op == 2) {
                hdr.back.setInvalid();
            } else if (hdr.h.op == 3) {
                hdr.front = hdr.back;
                hdr.back.setInvalid();
            } else if (hdr.h.op == 4) {
                hdr.back.setValid();
            }
        }
    }
}

EGRESS {
    apply {
        if (hdr.h.isValid()) {
            hdr.h.at_egress = std.packet_length;
        }
    }
}

NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER
SWITCH
