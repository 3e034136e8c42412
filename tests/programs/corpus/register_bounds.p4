// SPDX-License-Identifier: Apache-2.0
// Registers beyond the end: a write is lost, a read leaves the variable alone; several accesses in one packet.
#include "lib.p4"

header head_t { bit<32> index; bit<32> before; bit<32> after; }
struct headers_t { head_t h; }
struct meta_t { bit<32> value; }

PLAIN_PARSER

INGRESS {
    register<bit<32>>(5) values;

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            meta.value = 0x5eed;
            values.read(meta.value, hdr.h.index);
            hdr.h.before = meta.value;
            values.write(hdr.h.index, hdr.h.before + 1);
            meta.value = 0x7777;
            values.read(meta.value, hdr.h.index);
            values.write(0, meta.value);
            hdr.h.after = meta.value;
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
