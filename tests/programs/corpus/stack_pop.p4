// SPDX-License-Identifier: Apache-2.0
// pop_front by one, two and more than there are.
#include "lib.p4"

header command_t { bit<8> count; bit<8> valid; }
header item_t { bit<8> more; bit<8> value; }
struct headers_t { command_t h; item_t[3] stack; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.h);
        transition item;
    }

    state item {
        packet.extract(hdr.stack.next);
        transition select(hdr.stack.last.more) {
            0: accept;
            default: item;
        }
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            if (hdr.h.count == 1) {
                hdr.stack.pop_front(1);
            } else if (hdr.h.count == 2) {
                hdr.stack.pop_front(2);
            } else if (hdr.h.count == 3) {
                hdr.stack.pop_front(3);
            }
            hdr.h.valid = 5w0 ++ (bit<1>)hdr.stack[0].isValid() ++ (bit<1>)hdr.stack[1].isValid() ++
                          (bit<1>)hdr.stack[2].isValid();
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
