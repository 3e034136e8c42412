// SPDX-License-Identifier: Apache-2.0
// recirculate: the packet as the deparser left it, once more through the switch; its length is the new one.
#include "lib.p4"

header head_t { bit<8> rounds; bit<8> value; bit<8> kind; bit<8> passes; bit<32> length; }
header extra_t { bit<24> data; }
struct headers_t { extra_t extra; head_t h; }
struct meta_t { @field_list(1) bit<8> passes; bit<8> kind; }

PARSER {
    state start {
        transition select(std.instance_type) {
            4: again;
            default: head;
        }
    }

    state again {
        packet.extract(hdr.extra);
        transition head;
    }

    state head {
        packet.extract(hdr.h);
        transition accept;
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        meta.kind = (bit<8>)std.instance_type;
        if (hdr.h.isValid()) {
            hdr.h.length = std.packet_length;
        }
    }
}

EGRESS {
    apply {
        if (hdr.h.isValid()) {
            hdr.h.value = hdr.h.value + 1;
            hdr.h.passes = meta.passes;
            hdr.h.kind = meta.kind;
            if (meta.passes < (hdr.h.rounds & 3)) {
                meta.passes = meta.passes + 1;
                hdr.extra.setValid();
                hdr.extra.data = 0xabcdef;
                recirculate_preserving_field_list(1);
            }
        }
    }
}

NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER
SWITCH
