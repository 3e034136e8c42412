// SPDX-License-Identifier: Apache-2.0
// A table in egress whose key is the egress port and metadata carried over from ingress.
#include "lib.p4"

header h_t { bit<8> k; bit<8> r; bit<16> s; }
struct meta_t { bit<8> carried; }
struct headers_t { h_t h; }
PLAIN_PARSER
NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER

INGRESS {
    action to(bit<9> port, bit<8> carried) { std.egress_spec = port; meta.carried = carried; }
    table route {
        key = { hdr.h.k: exact; }
        actions = { to; NoAction; }
        default_action = to(2, 1);
        size = 16;
    }
    apply {
        if (!hdr.h.isValid()) {
            mark_to_drop(std);
            exit;
        }
        route.apply();
    }
}

EGRESS {
    action rewrite(bit<16> s) { hdr.h.s = s; hdr.h.r = meta.carried; }
    action drop() { mark_to_drop(std); }
    table t {
        key = { std.egress_port: exact; meta.carried: ternary; }
        actions = { rewrite; drop; NoAction; }
        default_action = NoAction();
        size = 16;
    }
    apply { t.apply(); }
}
SWITCH
