// SPDX-License-Identifier: Apache-2.0
// Included by the other programs here: the parts of a v1model switch that they do not need.
#include <core.p4>
#include <v1model.p4>

#define NOTHING(name) control name(inout headers_t hdr, inout meta_t meta) { apply { } }
#define NO_EGRESS control TheEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
#define EMIT_ALL control TheDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
#define PARSER parser TheParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std)
#define INGRESS control TheIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std)
#define EGRESS control TheEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std)
