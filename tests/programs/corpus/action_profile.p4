// SPDX-License-Identifier: Apache-2.0
// An action profile: entries name members, members hold actions.
#include "lib.p4"

header h_t { bit<8> k; bit<8> r; bit<16> s; }
struct meta_t { }
struct headers_t { h_t h; }
PLAIN_PARSER
NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER

INGRESS {
    action_profile(64) profile;
    action set(bit<8> r) { hdr.h.r = r; }
    action to(bit<9> port) { std.egress_spec = port; }
    table t {
        key = { hdr.h.k: exact; }
        actions = { set; to; }
        implementation = profile;
        size = 64;
    }
    apply {
        if (!hdr.h.isValid()) {
            mark_to_drop(std);
            exit;
        }
        std.egress_spec = 2;
        t.apply();
    }
}
NO_EGRESS
SWITCH
