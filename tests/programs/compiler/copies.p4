// SPDX-License-Identifier: Apache-2.0
// Clones, resubmission, recirculation, multicast, digests, truncation, exit, drop.
#include "frame.p4"

header op_t  { bit<8> op; bit<8> passes; bit<8> kind; bit<16> kept; bit<16> length; bit<9> port; bit<7> pad; }
header add_t { bit<64> filler; }
struct headers_t { op_t op; add_t add; }
struct digest_t { bit<8> op; bit<16> value; bit<9> port; }
struct meta_t { @field_list(1, 2) bit<16> kept; @field_list(2) bit<8> passes; bit<16> lost; }

PARSER {
    state start {
        packet.extract(hdr.op);
        transition accept;
    }
}

INGRESS {
    table leave { actions = { NoAction; } }
    apply {
        std.egress_spec = 1;
        meta.lost = meta.lost + 1;
        if (hdr.op.op == 1) { meta.kept = 0x1111; meta.passes = 9; clone_preserving_field_list(CloneType.I2E, 5, 1); }
        else if (hdr.op.op == 2 && meta.passes < 3) {
            meta.kept = meta.kept + 0x10;
            meta.passes = meta.passes + 1;
            resubmit_preserving_field_list(2);
        }
        else if (hdr.op.op == 3) { std.mcast_grp = 7; }
        else if (hdr.op.op == 4) { digest<digest_t>(1, { hdr.op.op, 0xBEEF, std.ingress_port }); }
        else if (hdr.op.op == 5) { truncate(6); }
        else if (hdr.op.op == 6) { mark_to_drop(std); }
        else if (hdr.op.op == 7) { hdr.op.kept = 0xAAAA; exit; }
        else if (hdr.op.op == 8) { hdr.add.setValid(); hdr.add.filler = 0x0102030405060708; }
        else if (hdr.op.op == 9) { std.mcast_grp = 7; mark_to_drop(std); }
        else if (hdr.op.op == 10) { truncate(0); }
        else if (hdr.op.op == 14) { clone(CloneType.I2E, 6); mark_to_drop(std); }
        leave.apply();
        if (hdr.op.op == 7) { hdr.op.kept = 0xBBBB; }
    }
}

EGRESS {
    apply {
        hdr.op.kind = (bit<8>)std.instance_type;
        hdr.op.length = (bit<16>)std.packet_length;
        hdr.op.port = std.egress_port;
        if (hdr.op.op != 7) { hdr.op.kept = meta.kept + meta.lost; }
        if (hdr.op.op == 11 && hdr.op.passes < 2) {
            hdr.op.passes = hdr.op.passes + 1;
            meta.kept = 0x2222;
            recirculate_preserving_field_list(1);
        }
        else if (hdr.op.op == 12 && std.instance_type != 2) {
            meta.kept = 0x3333;
            clone_preserving_field_list(CloneType.E2E, 5, 1);
            hdr.op.passes = 77;
        }
        else if (hdr.op.op == 13) { mark_to_drop(std); }
        if (std.instance_type == 5) { hdr.op.passes = (bit<8>)std.egress_rid; }
    }
}

NOTHING(TheVerify)
NOTHING(TheUpdate)
EMIT_ALL
V1Switch(TheParser(), TheVerify(), TheIngress(), TheEgress(), TheUpdate(), TheDeparser()) main;
