// SPDX-License-Identifier: Apache-2.0
// Tables whose entries obey restrictions and refer to each other.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  kind;
    bit<8>  flags;
    bit<16> id;
    bit<32> address;
    bit<48> rest;
}

struct headers { h_t h; }
struct meta_t { bit<16> hop; }

parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}

control V(inout headers hdr, inout meta_t m) { apply { } }

control I(inout headers hdr, inout meta_t m, inout standard_metadata_t s) {
    @action_restriction("port > 3 && port < 64")
    action out_of(bit<9> port) { s.egress_spec = port; }
    action set_hop(@refers_to(hops, id) bit<16> id) { m.hop = id; }
    action mark(bit<8> flags) { hdr.h.flags = flags; }

    @entry_restriction("address::prefix_length != 0; kind != 7")
    table routes {
        key = { hdr.h.address: lpm @name("address"); hdr.h.kind: exact @name("kind"); }
        actions = { set_hop; NoAction; }
        default_action = NoAction();
    }
    @entry_restriction("
        // An id is given only for packets of kind 1.
        id::mask != 0 -> kind == 1;
        flags::mask == 0 || flags::mask == 0xff;
        ::priority < 5
    ")
    table rules {
        key = { hdr.h.kind: optional @name("kind"); hdr.h.id: ternary @name("id"); hdr.h.flags: ternary @name("flags"); }
        actions = { mark; NoAction; }
        default_action = NoAction();
        size = 3;
    }
    table hops {
        key = { m.hop: exact @name("id"); }
        actions = { out_of; NoAction; }
        default_action = NoAction();
        size = 2;
    }

    apply {
        if (rules.apply().hit) {
            if (hdr.h.kind == 1 && hdr.h.id == 5) { hdr.h.id = 6; }
            if (hdr.h.kind == 2) { hdr.h.id = 7; }
        }
        if (routes.apply().hit && hdr.h.kind == 7) { hdr.h.id = 8; }
        hops.apply();
    }
}

control E(inout headers hdr, inout meta_t m, inout standard_metadata_t s) { apply { } }

control C(inout headers hdr, inout meta_t m) { apply { } }

control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
