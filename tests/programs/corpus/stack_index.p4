// SPDX-License-Identifier: Apache-2.0
// Elements by constant index, copied, removed from the middle; lastIndex in the parser.
#include "lib.p4"

header head_t { bit<8> last_index; bit<8> op; }
header item_t { bit<8> more; bit<16> value; }
struct headers_t { head_t h; item_t[3] stack; }
struct meta_t { bit<32> last_index; }

PARSER {
    state start {
        packet.extract(hdr.h);
        transition item;
    }

    state item {
        packet.extract(hdr.stack.next);
        meta.last_index = hdr.stack.lastIndex;
        transition select(hdr.stack.last.more) {
            0: accept;
            default: item;
        }
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid() && std.parser_error == error.NoError) {
            hdr.h.last_index = (bit<8>)meta.last_index;
            if (hdr.h.op == 0 && hdr.stack[1].isValid()) {
                hdr.stack[1].setInvalid();
            } else if (hdr.h.op == 1) {
                hdr.stack[2] = hdr.stack[0];
            } else if (hdr.h.op == 2 && hdr.stack[2].isValid()) {
                hdr.stack[0].value = hdr.stack[1].value + hdr.stack[2].value;
            }
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
