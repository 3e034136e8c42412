// SPDX-License-Identifier: Apache-2.0
// Types that the controller sees as strings or wider, wherever P4Info can have them: P4Info gives strings no width.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("", string)
type bit<9> port_name_t;
@p4runtime_translation("", 32)
type bit<9> port_number_t;

@controller_header("packet_in")
header packet_in_t {
    port_name_t ingress_port;
    port_number_t again;
    bit<6> unused;
}

@controller_header("packet_out")
header packet_out_t {
    port_name_t egress_port;
    bit<1> submit;
    bit<6> unused;
}

header payload_t {
    bit<8> kind;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    payload_t payload;
}

struct metadata_t {
    port_name_t name;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition select(std.ingress_port) {
            510: from_cpu;
            default: payload;
        }
    }
    state from_cpu {
        packet.extract(hdr.packet_out);
        transition payload;
    }
    state payload {
        packet.extract(hdr.payload);
        transition accept;
    }
}

control Nothing(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action send(port_name_t port) {
        std.egress_spec = (bit<9>) port;
    }
    action punt() {
        std.egress_spec = 510;
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = (port_name_t) std.ingress_port;
        hdr.packet_in.again = (port_number_t) std.ingress_port;
        hdr.packet_in.unused = 0;
    }
    table by_name {
        key = {
            meta.name: exact;
        }
        actions = {
            send;
            punt;
        }
        default_action = punt();
    }
    table by_kind {
        key = {
            hdr.payload.kind: exact;
        }
        actions = {
            send;
            punt;
        }
        default_action = punt();
    }
    apply {
        meta.name = (port_name_t) std.ingress_port;
        if (hdr.packet_out.isValid()) {
            std.egress_spec = (bit<9>) hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else if (hdr.payload.kind < 128) {
            by_kind.apply();
        } else {
            by_name.apply();
        }
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.payload);
    }
}

V1Switch(TheParser(), Nothing(), TheIngress(), TheEgress(), Nothing(), TheDeparser()) main;
