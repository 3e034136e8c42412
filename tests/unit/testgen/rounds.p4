// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

header rounds_t { bit<8> left; bit<8> gone; }
struct headers { rounds_t rounds; }
struct metadata {}

parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.rounds);
        transition accept;
    }
}
control V(inout headers hdr, inout metadata meta) { apply {} }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {
    apply { std.egress_spec = 1; }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {
    apply {
        if (hdr.rounds.left == 255) {
            recirculate_preserving_field_list(0);
        } else if (hdr.rounds.left > 0) {
            hdr.rounds.left = hdr.rounds.left - 1;
            hdr.rounds.gone = hdr.rounds.gone + 1;
            recirculate_preserving_field_list(0);
        }
    }
}
control C(inout headers hdr, inout metadata meta) { apply {} }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.rounds); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
