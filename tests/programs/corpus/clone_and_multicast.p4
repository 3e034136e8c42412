// SPDX-License-Identifier: Apache-2.0
// A clone session with several replicas beside a multicast group, and a clone of every replica.
#include "lib.p4"

header head_t { bit<8> op; bit<8> kind; bit<16> rid; bit<8> mark; }
struct headers_t { head_t h; }
struct meta_t { @field_list(1) bit<8> mark; }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            meta.mark = 0x11;
            if ((hdr.h.op & 1) == 1) {
                clone_preserving_field_list(CloneType.I2E, 3, 1);
            }
            if ((hdr.h.op & 2) == 2) {
                std.mcast_grp = 1;
            }
        }
    }
}

EGRESS {
    apply {
        if (hdr.h.isValid()) {
            hdr.h.kind = (bit<8>)std.instance_type;
            hdr.h.rid = std.egress_rid;
            hdr.h.mark = meta.mark;
            if ((hdr.h.op & 4) == 4 && std.instance_type != 2) {
                meta.mark = 0x22;
                clone_preserving_field_list(CloneType.E2E, 1, 1);
            }
        }
    }
}

NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER
SWITCH
