// SPDX-License-Identifier: Apache-2.0
// Sends every packet back to where it came from and says so. Rebuild:
//     p4c-bm2-ss --arch v1model --p4runtime-files reflect.p4info.txtpb -o reflect.json reflect.p4

#include <core.p4>
#include <v1model.p4>

struct headers_t { }

struct metadata_t { }

parser ReflectParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition accept;
    }
}

control ReflectIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = std.ingress_port;
        log_msg("{} bytes from port {}", { std.packet_length, std.ingress_port });
    }
}

control ReflectEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control ReflectChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ReflectDeparser(packet_out packet, in headers_t hdr) {
    apply { }
}

V1Switch(ReflectParser(), ReflectChecksum(), ReflectIngress(), ReflectEgress(), ReflectChecksum(),
         ReflectDeparser()) main;
