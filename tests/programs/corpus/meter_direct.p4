// SPDX-License-Identifier: Apache-2.0
// Direct meters: the table's entry meters its packets; red ones are dropped.
#include "lib.p4"

header head_t { bit<8> a; bit<8> b; bit<8> color; }
struct headers_t { head_t h; }
struct meta_t { bit<2> color; bit<8> wide_color; }

PLAIN_PARSER

INGRESS {
    direct_meter<bit<2>>(MeterType.packets) packets;
    direct_meter<bit<8>>(MeterType.bytes) bytes;

    action by_packets() { packets.read(meta.color); }
    action by_bytes() { bytes.read(meta.wide_color); }

    table first {
        key = { hdr.h.a: exact; }
        actions = { by_packets; @defaultonly NoAction; }
        default_action = NoAction();
        meters = packets;
    }

    table second {
        key = { hdr.h.b: exact; }
        actions = { by_bytes; @defaultonly NoAction; }
        default_action = NoAction();
        meters = bytes;
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            meta.color = 0;
            meta.wide_color = 0;
            first.apply();
            second.apply();
            hdr.h.color = (bit<8>)meta.color << 4 | meta.wide_color;
            if (meta.color == 2) {
                mark_to_drop(std);
            }
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
