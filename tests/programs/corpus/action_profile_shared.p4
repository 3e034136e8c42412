// SPDX-License-Identifier: Apache-2.0
// One action profile for two tables, with actions that add up.
#include "lib.p4"

header head_t { bit<8> a; bit<8> b; bit<16> r; bit<16> s; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    action_profile(32) shared_profile;

    action set_r(bit<16> v) { hdr.h.r = v; }
    action add_s(bit<8> n) { hdr.h.s = hdr.h.s + (bit<16>)n; }

    table first {
        key = { hdr.h.a: exact; }
        actions = { set_r; add_s; }
        implementation = shared_profile;
    }

    table second {
        key = { hdr.h.b: ternary; }
        actions = { set_r; add_s; }
        implementation = shared_profile;
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            if (!first.apply().hit) {
                hdr.h.s = 0xdead;
            }
            second.apply();
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
