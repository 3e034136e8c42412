// SPDX-License-Identifier: Apache-2.0
// push_front by one, two and four; what is pushed out is lost, what comes in must be made valid.
#include "lib.p4"

header command_t { bit<8> count; bit<8> value; }
header item_t { bit<8> more; bit<8> value; }
struct headers_t { command_t h; item_t[4] stack; }
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
                hdr.stack.push_front(1);
                hdr.stack[0].setValid();
                hdr.stack[0].more = 1;
                hdr.stack[0].value = hdr.h.value;
            } else if (hdr.h.count == 2) {
                hdr.stack.push_front(2);
                hdr.stack[1].setValid();
                hdr.stack[1].more = 1;
                hdr.stack[1].value = hdr.h.value;
            } else if (hdr.h.count == 3) {
                hdr.stack.push_front(4);
            }
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
