// SPDX-License-Identifier: Apache-2.0
// A register of 48-bit values: read, written, incremented, combined.
#include "lib.p4"

header h_t {
    bit<8> op;
    bit<8> index;
    bit<48> value;
    bit<8> pad;
}
struct meta_t { bit<48> v; }
struct headers_t { h_t h; }
PLAIN_PARSER
NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER

INGRESS {
    register<bit<48>>(8) r;
    apply {
        if (!hdr.h.isValid()) {
            mark_to_drop(std);
            exit;
        }
        std.egress_spec = 2;
        r.read(meta.v, (bit<32>)hdr.h.index);
        if (hdr.h.op == 0) {
            r.write((bit<32>)hdr.h.index, hdr.h.value);
        } else if (hdr.h.op == 1) {
            r.write((bit<32>)hdr.h.index, meta.v + 1);
        } else if (hdr.h.op == 2) {
            r.write((bit<32>)hdr.h.index, meta.v ^ hdr.h.value);
        }
        hdr.h.value = meta.v;
    }
}
NO_EGRESS
SWITCH
