// SPDX-License-Identifier: Apache-2.0
// Direct counters of packets, bytes and both; the table counts whether its action asks for it or not.
#include "lib.p4"

header head_t { bit<8> a; bit<8> b; bit<8> r; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    direct_counter(CounterType.packets) packets;
    direct_counter(CounterType.bytes) bytes;
    direct_counter(CounterType.packets_and_bytes) both;

    action counted(bit<8> v) { packets.count(); hdr.h.r = v; }
    action silent(bit<8> v) { hdr.h.r = v; }
    action default_counted() { both.count(); }

    table by_packet {
        key = { hdr.h.a: exact; }
        actions = { counted; @defaultonly NoAction; }
        default_action = NoAction();
        counters = packets;
    }

    table by_byte {
        key = { hdr.h.b: ternary; }
        actions = { silent; @defaultonly NoAction; }
        default_action = NoAction();
        counters = bytes;
    }

    table by_both {
        key = { hdr.h.a: exact; hdr.h.b: exact; }
        actions = { default_counted; }
        default_action = default_counted();
        counters = both;
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            by_packet.apply();
            by_byte.apply();
            by_both.apply();
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
