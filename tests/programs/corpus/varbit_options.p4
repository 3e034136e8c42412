// SPDX-License-Identifier: Apache-2.0
// A varbit field whose length a field tells; too long for the field (HeaderTooShort) or for the packet.
#include "lib.p4"

header head_t { bit<4> version; bit<4> length; bit<8> error_seen; }
header options_t { varbit<64> data; }
header tail_t { bit<16> value; }
struct headers_t { head_t h; options_t options; tail_t tail; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.options, (bit<32>)hdr.h.length * 8);
        packet.extract(hdr.tail);
        transition accept;
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hdr.h.error_seen = 0;
            if (std.parser_error == error.HeaderTooShort) {
                hdr.h.error_seen = 1;
            } else if (std.parser_error == error.PacketTooShort) {
                hdr.h.error_seen = 2;
            } else if (hdr.h.version == 9) {
                hdr.options.setInvalid();
                hdr.h.length = 0;
            }
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
