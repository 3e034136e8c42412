// SPDX-License-Identifier: Apache-2.0
// log_msg with and without values changes nothing.
#include "lib.p4"

header head_t { bit<8> op; bit<32> value; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        log_msg("a packet");
        if (hdr.h.isValid()) {
            log_msg("op {} value {}", { hdr.h.op, hdr.h.value });
            hdr.h.value = hdr.h.value + 1;
            log_msg("now {}", { hdr.h.value });
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
