// SPDX-License-Identifier: Apache-2.0
// Default actions: given in the program, changed by the controller, constant, and that of a table without keys.
#include "lib.p4"

header head_t { bit<8> key; bit<8> a; bit<8> b; bit<8> c; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    action set_a(bit<8> v) { hdr.h.a = v; }
    action set_b(bit<8> v) { hdr.h.b = v; }
    action set_c(bit<8> v) { hdr.h.c = v; }

    table changeable {
        key = { hdr.h.key: exact; }
        actions = { set_a; NoAction; }
        default_action = set_a(0x5a);
    }

    table fixed {
        key = { hdr.h.key: exact; }
        actions = { set_b; NoAction; }
        const default_action = set_b(0xb5);
    }

    table keyless {
        actions = { set_c; NoAction; }
        default_action = NoAction();
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            changeable.apply();
            fixed.apply();
            keyless.apply();
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
