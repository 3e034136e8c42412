// SPDX-License-Identifier: Apache-2.0
// A program with all that tests must set: every match kind, a register, a checksum, random numbers; and dead code.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  kind;
    bit<8>  a;
    bit<16> b;
    bit<32> c;
    bit<16> sum;
}

struct headers { h_t h; }
struct meta_t { bit<16> count; bit<8> draw; }

parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(hdr.h);
        transition select(hdr.h.kind) {
            1: accept;
            2 &&& 0xfe: more;
            default: reject_it;
        }
    }
    state more {
        verify(hdr.h.a > 7, error.NoMatch);
        transition accept;
    }
    state reject_it {
        verify(false, error.ParserInvalidArgument);
        transition accept;
    }
}

control V(inout headers hdr, inout meta_t m) {
    apply {
        verify_checksum(hdr.h.isValid(), { hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c }, hdr.h.sum, HashAlgorithm.csum16);
    }
}

control I(inout headers hdr, inout meta_t m, inout standard_metadata_t s) {
    register<bit<16>>(16) counts;

    action to(bit<9> port) { s.egress_spec = port; }
    action drop() { mark_to_drop(s); }
    action set_b(bit<16> value) { hdr.h.b = value; }

    table exact_t { key = { hdr.h.a: exact; } actions = { to; drop; } default_action = drop(); }
    table lpm_t { key = { hdr.h.c: lpm; } actions = { set_b; NoAction; } default_action = NoAction(); }
    table ternary_t { key = { hdr.h.b: ternary; hdr.h.kind: optional; } actions = { set_b; NoAction; } }
    table range_t { key = { hdr.h.c: range; } actions = { set_b; NoAction; } }

    apply {
        if (s.checksum_error == 1) {
            drop();
            exit;
        }
        if (s.parser_error == error.NoError) {
            exact_t.apply();
            lpm_t.apply();
            ternary_t.apply();
            range_t.apply();
            counts.read(m.count, (bit<32>)hdr.h.a[3:0]);
            if (m.count == 0xbeef) {
                hdr.h.c = 0;
            }
            if (hdr.h.kind == 1 && hdr.h.kind != 1) {
                hdr.h.c = 1;
            }
            random(m.draw, 0, 255);
            hdr.h.kind = m.draw;
            if (m.draw == 3) {
                hdr.h.c = 2;
            }
        }
    }
}

control E(inout headers hdr, inout meta_t m, inout standard_metadata_t s) { apply { } }

control C(inout headers hdr, inout meta_t m) {
    apply {
        update_checksum(hdr.h.isValid(), { hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c }, hdr.h.sum, HashAlgorithm.csum16);
    }
}

control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
