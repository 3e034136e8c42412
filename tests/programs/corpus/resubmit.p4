// SPDX-License-Identifier: Apache-2.0
// resubmit: the original packet again, with the metadata of a list; the parser sees the instance type.
#include "lib.p4"

header head_t { bit<8> rounds; bit<8> value; bit<8> kind; bit<16> kept; bit<8> lost; bit<8> parsed_kind; }
struct headers_t { head_t h; }
struct meta_t {
    @field_list(1, 2) bit<8> passes;
    @field_list(2) bit<16> kept;
    bit<8> lost;
    bit<8> parsed_kind;
}

PARSER {
    state start {
        packet.extract(hdr.h);
        meta.parsed_kind = (bit<8>)std.instance_type;
        transition accept;
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hdr.h.kind = (bit<8>)std.instance_type;
            hdr.h.value = hdr.h.value + 1;
            hdr.h.kept = meta.kept;
            hdr.h.lost = meta.lost;
            hdr.h.parsed_kind = meta.parsed_kind;
            meta.lost = 9;
            meta.kept = meta.kept + 0x100;
            if (meta.passes < (hdr.h.rounds & 3)) {
                meta.passes = meta.passes + 1;
                if (hdr.h.rounds >= 128) {
                    resubmit_preserving_field_list(2);
                } else {
                    resubmit_preserving_field_list(1);
                }
            }
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
