// SPDX-License-Identifier: Apache-2.0
// switch over the action that ran, with fall through, default and a miss.
#include "lib.p4"

header head_t { bit<8> key; bit<8> value; bit<8> branch; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    action add(bit<8> n) { hdr.h.value = hdr.h.value + n; }
    action clear() { hdr.h.value = 0; }
    action invert() { hdr.h.value = ~hdr.h.value; }
    action miss() { hdr.h.branch = 0xff; }

    table choose {
        key = { hdr.h.key: ternary; }
        actions = { add; clear; invert; miss; }
        default_action = miss();
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hdr.h.branch = 0;
            switch (choose.apply().action_run) {
                add: { hdr.h.branch = hdr.h.branch + 1; }
                clear:
                invert: { hdr.h.branch = hdr.h.branch + 2; }
                default: { hdr.h.branch = hdr.h.branch - 1; }
            }
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
