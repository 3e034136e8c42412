// SPDX-License-Identifier: Apache-2.0
// A stack of header unions, filled by lookahead until it is full.
#include "lib.p4"

header one_t { bit<8> kind; bit<8> v; }
header two_t { bit<8> kind; bit<32> v; }
header_union option_t { one_t one; two_t two; }
struct headers_t { option_t[3] options; }
struct meta_t { bit<8> count; }

PARSER {
    state start {
        meta.count = meta.count + 1;
        transition select(packet.lookahead<bit<8>>()) {
            1: one;
            2: two;
            default: accept;
        }
    }
    state one { packet.extract(hdr.options.next.one); transition start; }
    state two { packet.extract(hdr.options.next.two); transition start; }
}
NO_VERIFY
NO_UPDATE

INGRESS {
    apply {
        if (hdr.options[0].one.isValid()) {
            hdr.options[0].one.v = meta.count;
        }
        if (hdr.options[1].two.isValid()) {
            hdr.options[1].two.v = hdr.options[1].two.v + 1;
        }
        std.egress_spec = 2;
    }
}
NO_EGRESS
DEPARSER { apply { packet.emit(hdr.options); } }
SWITCH
