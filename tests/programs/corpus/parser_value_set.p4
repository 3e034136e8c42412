// SPDX-License-Identifier: Apache-2.0
// Value sets: whole field, two fields; the controller fills them (empty when the pipeline is pushed).
#include "lib.p4"

header head_t { bit<16> kind; bit<8> port; bit<8> path; }
header a_t { bit<8> value; }
header b_t { bit<16> value; }
struct headers_t { head_t h; a_t a; b_t b; }
struct meta_t { }
struct pair_t {
    @match(exact) bit<16> kind;
    @match(exact) bit<8> port;
}

PARSER {
    value_set<bit<16>>(4) kinds;
    value_set<pair_t>(4) pairs;

    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.kind) {
            kinds: in_kinds;
            0x0800: accept;
            default: try_pairs;
        }
    }

    state in_kinds {
        packet.extract(hdr.a);
        transition accept;
    }

    state try_pairs {
        transition select(hdr.h.kind, hdr.h.port) {
            pairs: in_pairs;
            default: accept;
        }
    }

    state in_pairs {
        packet.extract(hdr.b);
        transition accept;
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hdr.h.path = 6w0 ++ (bit<1>)hdr.a.isValid() ++ (bit<1>)hdr.b.isValid();
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
