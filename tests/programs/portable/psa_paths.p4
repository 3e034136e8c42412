// SPDX-License-Identifier: Apache-2.0
// All ways of a packet through PSA: its first byte says which one, and egress writes down how it came.
#include <core.p4>
#include <bmv2/psa.p4>

header order_t {
    bit<8>  what;
    bit<8>  passes;   // times that ingress has seen what it wrote itself
    bit<8>  path;     // at ingress in the upper half, at egress in the lower
    bit<8>  class;
    bit<16> instance;
    bit<16> number;   // of a port, group or session
}

struct empty_t { }
struct meta_t { bit<8> path; }
struct headers_t { order_t order; }

const bit<8> NOTHING = 1;
const bit<8> MULTICAST = 2;
const bit<8> RESUBMIT = 3;
const bit<8> RECIRCULATE = 4;
const bit<8> CLONE_INGRESS = 5;
const bit<8> CLONE_EGRESS = 6;
const bit<8> CLONE_AND_DROP = 7;
const bit<8> DROP_IN_EGRESS = 8;

parser MyIngressParser(packet_in b, out headers_t h, inout meta_t m, in psa_ingress_parser_input_metadata_t i,
                     in empty_t resubmitted, in empty_t recirculated) {
    state start {
        b.extract(h.order);
        transition accept;
    }
}

control MyIngress(inout headers_t h, inout meta_t m, in psa_ingress_input_metadata_t i,
                inout psa_ingress_output_metadata_t o) {
    apply {
        bit<8> path = 0;
        if (i.packet_path == PSA_PacketPath_t.RESUBMIT) { path = 5; }
        if (i.packet_path == PSA_PacketPath_t.RECIRCULATE) { path = 6; }
        if (i.parser_error != error.NoError) { exit; }
        h.order.passes = h.order.passes + 1;
        h.order.path = path << 4;
        o.class_of_service = (ClassOfService_t) h.order.class;
        o.drop = false;
        o.egress_port = (PortId_t) (PortIdUint_t) h.order.number;
        if (h.order.what == NOTHING) {
            ingress_drop(o);
        } else if (h.order.what == MULTICAST) {
            multicast(o, (MulticastGroup_t) (MulticastGroupUint_t) h.order.number);
        } else if (h.order.what == RESUBMIT) {
            if (path == 0) { o.resubmit = true; }
            o.egress_port = i.ingress_port;
        } else if (h.order.what == RECIRCULATE) {
            if (path == 0) { o.egress_port = PSA_PORT_RECIRCULATE; }
            if (path != 0 && i.ingress_port != PSA_PORT_RECIRCULATE) { ingress_drop(o); }
        } else if (h.order.what == CLONE_INGRESS) {
            o.clone = true;
            o.clone_session_id = (CloneSessionId_t) 8;
        } else if (h.order.what == CLONE_AND_DROP) {
            o.clone = true;
            o.clone_session_id = (CloneSessionId_t) 8;
            ingress_drop(o);
        }
    }
}

control MyIngressDeparser(packet_out b, out empty_t clone, out empty_t resubmitted, out empty_t normal,
                        inout headers_t h, in meta_t m, in psa_ingress_output_metadata_t o) {
    apply { b.emit(h.order); }
}

parser MyEgressParser(packet_in b, out headers_t h, inout meta_t m, in psa_egress_parser_input_metadata_t i,
                    in empty_t normal, in empty_t from_ingress, in empty_t from_egress) {
    state start {
        b.extract(h.order);
        transition accept;
    }
}

control MyEgress(inout headers_t h, inout meta_t m, in psa_egress_input_metadata_t i,
               inout psa_egress_output_metadata_t o) {
    apply {
        bit<8> path = 0;
        if (i.packet_path == PSA_PacketPath_t.NORMAL_UNICAST) { path = 1; }
        if (i.packet_path == PSA_PacketPath_t.NORMAL_MULTICAST) { path = 2; }
        if (i.packet_path == PSA_PacketPath_t.CLONE_I2E) { path = 3; }
        if (i.packet_path == PSA_PacketPath_t.CLONE_E2E) { path = 4; }
        h.order.path = h.order.path | path;
        h.order.class = (bit<8>) i.class_of_service;
        h.order.instance = (bit<16>) i.instance;
        if (h.order.what == CLONE_EGRESS && path == 1) {
            o.clone = true;
            o.clone_session_id = (CloneSessionId_t) 9;
        }
        if (h.order.what == DROP_IN_EGRESS) { egress_drop(o); }
    }
}

control MyEgressDeparser(packet_out b, out empty_t clone, out empty_t recirculated, inout headers_t h, in meta_t m,
                       in psa_egress_output_metadata_t o, in psa_egress_deparser_input_metadata_t d) {
    apply { b.emit(h.order); }
}

IngressPipeline(MyIngressParser(), MyIngress(), MyIngressDeparser()) ip;
EgressPipeline(MyEgressParser(), MyEgress(), MyEgressDeparser()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
