// SPDX-License-Identifier: Apache-2.0
// Clones from ingress to egress: the packet as it came in, the fields of a list, several sessions, one of them unknown.
#include "lib.p4"

header head_t { bit<8> session; bit<8> list; bit<8> value; bit<8> kind; bit<16> kept; bit<8> lost; }
struct headers_t { head_t h; }
struct meta_t {
    @field_list(1) bit<16> kept;
    @field_list(2) bit<8>  other;
    bit<8> lost;
}

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            meta.kept = 0x1234;
            meta.other = 0x56;
            meta.lost = 0x78;
            hdr.h.value = 0xff;
            if (hdr.h.list == 1) {
                clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.h.session, 1);
            } else if (hdr.h.list == 2) {
                clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.h.session, 2);
            } else if (hdr.h.list == 3) {
                clone(CloneType.I2E, 1);
            }
            if (hdr.h.kind == 0x0d) {
                mark_to_drop(std);
            }
        }
    }
}

EGRESS {
    apply {
        if (hdr.h.isValid()) {
            hdr.h.kind = (bit<8>)std.instance_type;
            hdr.h.kept = meta.kept + (bit<16>)meta.other;
            hdr.h.lost = meta.lost;
        }
    }
}

NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER
SWITCH
