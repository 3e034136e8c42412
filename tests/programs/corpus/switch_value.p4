// SPDX-License-Identifier: Apache-2.0
// switch over a value rather than over action_run.
#include "lib.p4"

header h_t { bit<8> k; bit<8> r; bit<16> s; }
struct meta_t { }
struct headers_t { h_t h; }
PLAIN_PARSER
NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER

INGRESS {
    apply {
        if (!hdr.h.isValid()) {
            mark_to_drop(std);
            exit;
        }
        std.egress_spec = 2;
        switch (hdr.h.k) {
            0: { hdr.h.r = 10; }
            1:
            2: { hdr.h.r = 12; }
            5: { hdr.h.r = 15; hdr.h.s = hdr.h.s + 1; }
            default: { hdr.h.r = 99; }
        }
    }
}
NO_EGRESS
SWITCH
