// SPDX-License-Identifier: Apache-2.0
// Counter arrays by index, also in egress, also beyond the end.
#include "lib.p4"

header head_t { bit<32> index; bit<8> more; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    counter(8, CounterType.packets) packets;
    counter(8, CounterType.bytes) bytes;
    counter(4, CounterType.packets_and_bytes) both;

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            packets.count(hdr.h.index);
            bytes.count((bit<32>)(hdr.h.more & 7));
            both.count(hdr.h.index);
            both.count(1);
        }
    }
}

EGRESS {
    counter(512, CounterType.packets_and_bytes) ports;

    apply {
        ports.count((bit<32>)std.egress_port);
        if (hdr.h.isValid() && hdr.h.more == 1) {
            ports.count(500);
        }
    }
}

NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER
SWITCH
