// SPDX-License-Identifier: Apache-2.0
// A loop in the parser extracts the same header over and over: the last one stays.
#include "lib.p4"

header count_t { bit<8> n; bit<32> sum; }
header word_t { bit<8> v; }
struct headers_t { count_t count; word_t word; }
struct meta_t { bit<8> left; bit<32> sum; }

PARSER {
    state start {
        packet.extract(hdr.count);
        meta.left = hdr.count.n;
        transition select(meta.left) { 0: accept; default: word; }
    }
    state word {
        packet.extract(hdr.word);
        meta.sum = meta.sum + (bit<32>)hdr.word.v;
        meta.left = meta.left - 1;
        transition select(meta.left) { 0: accept; default: word; }
    }
}
NO_VERIFY
NO_UPDATE

INGRESS {
    apply {
        if (!hdr.count.isValid()) {
            mark_to_drop(std);
            exit;
        }
        hdr.count.sum = meta.sum;
        std.egress_spec = 2;
    }
}
NO_EGRESS
DEPARSER { apply { packet.emit(hdr.count); packet.emit(hdr.word); } }
SWITCH
