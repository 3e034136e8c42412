// SPDX-License-Identifier: Apache-2.0
// varbit fields copied alone and with their header: the length goes with the bytes.
#include "lib.p4"

header options_t { bit<8> octets; varbit<64> data; }
struct headers_t { options_t a; options_t b; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.a, (bit<32>)(packet.lookahead<bit<8>>()) * 8);
        packet.extract(hdr.b, (bit<32>)(packet.lookahead<bit<8>>()) * 8);
        transition accept;
    }
}
NO_VERIFY
NO_UPDATE

INGRESS {
    apply {
        if (hdr.b.isValid() && hdr.b.octets > 4) {
            hdr.a = hdr.b;
        } else if (hdr.b.isValid()) {
            hdr.a.data = hdr.b.data;
        }
        std.egress_spec = 2;
    }
}
NO_EGRESS
DEPARSER { apply { packet.emit(hdr.a); packet.emit(hdr.b); } }
SWITCH
