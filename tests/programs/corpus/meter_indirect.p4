// SPDX-License-Identifier: Apache-2.0
// Meter arrays of packets and bytes: colour by index; an unconfigured meter is green.
#include "lib.p4"

header head_t { bit<8> index; bit<8> packets; bit<8> bytes; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    meter(8, MeterType.packets) packet_meter;
    meter(8, MeterType.bytes) byte_meter;

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            packet_meter.execute_meter((bit<32>)(hdr.h.index & 7), hdr.h.packets);
            byte_meter.execute_meter((bit<32>)(hdr.h.index & 7), hdr.h.bytes);
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
