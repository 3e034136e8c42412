// SPDX-License-Identifier: Apache-2.0
// What a trace has to live through: a packet's first octet says what happens to it.
#include "lib.p4"

header head_t { bit<8> what; bit<8> rounds; bit<8> value; bit<8> rest; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.what == 2) {
            resubmit_preserving_field_list(0); // as often as it comes
        } else if (hdr.h.what == 4) {
            assert(hdr.h.value == 7);
        } else if (hdr.h.what == 5) {
            assume(hdr.h.value == 7);
        }
    }
}

EGRESS {
    apply {
        if (hdr.h.what == 1 || hdr.h.what == 6 && hdr.h.rounds != 0) {
            hdr.h.rounds = hdr.h.rounds - 1;
            recirculate_preserving_field_list(0);
        } else if (hdr.h.what == 3) {
            clone_preserving_field_list(CloneType.E2E, 1, 0); // each clone has a clone
        }
    }
}

NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER
SWITCH
