// SPDX-License-Identifier: Apache-2.0
// What every program of the corpus shares: the blocks of a v1model switch that do nothing of interest.
//
// A program defines headers_t (its first header mostly is `h`), meta_t, an INGRESS and, where it has something to show
// there, the other blocks; SWITCH puts them together. Results go into header fields, so that they leave with the packet.

#ifndef CORPUS_LIB_P4
#define CORPUS_LIB_P4

#include <core.p4>
#include <v1model.p4>

#define PARSER parser TheParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std)
#define INGRESS control TheIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std)
#define EGRESS control TheEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std)
#define VERIFY control TheVerify(inout headers_t hdr, inout meta_t meta)
#define UPDATE control TheUpdate(inout headers_t hdr, inout meta_t meta)
#define DEPARSER control TheDeparser(packet_out packet, in headers_t hdr)

// Extracts the header `h` and nothing else.
#define PLAIN_PARSER PARSER { state start { packet.extract(hdr.h); transition accept; } }
#define NO_VERIFY VERIFY { apply { } }
#define NO_EGRESS EGRESS { apply { } }
#define NO_UPDATE UPDATE { apply { } }
#define PLAIN_DEPARSER DEPARSER { apply { packet.emit(hdr); } }
#define SWITCH V1Switch(TheParser(), TheVerify(), TheIngress(), TheEgress(), TheUpdate(), TheDeparser()) main;

#endif
