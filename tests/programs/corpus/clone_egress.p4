// SPDX-License-Identifier: Apache-2.0
// Clones from egress to egress: the packet as egress left it; a clone may be cloned again, up to a bound.
#include "lib.p4"

header head_t { bit<8> session; bit<8> rounds; bit<8> kind; bit<8> passes; }
struct headers_t { head_t h; }
struct meta_t { @field_list(1) bit<8> passes; bit<8> lost; }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        meta.lost = 7;
    }
}

EGRESS {
    apply {
        if (hdr.h.isValid()) {
            meta.passes = meta.passes + 1;
            hdr.h.passes = meta.passes + (meta.lost << 4);
            hdr.h.kind = (bit<8>)std.instance_type;
            if (meta.passes < (hdr.h.rounds & 3)) {
                clone_preserving_field_list(CloneType.E2E, (bit<32>)hdr.h.session, 1);
            }
            if (hdr.h.rounds == 0x0d) {
                mark_to_drop(std);
            }
        }
    }
}

NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER
SWITCH
