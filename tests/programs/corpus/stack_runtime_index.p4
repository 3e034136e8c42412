// SPDX-License-Identifier: Apache-2.0
// A stack element picked by a field of the packet.
#include "lib.p4"

header head_t { bit<8> index; bit<16> got; }
header item_t { bit<16> value; }
struct headers_t { head_t h; item_t[4] stack; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.stack.next);
        packet.extract(hdr.stack.next);
        packet.extract(hdr.stack.next);
        packet.extract(hdr.stack.next);
        transition accept;
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (std.parser_error == error.NoError && hdr.h.index < 4) {
            hdr.h.got = hdr.stack[hdr.h.index].value;
            hdr.stack[hdr.h.index].value = 0xbeef;
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
