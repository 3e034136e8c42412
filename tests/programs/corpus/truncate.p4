// SPDX-License-Identifier: Apache-2.0
// truncate in ingress and in egress, to lengths shorter and longer than the packet.
#include "lib.p4"

header head_t { bit<8> where; bit<8> length; bit<32> more; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid() && (hdr.h.where & 1) == 1) {
            truncate((bit<32>)hdr.h.length);
        }
    }
}

EGRESS {
    apply {
        if (hdr.h.isValid() && (hdr.h.where & 2) == 2) {
            truncate((bit<32>)(hdr.h.length >> 1));
        }
    }
}

NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER
SWITCH
