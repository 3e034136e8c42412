// SPDX-License-Identifier: Apache-2.0
// A resubmitted packet is cloned and multicast, its copies recirculated once: every kind of instance in one run.
#include "lib.p4"

header head_t { bit<8> op; bit<8> kinds; bit<16> rid; bit<8> rounds; }
struct headers_t { head_t h; }
struct meta_t { @field_list(1) bit<8> rounds; @field_list(1) bit<8> kinds; }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            meta.kinds = meta.kinds | (8w1 << (bit<8>)std.instance_type);
            if (meta.rounds == 0 && (hdr.h.op & 1) == 1) {
                meta.rounds = 1;
                resubmit_preserving_field_list(1);
            } else if (meta.rounds < 2) {
                if ((hdr.h.op & 2) == 2) {
                    clone_preserving_field_list(CloneType.I2E, 1, 1);
                }
                if ((hdr.h.op & 4) == 4) {
                    std.mcast_grp = 3;
                }
            }
        }
    }
}

EGRESS {
    apply {
        if (hdr.h.isValid()) {
            hdr.h.kinds = meta.kinds | (8w1 << (bit<8>)std.instance_type);
            hdr.h.rid = std.egress_rid;
            hdr.h.rounds = meta.rounds;
            if ((hdr.h.op & 8) == 8 && meta.rounds < 2) {
                meta.kinds = hdr.h.kinds;
                meta.rounds = 2;
                recirculate_preserving_field_list(1);
            }
        }
    }
}

NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER
SWITCH
