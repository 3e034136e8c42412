// SPDX-License-Identifier: Apache-2.0
// Header stack filled with `next`, read with `last`; the fifth element is one too many (StackOutOfBounds).
#include "lib.p4"

header label_t { bit<20> label; bit<3> tc; bit<1> bottom; bit<8> ttl; }
header report_t { bit<8> depth; bit<8> failed; }
struct headers_t { report_t h; label_t[4] stack; }
struct meta_t { bit<8> depth; }

PARSER {
    state start {
        packet.extract(hdr.h);
        meta.depth = 0;
        transition next_label;
    }

    state next_label {
        packet.extract(hdr.stack.next);
        meta.depth = meta.depth + 1;
        transition select(hdr.stack.last.bottom) {
            1: accept;
            default: next_label;
        }
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hdr.h.depth = meta.depth;
            hdr.h.failed = (bit<8>)(bit<1>)(std.parser_error == error.StackOutOfBounds);
        }
        if (hdr.stack[0].isValid()) {
            hdr.stack[0].ttl = hdr.stack[0].ttl - 1;
        }
        if (hdr.stack[2].isValid()) {
            hdr.stack[2].label = hdr.stack[1].label;
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
