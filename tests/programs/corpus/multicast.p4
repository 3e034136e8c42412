// SPDX-License-Identifier: Apache-2.0
// Multicast groups: every replica knows its port and its replication id; an unknown group drops; egress prunes.
#include "lib.p4"

header head_t { bit<16> group; bit<8> drop_after; bit<16> rid; bit<16> port; bit<8> kind; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            std.mcast_grp = hdr.h.group & 7;
            if (hdr.h.drop_after == 1) {
                mark_to_drop(std);
            } else if (hdr.h.drop_after == 2) {
                mark_to_drop(std);
                std.mcast_grp = 2;
            }
        }
    }
}

EGRESS {
    apply {
        if (hdr.h.isValid()) {
            hdr.h.rid = std.egress_rid;
            hdr.h.port = (bit<16>)std.egress_port;
            hdr.h.kind = (bit<8>)std.instance_type;
            if (hdr.h.drop_after == 3 && std.egress_port == std.ingress_port) {
                mark_to_drop(std);
            }
        }
    }
}

NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER
SWITCH
