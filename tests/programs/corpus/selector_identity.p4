// SPDX-License-Identifier: Apache-2.0
// An action selector: the hash of the selector fields picks the member of the group (identity).
#include "lib.p4"

header head_t { bit<8> key; bit<32> flow; bit<16> label; bit<8> small; bit<16> r; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    @max_group_size(16)
    action_selector(HashAlgorithm.identity, 128, 14) members;

    action set_r(bit<16> v) { hdr.h.r = v; }
    action zero() { hdr.h.r = 0; }

    table choose {
        key = {
            hdr.h.key: exact;
            hdr.h.flow: selector;
            hdr.h.label: selector;
            hdr.h.small: selector;
        }
        actions = { set_r; zero; @defaultonly NoAction; }
        default_action = NoAction();
        implementation = members;
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            choose.apply();
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
